package simhost

import (
	"cmp"
	"strconv"
	"strings"
)

// compareDotted orders versions of decimal sections between dots.
func compareDotted(a, b string) int {
	x, y := strings.Split(a, "."), strings.Split(b, ".")
	for i := range max(len(x), len(y)) {
		if c := cmp.Compare(section(x, i), section(y, i)); c != 0 {
			return c
		}
	}
	return 0
}

func section(s []string, i int) int {
	if i >= len(s) {
		return 0
	}
	n, _ := strconv.Atoi(s[i])
	return n
}
