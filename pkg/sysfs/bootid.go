package sysfs

import (
	"fmt"
	"io/fs"
	"regexp"
)

const bootIDFile = "proc/sys/kernel/random/boot_id"

var uuidForm = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// BootID is the UUID the kernel drew when the machine booted (proc/sys/kernel/random/boot_id), empty when it is absent.
func BootID(fsys fs.FS) (string, error) {
	data, err := readFile(fsys, bootIDFile)
	if err != nil || data == nil {
		return "", err
	}
	id := clean(string(data))
	if !uuidForm.MatchString(id) {
		return "", fmt.Errorf("read %s: %q is not a UUID", bootIDFile, id)
	}
	return id, nil
}
