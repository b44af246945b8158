package catalog

import (
	"strings"

	"github.com/google/uuid"
)

// GUIDs are the ids by which LVFS metadata names the devices of a component: the UUID of version 5 in the name space of DNS of each
// instance id that fwupd makes for such a device (fwupd, "Device GUIDs"), and the board id where that is a GUID itself, as the ESRT
// gives system firmware one. They are in lower case.
func (c Component) GUIDs() []string {
	var out []string
	if id, err := uuid.Parse(strings.TrimSpace(c.BoardID)); err == nil {
		out = append(out, id.String())
	}
	if c.VendorID != "" && c.DeviceID != "" {
		ids := `VEN_` + strings.ToUpper(c.VendorID) + `&DEV_` + strings.ToUpper(c.DeviceID)
		out = append(out, instanceGUID(`PCI\`+ids))
		if c.Class == "Disk" {
			out = append(out, instanceGUID(`NVME\`+ids))
		}
	}
	if c.Class == "Disk" && strings.TrimSpace(c.Model) != "" {
		out = append(out, instanceGUID(strings.TrimSpace(c.Model)))
	}
	return out
}

func instanceGUID(id string) string { return uuid.NewSHA1(uuid.NameSpaceDNS, []byte(id)).String() }
