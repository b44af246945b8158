package sysfs

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strconv"
	"strings"

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

const releaseFile = "proc/sys/kernel/osrelease"

// KernelRelease is the release of the running kernel (proc/sys/kernel/osrelease), empty when it is absent.
func KernelRelease(fsys fs.FS) (string, error) {
	data, err := readFile(fsys, releaseFile)
	if err != nil {
		return "", err
	}
	return clean(string(data)), nil
}

// Where a kernel says what started it: on x86 the type of its boot loader above four bits of a version
// (Documentation/admin-guide/sysctl/kernel.rst, Documentation/arch/x86/boot.rst), elsewhere a property of the device tree
// (drivers/of/kexec.c). A machine with ACPI that is no x86 says nothing.
const (
	bootLoaderFile = "proc/sys/kernel/bootloader_type"
	kexecLoader    = 0xD
	kexecProperty  = "proc/device-tree/chosen/linux,booted-from-kexec"
)

// Kexec reports whether the running kernel was started by another kernel, which resets no hardware, as far as it says so.
func Kexec(fsys fs.FS) (bool, error) {
	data, err := readFile(fsys, bootLoaderFile)
	if err != nil {
		return false, err
	}
	if data != nil {
		n, err := strconv.Atoi(clean(string(data)))
		if err != nil {
			return false, fmt.Errorf("read %s: %w", bootLoaderFile, err)
		}
		return n>>4 == kexecLoader, nil
	}
	_, err = fs.Stat(fsys, kexecProperty)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
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

// ESRTEntry is one firmware resource that UEFI can update by a capsule (sys/firmware/efi/esrt/entries/<name>/; UEFI
// Specification 2.10, section 23.4).
type ESRTEntry struct {
	Name string
	// Class is the GUID images for the resource carry (fw_class).
	Class string
	// Type is 1 for the system firmware and 2 for firmware of a device (fw_type).
	Type *int
	// Version runs; LowestSupportedVersion is the oldest the resource accepts (fw_version,
	// lowest_supported_fw_version).
	Version, LowestSupportedVersion *int
	// LastAttemptVersion and LastAttemptStatus say what the last capsule held and how it ended, 0 being well
	// (last_attempt_version, last_attempt_status).
	LastAttemptVersion, LastAttemptStatus *int
	// Err says what of the entry could not be read.
	Err error
}

// ESRTSystemFirmware is the Type of the system firmware.
const ESRTSystemFirmware = 1

const esrtDir = "sys/firmware/efi/esrt/entries"

// ESRT lists the entries in order of name. Only root may read them.
func ESRT(fsys fs.FS) ([]ESRTEntry, error) {
	names, err := list(fsys, esrtDir)
	if err != nil {
		return nil, err
	}
	var entries []ESRTEntry
	for _, name := range names {
		a := attributes{fsys: fsys, dir: path.Join(esrtDir, name)}
		e := ESRTEntry{
			Name: name, Class: strings.ToLower(a.text("fw_class")), Type: a.number("fw_type"),
			Version: a.number("fw_version"), LowestSupportedVersion: a.number("lowest_supported_fw_version"),
			LastAttemptVersion: a.number("last_attempt_version"), LastAttemptStatus: a.number("last_attempt_status"),
		}
		e.Err = a.err
		entries = append(entries, e)
	}
	return entries, nil
}

// EFIVariables is the directory of the variables of the firmware, where efivarfs is mounted.
const EFIVariables = "sys/firmware/efi/efivars"

// efiAttributes is the number of bytes that efivarfs puts before the value of a variable: its attributes.
const efiAttributes = 4

// EFIVariable is the value of a variable of the firmware (sys/firmware/efi/efivars/<name>-<guid>; UEFI Specification 2.10, section
// 8.2). It is nil when there is no such variable, and at most 4 KiB. The GUID has lower-case digits.
func EFIVariable(fsys fs.FS, name, guid string) ([]byte, error) {
	file := path.Join(EFIVariables, name+"-"+guid)
	data, err := readFile(fsys, file)
	switch {
	case err != nil || data == nil:
		return nil, err
	case len(data) < efiAttributes:
		return nil, fmt.Errorf("read %s: %d bytes, want the %d of the attributes first", file, len(data), efiAttributes)
	}
	return data[efiAttributes:], nil
}

// HasEFIVariables reports whether the kernel shows variables of the firmware. It shows none to a machine that did not boot through
// UEFI, where efivarfs is not mounted, and where it makes no calls of the firmware.
func HasEFIVariables(fsys fs.FS) (bool, error) {
	names, err := list(fsys, EFIVariables)
	return len(names) > 0, err
}
