package version

import (
	"strconv"
	"strings"
)

// version is set by the linker: -X github.com/nodefirmware/node-firmware-operator/internal/version.version=v1.2.3
var version = "v0.1.0-dev"

// Current is the version of this build, as vMAJOR.MINOR.PATCH with or without a suffix. Builds without a number may be
// called otherwise.
func Current() string { return version }

// Major is the first number of a version such as v1.2.3; ok is false for what does not look like one.
func Major(v string) (major int, ok bool) {
	digits, rest, dotted := strings.Cut(strings.TrimPrefix(v, "v"), ".")
	if !dotted || rest == "" || strings.Trim(digits, "0123456789") != "" {
		return 0, false
	}
	major, err := strconv.Atoi(digits)
	return major, err == nil
}
