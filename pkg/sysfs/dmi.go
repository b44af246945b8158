package sysfs

import "io/fs"

// DMI is what the SMBIOS tables say about the machine (sys/class/dmi/id/). Fields that only root may read are empty for
// others.
type DMI struct {
	// SystemVendor, ProductName and ProductSKU name the machine (sys_vendor, product_name, product_sku).
	SystemVendor, ProductName, ProductSKU string
	// ProductSerial and ProductUUID identify it; root only (product_serial, product_uuid).
	ProductSerial, ProductUUID string
	// BoardVendor and BoardName name the main board (board_vendor, board_name).
	BoardVendor, BoardName string
	// BoardSerial identifies it; root only (board_serial).
	BoardSerial string
	// BIOSVendor, BIOSVersion, BIOSDate and BIOSRelease are of the firmware the machine booted with (bios_vendor,
	// bios_version, bios_date as mm/dd/yyyy, bios_release as major.minor).
	BIOSVendor, BIOSVersion, BIOSDate, BIOSRelease string
}

const dmiDir = "sys/class/dmi/id"

// ReadDMI is nil on a machine without SMBIOS tables.
func ReadDMI(fsys fs.FS) (*DMI, error) {
	names, err := list(fsys, dmiDir)
	if len(names) == 0 {
		return nil, err
	}
	a := attributes{fsys: fsys, dir: dmiDir}
	d := &DMI{
		SystemVendor: a.text("sys_vendor"), ProductName: a.text("product_name"), ProductSKU: a.text("product_sku"),
		ProductSerial: a.secret("product_serial"), ProductUUID: a.secret("product_uuid"),
		BoardVendor: a.text("board_vendor"), BoardName: a.text("board_name"), BoardSerial: a.secret("board_serial"),
		BIOSVendor: a.text("bios_vendor"), BIOSVersion: a.text("bios_version"),
		BIOSDate: a.text("bios_date"), BIOSRelease: a.text("bios_release"),
	}
	return d, a.err
}
