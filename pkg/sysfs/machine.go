package sysfs

import (
	"fmt"
	"io/fs"
	"regexp"

	"github.com/jaypipes/ghw/pkg/baseboard"
	"github.com/jaypipes/ghw/pkg/bios"
	"github.com/jaypipes/ghw/pkg/product"
	"github.com/jaypipes/ghw/pkg/util"
)

// DMI is what the SMBIOS tables say about the machine (sys/class/dmi/id/). Fields that only root may read are empty for
// others.
type DMI struct {
	// SystemVendor, ProductName and ProductSKU name the machine (sys_vendor, product_name, product_sku).
	SystemVendor, ProductName, ProductSKU string
	// ProductSerial and ProductUUID identify it; root only (product_serial, product_uuid).
	ProductSerial, ProductUUID string
	// BoardName names the main board (board_name), BoardSerial identifies it; root only (board_serial).
	BoardName, BoardSerial string
	// BIOSVersion is of the firmware the machine booted with (bios_version).
	BIOSVersion string
}

const dmiDir = "sys/class/dmi/id"

// ReadDMI is nil on a machine without SMBIOS tables. ghw reads the tables of a Tree. It says "unknown" of an attribute
// that is absent and of one that cannot be read, so the file itself decides.
func ReadDMI(fsys fs.FS) (*DMI, error) {
	names, err := list(fsys, dmiDir)
	if len(names) == 0 {
		return nil, err
	}
	d, err := ghwDMI(fsys)
	if err != nil {
		return nil, err
	}
	a := attributes{fsys: fsys, dir: dmiDir}
	for _, field := range []struct {
		value *string
		read  func(string) string
		name  string
	}{
		{&d.SystemVendor, a.text, "sys_vendor"},
		{&d.ProductName, a.text, "product_name"},
		{&d.ProductSKU, a.text, "product_sku"},
		{&d.ProductSerial, a.secret, "product_serial"},
		{&d.ProductUUID, a.secret, "product_uuid"},
		{&d.BoardName, a.text, "board_name"},
		{&d.BoardSerial, a.secret, "board_serial"},
		{&d.BIOSVersion, a.text, "bios_version"},
	} {
		if *field.value = clean(*field.value); *field.value == "" || *field.value == util.UNKNOWN {
			*field.value = field.read(field.name)
		}
	}
	return d, a.err
}

// ghwDMI is what ghw says, and nothing of a file system it cannot read.
func ghwDMI(fsys fs.FS) (*DMI, error) {
	t, ok := fsys.(Tree)
	if !ok {
		return &DMI{}, nil
	}
	machine, err := product.New(t.options()...)
	if err != nil {
		return nil, fmt.Errorf("read product: %w", err)
	}
	board, err := baseboard.New(t.options()...)
	if err != nil {
		return nil, fmt.Errorf("read main board: %w", err)
	}
	firmware, err := bios.New(t.options()...)
	if err != nil {
		return nil, fmt.Errorf("read BIOS: %w", err)
	}
	return &DMI{
		SystemVendor: machine.Vendor, ProductName: machine.Name, ProductSKU: machine.SKU,
		ProductSerial: machine.SerialNumber, ProductUUID: machine.UUID,
		BoardName: board.Product, BoardSerial: board.SerialNumber, BIOSVersion: firmware.Version,
	}, nil
}

const bootIDFile = "proc/sys/kernel/random/boot_id"

var uuidForm = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// BootID is the UUID the kernel drew when the machine booted (proc/sys/kernel/random/boot_id), empty when it is absent.
func BootID(fsys fs.FS) (string, error) {
	data, err := readFile(fsys, bootIDFile)
	if err != nil || data == nil {
		return "", err
	}
	id := clean(string(data))
	if !uuidForm.MatchString(id) {
		return "", fmt.Errorf("read %s: %q is not a UUID", bootIDFile, id)
	}
	return id, nil
}

// lockdownFile lists the levels of the kernel's lockdown and has brackets around the one in force
// (security/lockdown/lockdown.c).
const lockdownFile = "sys/kernel/security/lockdown"

var lockdownLevel = regexp.MustCompile(`\[(none|integrity|confidentiality)\]`)

// Lockdown is the level of the kernel's lockdown: "integrity" or "confidentiality", and empty without one. On either level the
// kernel lets no program write to the configuration space of a PCI device, as Secure Boot asks for. Where the security file
// system is not mounted, the level is not known and none is returned.
func Lockdown(fsys fs.FS) (string, error) {
	data, err := readFile(fsys, lockdownFile)
	if err != nil || data == nil {
		return "", err
	}
	m := lockdownLevel.FindSubmatch(data)
	switch {
	case m == nil:
		return "", fmt.Errorf("read %s: no known level in %q", lockdownFile, clean(string(data)))
	case string(m[1]) == "none":
		return "", nil
	}
	return string(m[1]), nil
}
