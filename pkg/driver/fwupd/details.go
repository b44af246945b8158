package fwupd

import (
	"errors"
	"regexp"
	"slices"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

type component struct {
	GUIDs   []string
	Version inventory.Version
}

// header matches a line that begins a device or a release: the branch of a tree, then a name and a colon. In the C
// locale box-drawing characters are printed as question marks.
var header = regexp.MustCompile(`(?:[├└]─|\?\?)\S.*:$`)

// parseDetails reads the output of get-details, a tree of devices with one release below each. fwupdtool ignores --json
// here. The text after a release's version, such as a description, is free text and not parsed.
func parseDetails(out string) ([]component, error) {
	var all []component
	var current component
	key := ""
	for line := range strings.Lines(out) {
		line = strings.TrimRight(line, " \r\n")
		if header.MatchString(line) {
			if current.Version != "" {
				all, current = append(all, current), component{}
			}
			key = ""
			continue
		}
		if current.Version != "" {
			continue
		}
		name, value, ok := strings.Cut(strings.TrimLeft(line, " ?│"), ":")
		if ok {
			key = name
		} else {
			value = name
		}
		// A GUID is followed by its origin: "230c8b18-… ← main-system-firmware".
		value = strings.TrimSpace(value)
		switch key {
		case "GUID", "GUIDs":
			first, _, _ := strings.Cut(value, " ")
			if guid, err := parseGUID(first); err == nil {
				current.GUIDs = append(current.GUIDs, guid)
			}
		case "New version":
			current.Version = inventory.NormalizeVersion(value)
		}
	}
	if current.Version != "" {
		all = append(all, current)
	}
	if len(all) == 0 || slices.ContainsFunc(all, func(c component) bool { return len(c.GUIDs) == 0 }) {
		return nil, errors.New("parse get-details: a GUID or a version is missing: this version of fwupdtool is not supported")
	}
	return all, nil
}
