package sysfs

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/jaypipes/ghw/pkg/pci"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// PCIFunction is one function of the PCI bus (sys/bus/pci/devices/<address>/).
type PCIFunction struct {
	Address inventory.PCIAddress
	// Path is the function's real directory below sys/devices.
	Path string
	// Vendor, Device, SubsystemVendor and SubsystemDevice are four lower-case hexadecimal digits (vendor, device,
	// subsystem_vendor, subsystem_device).
	Vendor, Device, SubsystemVendor, SubsystemDevice string
	// Class is base class, subclass and programming interface in its three low bytes (class).
	Class uint32
	// Driver is bound to the function; empty when none is (link driver).
	Driver string
	// Physical is the address of the function this is a virtual function of; nil for a physical one (link physfn).
	Physical *inventory.PCIAddress
	// Err says what of the function could not be read.
	Err error
}

// Base classes of functions (PCI Code and ID Assignment Specification).
const (
	PCIStorage = 0x01
	PCINetwork = 0x02
)

const pciDevices = "sys/bus/pci/devices"

// PCIFunctions lists the physical functions of one base class in order of address. Functions whose domain has more
// than four digits, which only Intel VMD makes and for drives, are not listed: they have no inventory.PCIAddress.
func PCIFunctions(fsys fs.FS, base uint8) ([]PCIFunction, error) {
	names, err := list(fsys, pciDevices)
	if err != nil {
		return nil, err
	}
	known := ghwClasses(fsys)
	var functions []PCIFunction
	for _, name := range names {
		if _, err := inventory.ParsePCIAddress(name); err != nil {
			continue
		}
		dir, err := follow(fsys, path.Join(pciDevices, name))
		if err != nil {
			return nil, err
		}
		class, err := baseClass(fsys, name, known[name])
		if err != nil {
			return nil, err
		}
		if dir == "" || class != fmt.Sprintf("%02x", base) {
			continue
		}
		f, err := functionAt(fsys, dir)
		switch {
		case f == nil:
			return nil, err
		case f.Physical != nil, !exists(fsys, dir):
			continue
		}
		f.Err = err
		functions = append(functions, *f)
	}
	slices.SortFunc(functions, func(a, b PCIFunction) int { return a.Address.Compare(b.Address) })
	return functions, nil
}

// ghwClasses are the base classes of functions by address, as ghw lists them: none of a file system it cannot read, and
// none at all when one entry of the directory cannot be read.
func ghwClasses(fsys fs.FS) map[string]string {
	t, ok := fsys.(Tree)
	if !ok {
		return nil
	}
	info, err := pci.New(t.options()...)
	if err != nil {
		return nil
	}
	classes := map[string]string{}
	for _, d := range info.Devices {
		classes[d.Address] = d.Class.ID
	}
	return classes
}

// baseClass is the known base class of a function, and otherwise what its own file says: two hexadecimal digits, none
// for a function that is gone.
func baseClass(fsys fs.FS, address, known string) (string, error) {
	if known != "" {
		return known, nil
	}
	class, err := readFile(fsys, path.Join(pciDevices, address, "class"))
	if err != nil {
		return "", err
	}
	n, err := strconv.ParseUint(clean(string(class)), 0, 32)
	if err != nil {
		return "", nil //nolint:nilerr // what has no class is no device of any class
	}
	return fmt.Sprintf("%02x", uint8(n>>16)), nil
}

func exists(fsys fs.FS, name string) bool {
	_, err := fs.Stat(fsys, name)
	return !absent(err)
}

// functionAt reads the function in a real directory. It is nil only when the directory is not that of a function this
// package can name.
func functionAt(fsys fs.FS, dir string) (*PCIFunction, error) {
	address, err := inventory.ParsePCIAddress(path.Base(dir))
	if err != nil {
		return nil, nil //nolint:nilerr // beyond the four digits of a domain
	}
	a := attributes{fsys: fsys, dir: dir}
	f := &PCIFunction{
		Address: address, Path: dir,
		Vendor: a.hex("vendor", 4), Device: a.hex("device", 4),
		SubsystemVendor: a.hex("subsystem_vendor", 4), SubsystemDevice: a.hex("subsystem_device", 4),
		Driver: a.base("driver"),
	}
	if class := a.number("class"); class != nil {
		f.Class = uint32(*class)
	}
	if physical := a.base("physfn"); physical != "" {
		if owner, err := inventory.ParsePCIAddress(physical); err == nil {
			f.Physical = &owner
		} else {
			a.err = errors.Join(a.err, fmt.Errorf("read link %s/physfn: %w", dir, err))
		}
	}
	return f, a.err
}

// PCISerialNumber is the Device Serial Number of a function as 16 hexadecimal digits, empty when it has none or the
// caller, not being root, sees only the first 64 bytes of the configuration space (config).
func PCISerialNumber(fsys fs.FS, f PCIFunction) (string, error) {
	config, err := readFile(fsys, path.Join(f.Path, "config"))
	if err != nil {
		return "", err
	}
	return deviceSerialNumber(config), nil
}

// deviceSerialNumber walks the extended capabilities (PCI Express Base Specification, 7.6.3 and 7.9.3).
func deviceSerialNumber(config []byte) string {
	const first, id = 0x100, 0x0003
	for at, steps := first, 0; at >= first && at+12 <= len(config) && steps < 256; steps++ {
		header := binary.LittleEndian.Uint32(config[at:])
		if header&0xffff == id {
			serial := uint64(binary.LittleEndian.Uint32(config[at+8:]))<<32 | uint64(binary.LittleEndian.Uint32(config[at+4:]))
			if serial == 0 || serial == ^uint64(0) {
				return ""
			}
			return fmt.Sprintf("%016x", serial)
		}
		at = int(header >> 20 &^ 3)
	}
	return ""
}

// SlotFunctions are all physical functions in the slot of a function, of whatever class, in order of address.
func SlotFunctions(fsys fs.FS, address inventory.PCIAddress) ([]PCIFunction, error) {
	names, err := list(fsys, pciDevices)
	if err != nil {
		return nil, err
	}
	var functions []PCIFunction
	for _, name := range names {
		if !strings.HasPrefix(name, address.Slot()+".") {
			continue
		}
		dir, err := follow(fsys, path.Join(pciDevices, name))
		if err != nil {
			return nil, err
		}
		f, err := functionAt(fsys, dir)
		switch {
		case f == nil && dir != "":
			return nil, errors.Join(fmt.Errorf("read function %s", name), err)
		case f == nil, f.Physical != nil:
			continue
		}
		f.Err = err
		functions = append(functions, *f)
	}
	return functions, nil
}

// Fingerprint is equal as long as the same devices are plugged in under the same names. It reads directories and links
// only, so that looking every few seconds costs next to nothing. What containers come and go with (veth pairs,
// virtual functions and their interfaces) does not change it.
func Fingerprint(fsys fs.FS) (string, error) {
	sum := sha256.New()
	for _, dir := range []string{pciDevices, netClass, nvmeClass, scsiClass, blockDir} {
		names, err := list(fsys, dir)
		if err != nil {
			return "", err
		}
		for _, name := range names {
			target, err := follow(fsys, path.Join(dir, name))
			if err != nil {
				return "", err
			}
			if target == "" || strings.HasPrefix(target, "sys/devices/virtual/") || isVirtualFunction(fsys, dir, target) {
				continue
			}
			_, _ = io.WriteString(sum, dir+"/"+name+"\x00"+target+"\x00")
		}
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// isVirtualFunction looks for the link to the physical function, which interfaces reach through their device.
func isVirtualFunction(fsys fs.FS, class, dir string) bool {
	switch class {
	case pciDevices:
		return exists(fsys, path.Join(dir, "physfn"))
	case netClass:
		return exists(fsys, path.Join(dir, "device/physfn"))
	}
	return false
}

// VPD is the vital product data a card carries about itself (PCI Local Bus Specification 3.0, appendix I).
type VPD struct {
	// Product is the identifier string, such as "ConnectX-6 Dx EN adapter card".
	Product string
	// PartNumber is keyword PN, SerialNumber keyword SN.
	PartNumber, SerialNumber string
}

// ReadVPD reads the product data of a function (vpd). It is nil where the function has none or the caller, not being
// root, may not read it. The card answers a few bytes at a time, so this can take a second.
func ReadVPD(fsys fs.FS, f PCIFunction) (*VPD, error) {
	name := path.Join(f.Path, "vpd")
	file, err := fsys.Open(name)
	if absent(err) || errors.Is(err, fs.ErrPermission) {
		return nil, nil
	}
	if err != nil {
		return nil, named("read", name, err)
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxVPD))
	if absent(err) || errors.Is(err, fs.ErrPermission) {
		return nil, nil
	}
	if err != nil {
		return nil, named("read", name, err)
	}
	parsed, err := pci.ParseVPD(data)
	if err != nil {
		return nil, named("parse", name, err)
	}
	return &VPD{
		Product: clean(parsed.Identifier), PartNumber: clean(parsed.ReadOnly["PN"]), SerialNumber: clean(parsed.ReadOnly["SN"]),
	}, nil
}

// maxVPD is the size of the address space of the product data: 15 bits.
const maxVPD = 32 << 10
