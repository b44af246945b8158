package catalog

import (
	"encoding/xml"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf16"

	"github.com/google/uuid"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// verdict is whether what a provider offers is for a component.
type verdict int

const (
	unknown verdict = iota
	meets
	fails
)

// maxPattern bounds a pattern of vendor ids in bytes, as fwupd does.
const maxPattern = 1024

// requirement is a child of the element requires, recommends or suggests of LVFS metadata (fwupd, "Requirements"; it checks all three).
type requirement struct {
	element, text, compare, version, depth string
}

func newRequirement(e xml.StartElement, text string) requirement {
	return requirement{
		element: e.Name.Local, text: strings.TrimSpace(text),
		compare: attribute(e, "compare"), version: attribute(e, "version"), depth: attribute(e, "depth"),
	}
}

// Need is a condition on the version that runs before an update.
type Need struct {
	// Compare is eq, ne, lt, le, gt or ge.
	Compare, Version string
}

// Met reports whether a running version meets the condition. One that cannot be compared does not.
func (n Need) Met(running string, spelled Spelling) bool {
	switch spelled.Compare(running, n.Version) {
	case inventory.Same:
		return slices.Contains([]string{"eq", "le", "ge"}, n.Compare)
	case inventory.Older:
		return slices.Contains([]string{"ne", "lt", "le"}, n.Compare)
	case inventory.Newer:
		return slices.Contains([]string{"ne", "gt", "ge"}, n.Compare)
	}
	return false
}

// need returns the condition on the running version that the requirement is; false when it is something else.
func (r requirement) need() (Need, bool) {
	own := r.element == "firmware" && r.text == "" && (r.depth == "" || r.depth == "0")
	ok := own && slices.Contains([]string{"eq", "ne", "lt", "le", "gt", "ge"}, r.compare) && r.version != "" && !strings.ContainsAny(r.version, "|=*")
	return Need{Compare: r.compare, Version: r.version}, ok
}

// judge says whether a component of a machine meets the requirement.
func (r requirement) judge(q Query, c Component) verdict {
	switch r.element {
	case "firmware":
		return r.judgeFirmware(c)
	case "hardware":
		if slices.ContainsFunc(q.hardwareIDs(), r.names) {
			return meets
		}
	case "not_hardware":
		if slices.ContainsFunc(q.hardwareIDs(), r.names) {
			return fails
		}
	case "id":
		if r.text == "org.freedesktop.fwupd" { // a version of the program that installs it, which says nothing about the device
			return meets
		}
	case "client":
		if !slices.ContainsFunc(strings.Split(r.text, "|"), func(f string) bool { return !slices.Contains(clientFeatures, f) }) {
			return meets
		}
	case "phased_update": // slows down how fast clients are offered it
		return meets
	}
	return unknown
}

// clientFeatures are what the program that shows an update may have to be able to, which says nothing about the device.
var clientFeatures = []string{
	"can-report", "detach-action", "update-action", "switch-branch", "requests", "fde-warning", "community-text", "show-problems",
	"allow-authentication", "requests-non-generic", "id-requirement-glob",
}

func (r requirement) judgeFirmware(c Component) verdict {
	if r.depth != "" && r.depth != "0" {
		return unknown
	}
	switch {
	case r.text == "vendor-id":
		return r.judgeVendor(c)
	case r.version == "" && slices.ContainsFunc(c.GUIDs(), r.names):
		return meets
	}
	return unknown
}

// judgeVendor compares the vendor ids that fwupd gives such a device with the pattern. The id of a BIOS is its own vendor, which may be
// another one than that of the machine.
func (r requirement) judgeVendor(c Component) verdict {
	ids := c.vendorIDs()
	if r.version == "" || len(r.version) > maxPattern || len(ids) == 0 {
		return unknown
	}
	pattern, err := regexp.Compile(r.version)
	switch {
	case err != nil:
		return unknown
	case pattern.MatchString(strings.Join(ids, "|")):
		return meets
	case c.Class == "BIOS":
		return unknown
	}
	return fails
}

// names reports whether the text of the requirement lists an id.
func (r requirement) names(id string) bool {
	return slices.ContainsFunc(strings.Split(r.text, "|"), func(s string) bool { return strings.EqualFold(strings.TrimSpace(s), id) })
}

// String is the requirement for people.
func (r requirement) String() string {
	out := "<" + r.element
	for _, a := range [][2]string{{"depth", r.depth}, {"compare", r.compare}, {"version", r.version}} {
		if a[1] != "" {
			out += fmt.Sprintf(" %s=%.64q", a[0], a[1])
		}
	}
	if out += fmt.Sprintf(">%.80s", r.text); printable(out) {
		return out
	}
	return "<?>"
}

// vendorIDs are the vendor ids that fwupd gives a device.
func (c Component) vendorIDs() (out []string) {
	switch id := "0x" + strings.ToUpper(c.VendorID); {
	case c.Class == "BIOS" && c.Vendor != "":
		return []string{"DMI:" + c.Vendor}
	case c.VendorID == "":
		return nil
	case c.Class == "Disk":
		return []string{"PCI:" + id, "NVME:" + id}
	default:
		return []string{"PCI:" + id}
	}
}

// microsoft is the name space of hardware ids of computers (Microsoft, "Specifying Hardware IDs for a Computer").
var microsoft = uuid.MustParse("70ffd812-4c7f-4c7d-0000-000000000000")

// hardwareIDs are those of the machine that can be made of its manufacturer and model: HardwareID-14 and HardwareID-09. The others are made
// of its family, product number, board and BIOS as well.
func (q Query) hardwareIDs() (out []string) {
	for _, text := range []string{q.Vendor, q.Vendor + "&" + q.Model} {
		var raw []byte
		for _, unit := range utf16.Encode([]rune(text)) {
			raw = append(raw, byte(unit), byte(unit>>8))
		}
		out = append(out, uuid.NewSHA1(microsoft, raw).String())
	}
	return out
}
