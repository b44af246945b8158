package sysfs

import (
	"fmt"
	"io/fs"
	"regexp"
	"strings"
	"time"
)

const uptimeFile = "proc/uptime"

var secondsForm = regexp.MustCompile(`^[0-9]+(\.[0-9]+)?$`)

// Uptime is how long the kernel has been running (the first number of proc/uptime, in seconds), zero when that file is
// absent. Time the machine was suspended counts.
func Uptime(fsys fs.FS) (time.Duration, error) {
	data, err := readFile(fsys, uptimeFile)
	if err != nil || data == nil {
		return 0, err
	}
	return parseUptime(string(data))
}

func parseUptime(text string) (time.Duration, error) {
	fields := strings.Fields(text)
	if len(fields) == 0 || !secondsForm.MatchString(fields[0]) {
		return 0, fmt.Errorf("read %s: %q does not begin with a number of seconds", uptimeFile, clean(text))
	}
	up, err := time.ParseDuration(fields[0] + "s")
	if err != nil {
		return 0, fmt.Errorf("read %s: %s seconds are too many", uptimeFile, fields[0])
	}
	return up, nil
}
