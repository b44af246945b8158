package mstflint

import (
	"errors"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// parseResetLevels reads the output of mstfwreset's query and returns the least disruptive kind of activation it
// offers: level 3 (driver restart and PCI reset) is a device reset, level 4 a warm reboot, and when neither is
// supported only a power-cycle is left. Level 3 needs somebody to synchronise the reset: it does not count when every
// listed owner is unsupported.
func parseResetLevels(out string) (inventory.Activation, error) {
	levels, owners := map[string]bool{}, map[string]bool{}
	section := ""
	for line := range strings.Lines(out) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "Reset-"):
			section, _, _ = strings.Cut(strings.TrimPrefix(line, "Reset-"), " ")
			section = strings.TrimSuffix(section, ":")
			continue
		case line == "":
			continue
		}
		number, rest, ok := strings.Cut(line, ":")
		if !ok || strings.Trim(number, "0123456789") != "" {
			continue
		}
		supported, err := parseSupported(rest)
		if err != nil {
			continue
		}
		switch section {
		case "levels":
			levels[number] = supported
		case "sync":
			owners[number] = supported
		}
	}
	level3, listed3 := levels["3"]
	level4, listed4 := levels["4"]
	switch {
	case !listed3 || !listed4:
		return 0, errors.New("parse mstfwreset query: reset levels 3 and 4 are not listed: this version of the tool prints something else")
	case level3 && anyTrue(owners):
		return inventory.ActivateDeviceReset, nil
	case level4:
		return inventory.ActivateReboot, nil
	}
	return inventory.ActivatePowerCycle, nil
}

// parseSupported reads what follows the last "-" of a line: "Supported", "Not Supported" or "Not supported", and
// "(default)".
func parseSupported(rest string) (bool, error) {
	i := strings.LastIndex(rest, "-")
	word := strings.ToLower(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest[i+1:]), "(default)")))
	switch {
	case i >= 0 && word == "supported":
		return true, nil
	case i >= 0 && word == "not supported":
		return false, nil
	}
	return false, errors.New("neither supported nor not supported")
}

// anyTrue is also true of an empty map: older tools list no owners.
func anyTrue(m map[string]bool) bool {
	for _, v := range m {
		if v {
			return true
		}
	}
	return len(m) == 0
}

// resetRefused reports whether mstfwreset's output says that this kind of reset does not work here and a reboot does.
func resetRefused(out string) bool {
	for _, text := range []string{"is not supported", "supports only reset-level", "reboot machine", "no supported reset-level"} {
		if strings.Contains(out, text) {
			return true
		}
	}
	return false
}
