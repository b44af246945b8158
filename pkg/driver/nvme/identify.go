package nvme

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// controller is the part of the Identify Controller data that is about firmware (NVMe Base Specification 2.0,
// figure 275).
type controller struct {
	VendorID            uint16
	Serial, Model       string
	Revision            inventory.Version
	Downloadable        bool
	Slots               int
	FirstSlotReadOnly   bool
	UpdateGranularityKB int
}

// parseController reads the output of nvme id-ctrl.
func parseController(out []byte) (controller, error) {
	var raw struct {
		VID  *uint16 `json:"vid"`
		SN   *string `json:"sn"`
		MN   *string `json:"mn"`
		FR   *string `json:"fr"`
		OACS *uint16 `json:"oacs"`
		FRMW *uint8  `json:"frmw"`
		FWUG uint8   `json:"fwug"`
	}
	if err := json.Unmarshal(out, &raw); err != nil {
		return controller{}, fmt.Errorf("parse id-ctrl: %w", err)
	}
	if raw.VID == nil || raw.SN == nil || raw.MN == nil || raw.FR == nil || raw.OACS == nil || raw.FRMW == nil {
		return controller{}, errors.New("parse id-ctrl: vid, sn, mn, fr, oacs or frmw is missing: nvme-cli 2.x is needed")
	}
	c := controller{
		VendorID: *raw.VID,
		Serial:   strings.TrimSpace(*raw.SN),
		Model:    strings.TrimSpace(*raw.MN),
		Revision: inventory.NormalizeVersion(*raw.FR),
		// OACS bit 2: Firmware Commit and Firmware Image Download.
		Downloadable: *raw.OACS&(1<<2) != 0,
		// FRMW bits 3:1 are the number of slots, bit 0 says that the first one is read-only.
		Slots:             int(*raw.FRMW >> 1 & 7),
		FirstSlotReadOnly: *raw.FRMW&1 != 0,
	}
	if c.Revision == "" {
		return controller{}, errors.New("parse id-ctrl: the firmware revision is empty")
	}
	// FWUG is in units of 4 KiB; 0 says nothing and 255 sets no limit.
	if raw.FWUG != 0xff {
		c.UpdateGranularityKB = int(raw.FWUG) * 4
	}
	return c, nil
}

// readOnly says why the controller takes no firmware, or nothing.
func (c controller) readOnly() string {
	switch {
	case !c.Downloadable:
		return "the drive does not support firmware download (OACS bit 2 is clear)"
	case c.Slots == 0:
		return "the drive reports no firmware slots"
	case c.Slots == 1 && c.FirstSlotReadOnly:
		return "the drive's only firmware slot is read-only"
	}
	return ""
}
