package host

import (
	"errors"
	"io/fs"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/sysfs"
)

// bios lists the system firmware. A machine without DMI tables has none that could be named.
func (h *Host) bios() ([]candidate, error) {
	dmi, err := sysfs.ReadDMI(h.cfg.FS)
	if dmi == nil || err != nil {
		return nil, err
	}
	board, err := h.systemFirmwareClass()
	return []candidate{{
		Device: inventory.Device{
			Identity: inventory.Identity{
				Class: inventory.BIOS, UniqueID: biosID(*dmi), BoardID: board,
				Vendor: dmi.SystemVendor, Model: dmi.ProductName, PartNumber: dmi.ProductSKU, SerialNumber: dmi.ProductSerial,
			},
			Err: err,
		},
		place: "bios",
	}}, nil
}

// systemFirmwareClass is the GUID that images for this machine carry, empty when UEFI publishes none, not just one, or
// not to this user.
func (h *Host) systemFirmwareClass() (string, error) {
	entries, err := sysfs.ESRT(h.cfg.FS)
	class, count := "", 0
	for _, e := range entries {
		err = errors.Join(err, e.Err)
		if e.Type != nil && *e.Type == sysfs.ESRTSystemFirmware {
			class = e.Class
			count++
		}
	}
	if errors.Is(err, fs.ErrPermission) {
		return "", nil
	}
	if count != 1 {
		class = ""
	}
	return class, err
}
