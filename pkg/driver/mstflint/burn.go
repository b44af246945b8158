package mstflint

import (
	"regexp"
	"strconv"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
)

// exitAborted is mstflint's exit code when it decided not to burn, which it does when the card holds the image.
const exitAborted = 7

var percentages = regexp.MustCompile(`(\d{1,3})%`)

// parsePercent returns the last percentage of a piece of mstflint's progress output, which overwrites itself with
// carriage returns.
func parsePercent(text string) (percent int, found bool) {
	all := percentages.FindAllStringSubmatch(text, -1)
	if len(all) == 0 {
		return 0, false
	}
	n, err := strconv.Atoi(all[len(all)-1][1])
	return n, err == nil && n <= 100
}

// burnProgress turns lines of output into percentages that never fall: mstflint counts every stage of a burn anew.
func burnProgress(progress driver.Progress) func(line string) {
	if progress == nil {
		return nil
	}
	highest := -1
	return func(line string) {
		if n, ok := parsePercent(line); ok && n > highest {
			highest = n
			progress(n)
		}
	}
}
