package mstflint

import (
	"regexp"
	"strconv"
)

// exitAborted is mstflint's exit code when it decided not to burn, for example because the card already holds the
// image.
const exitAborted = 7

var percentages = regexp.MustCompile(`(\d{1,3})%`)

// parsePercent returns the last percentage in a piece of mstflint's progress output, which overwrites itself with
// carriage returns.
func parsePercent(text string) (percent int, found bool) {
	all := percentages.FindAllStringSubmatch(text, -1)
	if len(all) == 0 {
		return 0, false
	}
	n, err := strconv.Atoi(all[len(all)-1][1])
	return n, err == nil && n <= 100
}
