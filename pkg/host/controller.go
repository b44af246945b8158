package host

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/sysfs"
)

// controllers lists one device per storage controller. It does not read their product data: that of many cards is
// damaged, the kernel refuses to read it from some, and their drivers know the numbers in it.
func (h *Host) controllers() ([]candidate, error) {
	all, err := sysfs.PCIFunctions(h.cfg.FS, sysfs.PCIStorage)
	if err != nil {
		return nil, err
	}
	hosts, err := sysfs.SCSIHosts(h.cfg.FS)
	if err != nil {
		return nil, err
	}
	functions := slices.DeleteFunc(all, func(f sysfs.PCIFunction) bool { return !controls(f) })
	h.learnNames(functions)
	return mapped(groupFunctions(functions), func(g []sysfs.PCIFunction) candidate { return h.controller(g, hosts) }), nil
}

// Subclasses of the base class storage (PCI Code and ID Assignment Specification).
const (
	pciSCSI = 0x00
	pciRAID = 0x04
	pciSAS  = 0x07
)

// controls reports whether a function is that of a controller with firmware of its own. AHCI and NVMe have other
// subclasses; chipsets report AHCI and the bus of Intel VMD as RAID, and the firmware of their SAS ports (isci) is part of
// the BIOS. Adapters of hypervisors have no firmware.
func controls(f sysfs.PCIFunction) bool {
	switch uint8(f.Class >> 8) {
	case pciSCSI, pciRAID, pciSAS:
	default:
		return false
	}
	return !slices.Contains([]string{"ahci", "isci", "vmd", "virtio-pci", "vmw_pvscsi"}, f.Driver)
}

// groupFunctions puts the functions of one controller together, in order of place: an adapter with two channels is there
// twice. What else shares a slot in a chipset has another device id.
func groupFunctions(functions []sysfs.PCIFunction) [][]sysfs.PCIFunction {
	type board struct{ slot, vendor, device string }
	index := map[board]int{}
	var groups [][]sysfs.PCIFunction
	for _, f := range functions {
		key := board{f.Address.Slot(), f.Vendor, f.Device}
		i, known := index[key]
		if !known {
			i = len(groups)
			index[key] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], f)
	}
	return groups
}

func (h *Host) controller(functions []sysfs.PCIFunction, hosts []sysfs.SCSIHost) candidate {
	first := functions[0]
	d := inventory.Device{Identity: inventory.Identity{
		Class: inventory.StorageController, VendorID: first.Vendor, DeviceID: first.Device,
		SubsystemVendorID: first.SubsystemVendor,
		Vendor:            h.nameOf(first.Vendor, ""), Model: h.nameOf(first.Vendor, first.Device),
	}}
	var own []sysfs.SCSIHost
	for _, f := range functions {
		d.Err = errors.Join(d.Err, f.Err)
		d.PCI = append(d.PCI, f.Address)
		if d.Kernel == "" || f.Driver == "vfio-pci" {
			d.Kernel = f.Driver // a virtual machine that has one function has the card
		}
		for _, host := range hosts {
			if host.Function == f.Path {
				own = append(own, host)
			}
		}
	}
	for _, host := range own {
		d.Err = errors.Join(d.Err, host.Err)
		d.SerialNumber, d.PartNumber = cmp.Or(d.SerialNumber, host.Serial), cmp.Or(d.PartNumber, host.PartNumber)
	}
	var err error
	d.UniqueID, err = h.controllerID(first, own)
	d.Err = errors.Join(d.Err, err)
	return candidate{Device: d, place: first.Address.String()}
}

// controllerID is the controller's lowest SAS address, or else its PCI device serial number, what its board says, or its
// slot. Drivers replace it with what the controller reports.
func (h *Host) controllerID(f sysfs.PCIFunction, hosts []sysfs.SCSIHost) (string, error) {
	var addresses []string
	serial := ""
	for _, host := range hosts {
		if host.SASAddress != "" {
			addresses = append(addresses, host.SASAddress)
		}
		serial = cmp.Or(serial, host.Serial)
	}
	if len(addresses) > 0 {
		return slices.Min(addresses), nil
	}
	number, err := sysfs.PCISerialNumber(h.cfg.FS, f)
	switch {
	case number != "":
		return "dsn." + number, err
	case isSet(serial) && !strings.EqualFold(serial, "N/A"):
		return normalizeID("board." + f.Vendor + "-" + f.Device + "-" + serial), err
	}
	return "pci." + f.Vendor + "-" + f.Device + "." + f.Address.String(), err
}
