package host

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/sysfs"
)

// disks lists one device per drive. When one kind cannot be listed, the others still are.
func (h *Host) disks() ([]candidate, error) {
	controllers, nvmeErr := sysfs.NVMeControllers(h.cfg.FS)
	controllers = slices.DeleteFunc(controllers, func(c sysfs.NVMeController) bool { return !h.isOurs(c) })
	paths, scsiErr := sysfs.SCSIDisks(h.cfg.FS)
	virtual, virtioErr := sysfs.VirtioDisks(h.cfg.FS)
	var functions []sysfs.PCIFunction
	for _, d := range slices.Concat(mapped(controllers, nvmeDevice), mapped(virtual, virtioDevice)) {
		if d.Function != nil {
			functions = append(functions, *d.Function)
		}
	}
	h.learnNames(functions)
	candidates := slices.Concat(mapped(groupPorts(controllers), h.nvme), mapped(groupPaths(paths), scsi), mapped(virtual, h.virtio))
	return candidates, errors.Join(nvmeErr, scsiErr, virtioErr)
}

func nvmeDevice(c sysfs.NVMeController) sysfs.Device { return c.Device }
func virtioDevice(d sysfs.VirtioDisk) sysfs.Device   { return d.Device }

func mapped[A, B any](in []A, f func(A) B) []B {
	out := make([]B, 0, len(in))
	for _, v := range in {
		out = append(out, f(v))
	}
	return out
}

// isOurs reports whether a drive is part of this machine. One behind a network belongs to another as a rule.
func (h *Host) isOurs(c sysfs.NVMeController) bool {
	return !c.Discovery && slices.Contains(h.cfg.NVMeTransports, cmp.Or(c.Transport, pcie))
}

// groupPorts puts the controllers of one drive together, in order of place, one that answers first: a drive with two ports has
// one for each, and one set of firmware slots for both. Controllers that only claim the same serial number stay apart.
func groupPorts(controllers []sysfs.NVMeController) [][]sysfs.NVMeController {
	type drive struct{ subsystem, nqn, serial, model string }
	index := map[drive]int{}
	var drives [][]sysfs.NVMeController
	slices.SortStableFunc(controllers, func(a, b sysfs.NVMeController) int {
		return cmp.Or(cmp.Compare(rank(b.State != "dead"), rank(a.State != "dead")), strings.Compare(a.Device.Path, b.Device.Path))
	})
	for _, c := range controllers {
		key := drive{c.Subsystem, c.SubsystemNQN, c.Serial, c.Model}
		i, known := index[key]
		if !known || c.Subsystem == "" || isRemote(c) {
			i = len(drives)
			index[key] = i
			drives = append(drives, nil)
		}
		drives[i] = append(drives[i], c)
	}
	return drives
}

func (h *Host) nvme(ports []sysfs.NVMeController) candidate {
	c := ports[0]
	id := inventory.Identity{
		Class: inventory.Disk, Transport: "nvme", Node: c.Name, Kernel: c.Device.Driver,
		Model: c.Model, SerialNumber: c.Serial, UniqueID: nvmeID(c),
	}
	if isRemote(c) {
		id.Kernel = "nvme_" + c.Transport // no driver is bound to a network: this is the module
	}
	h.onPCI(&id, c.Device)
	for _, other := range ports[1:] {
		if f := other.Device.Function; f != nil {
			id.PCI = append(id.PCI, f.Address)
		}
	}
	return candidate{Device: inventory.Device{Identity: id, Err: c.Err}, place: nvmePlace(c)}
}

func (h *Host) virtio(v sysfs.VirtioDisk) candidate {
	id := inventory.Identity{
		Class: inventory.Disk, Transport: "virtio", Node: v.Name, Kernel: v.Device.Driver,
		SerialNumber: v.Serial, UniqueID: virtioID(v),
	}
	h.onPCI(&id, v.Device)
	if v.Device.Function != nil {
		id.Model = h.nameOf(id.VendorID, id.DeviceID)
	}
	return candidate{Device: inventory.Device{Identity: id, Err: v.Err}, place: placeOf(v.Device)}
}

func (h *Host) onPCI(id *inventory.Identity, d sysfs.Device) {
	if f := d.Function; f != nil {
		id.PCI = []inventory.PCIAddress{f.Address}
		id.VendorID, id.DeviceID, id.Vendor = f.Vendor, f.Device, h.nameOf(f.Vendor, "")
		id.SubsystemVendorID, id.SubsystemDeviceID = f.SubsystemVendor, f.SubsystemDevice
	}
}

// groupPaths puts the paths to one drive together, in order of place: a drive with two ports, or in an enclosure with
// two controllers, is there twice. Disks on a fabric belong to another machine and are left out.
func groupPaths(paths []sysfs.SCSIDisk) [][]sysfs.SCSIDisk {
	index := map[scsiDrive]int{}
	var drives [][]sysfs.SCSIDisk
	slices.SortFunc(paths, func(a, b sysfs.SCSIDisk) int { return strings.Compare(a.Device.Path, b.Device.Path) })
	for _, p := range paths {
		if p.Transport == "iscsi" || p.Transport == "fc" {
			continue
		}
		key := driveAt(p)
		i, known := index[key]
		if !known || p.WWID == "" {
			i = len(drives)
			index[key] = i
			drives = append(drives, nil)
		}
		drives[i] = append(drives[i], p)
	}
	return drives
}

// scsiDrive is what all paths to a drive have in common. Without a WWID it says nothing.
type scsiDrive struct{ wwid, vendor, model, serial string }

func driveAt(p sysfs.SCSIDisk) scsiDrive { return scsiDrive{p.WWID, p.Vendor, p.Model, p.Serial} }

// leadTogether reports whether two paths lead to one drive. Of a path whose WWID was not read the serial number says it, so that two logical units of
// such a drive count as one, which is what is used together.
func leadTogether(a, b sysfs.SCSIDisk) bool {
	if a.WWID == "" || b.WWID == "" {
		a.WWID, b.WWID = "", ""
		return a.Serial != "" && driveAt(a) == driveAt(b)
	}
	return driveAt(a) == driveAt(b)
}

// mayLeadTogether reports whether nothing that was read of two paths says that they lead to different drives.
func mayLeadTogether(a, b sysfs.SCSIDisk) bool {
	differ := func(a, b string) bool { return a != "" && b != "" && a != b }
	return !differ(a.WWID, b.WWID) && !differ(a.Vendor, b.Vendor) && !differ(a.Model, b.Model) && !differ(a.Serial, b.Serial)
}

func scsi(paths []sysfs.SCSIDisk) candidate {
	first := paths[0]
	id := inventory.Identity{
		Class: inventory.Disk, Vendor: first.Vendor, Model: first.Model, SerialNumber: first.Serial,
		Node: cmp.Or(first.Generic, first.Block), Kernel: first.Device.Driver, UniqueID: scsiID(first), Transport: first.Transport,
	}
	return candidate{Device: inventory.Device{Identity: id, Err: first.Err}, place: placeOf(first.Device)}
}

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
		SubsystemVendorID: first.SubsystemVendor, SubsystemDeviceID: first.SubsystemDevice,
		Vendor: h.nameOf(first.Vendor, ""), Model: h.nameOf(first.Vendor, first.Device),
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
	case IsSet(serial) && !strings.EqualFold(serial, "N/A"):
		return normalizeID("board." + f.Vendor + "-" + f.Device + "-" + serial), err
	}
	return "pci." + f.Vendor + "-" + f.Device + "." + f.Address.String(), err
}
