package mstflint

import (
	"errors"
	"fmt"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// query is the result of mstflint's query of a card or an image.
type query struct {
	// Type of the image: FS2 to FS4.
	Type string
	// Stored is empty for a card whose flash the tool could not read.
	Stored inventory.Version
	// Running is empty when it was not printed; for a card it is then the same as Stored.
	Running inventory.Version
	// PSID is empty when the tool finds none in the firmware.
	PSID string
	// PartNumber is printed only by some versions of the tool.
	PartNumber string
	// MAC and GUID are the base addresses, in lower-case hexadecimal digits; empty when blank.
	MAC, GUID string
	// Secure firmware does not allow its image to be read.
	Secure bool
}

// legacy reports whether the tool writes the card's flash itself, not through the card's firmware.
func (q query) legacy() bool { return q.Type == "FS2" }

func (q query) running() inventory.Version {
	if q.Running != "" {
		return q.Running
	}
	return q.Stored
}

// uniqueID is the base MAC in the kernel's notation, or the base GUID of a card without one; empty when it has neither.
func (q query) uniqueID() string {
	if q.MAC == "" {
		return q.GUID
	}
	pairs := make([]string, 0, 6)
	for i := 0; i+2 <= len(q.MAC); i += 2 {
		pairs = append(pairs, q.MAC[i:i+2])
	}
	return strings.Join(pairs, ":")
}

func parseQuery(out string) (query, error) {
	var q query
	for line := range strings.Lines(out) {
		key, value, ok := strings.Cut(strings.TrimRight(line, "\r\n"), ":")
		if !ok {
			continue
		}
		value = strings.TrimSpace(value)
		switch key {
		case "Image type":
			q.Type = value
		case "FW Version":
			q.Stored = inventory.NormalizeVersion(value)
		case "FW Version(Running)":
			q.Running = inventory.NormalizeVersion(value)
		case "PSID":
			q.PSID = known(value)
		case "Part Number":
			q.PartNumber = known(value)
		case "Security Attributes":
			q.Secure = strings.HasPrefix(value, "secure-fw")
		case "Base MAC", "MAC1", "Base MAC1", "MACs":
			q.MAC = address(q.MAC, value, 12)
		case "Base GUID", "GUID1", "Base GUID1", "GUIDs":
			q.GUID = address(q.GUID, value, 16)
		}
	}
	switch {
	case q.Type == "":
		return query{}, errors.New("parse mstflint query: no image type: this version of the tool is not supported")
	case q.Stored == "" && q.Running == "":
		return query{}, errors.New("parse mstflint query: no firmware version")
	}
	for _, v := range []inventory.Version{q.Stored, q.Running} {
		if v != "" && v.Compare("0", inventory.FormatDotted) == inventory.Incomparable {
			return query{}, fmt.Errorf("parse mstflint query: firmware version %q is not decimal numbers between dots", v)
		}
	}
	return q, nil
}

func known(value string) string {
	if value == "N/A" {
		return ""
	}
	return value
}

// address returns the first address of a line if none was seen before and it is valid: a blank card has all zeros or
// all ones.
func address(seen, value string, digits int) string {
	fields := strings.Fields(strings.ToLower(value))
	if seen != "" || len(fields) == 0 || len(fields[0]) != digits {
		return seen
	}
	a := fields[0]
	if strings.Trim(a, "0123456789abcdef") != "" || strings.Trim(a, "0") == "" || strings.Trim(a, "f") == "" {
		return ""
	}
	return a
}
