package inventory

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/pkg/text"
)

// Class is the kind of a hardware component.
type Class string

// The classes of devices.
const (
	BIOS              Class = "BIOS"
	NIC               Class = "NIC"
	StorageController Class = "StorageController"
	Disk              Class = "Disk"
)

// Classes lists them in the order in which devices of one machine are updated: a controller before the drives behind it.
func Classes() []Class { return []Class{BIOS, NIC, StorageController, Disk} }

// Measured lists the PCRs of a TPM that firmware of the class is measured into when the machine boots (TCG PC Client Platform Firmware
// Profile 1.06, PCR usage): that of the machine into 0 and 1, and with an update may come other keys and revocations of Secure Boot, in 7;
// code and settings of option ROMs, and devices that report their firmware by SPDM, into 2 and 3.
func (c Class) Measured() []int {
	if c == BIOS {
		return []int{0, 1, 2, 3, 7}
	}
	return []int{2, 3}
}

// Device is one updatable component of a machine: a card, a drive, the system firmware. Identity comes from sysfs
// and is completed by the driver; Firmware is what the driver read from the hardware, and is nil when no driver
// could read it.
type Device struct {
	Identity
	// Ports of a network adapter, in order of PCI address.
	Ports []Port
	// Arrays names the redundant arrays that a drive is an active member of, as a scan found them.
	Arrays []string
	// Firmware is what the device reported in this pass; nil when it was not or could not be read.
	Firmware *Firmware
	// PowerOnHours is how long the device was powered on, as a scan read it; nil where it does not count the hours, or they are not known.
	PowerOnHours *int64
	// Driver names the driver that read the device; empty when none knows it. DriverMessage says why a driver that supports
	// the device better was not chosen; empty when the best one was.
	Driver, DriverMessage string
	// Err says why a device that is present could not be read.
	Err error
}

// MostPowerOnHours bounds a count of hours that can be true: more than two centuries.
const MostPowerOnHours = 2_000_000

// Identity says which hardware a device is and how to reach it.
type Identity struct {
	Class Class
	// UniqueID is stable over reboots, slots and renames: base MAC or GUID, SAS address, WWN, EUI, NGUID or
	// system UUID. It is
	// never a bus address, a device name or a serial number alone.
	UniqueID string
	// Vendor is the manufacturer's name; VendorID and DeviceID are four lower-case hexadecimal digits on PCI and
	// empty elsewhere.
	Vendor, VendorID, DeviceID string
	// SubsystemVendorID and SubsystemDeviceID name the board around the vendor's chip; spelled as VendorID, and empty off the PCI bus.
	SubsystemVendorID, SubsystemDeviceID string
	// Model, PartNumber and SerialNumber as the device reports them, without padding.
	Model, PartNumber, SerialNumber string
	// BoardID is what the board checks an image against (PSID, board.id), as the device spells it.
	BoardID string
	// PCI lists the addresses of all physical functions of the device in order; empty off the PCI bus.
	PCI []PCIAddress
	// Node is the kernel's handle for the device: the name of a character or block device without "/dev/" ("nvme0",
	// "sg2", "sda"), the first network device ("eth0"), or empty. It may change at any boot.
	Node string
	// Kernel is the name of the kernel driver bound to the device ("mlx5_core", "nvme"), empty when unbound.
	Kernel string
	// Transport is the bus of a drive: "nvme", "sas", "sata", "usb", "virtio" or empty. Of an adapter it is "usb" or
	// empty.
	Transport string
}

// Port is one port of a network adapter.
type Port struct {
	PCI       PCIAddress
	NetDevice string
	Link      LinkType
	State     LinkState
	// MAC is the permanent hardware address in the kernel's notation, empty when unknown.
	MAC string
}

// LinkType is the link layer of a port (ARPHRD type of Linux).
type LinkType string

// LinkState is the operational state of a port (operstate of Linux, RFC 2863).
type LinkState string

// Link types and states.
const (
	Ethernet        LinkType  = "Ethernet"
	InfiniBand      LinkType  = "InfiniBand"
	LinkTypeUnknown LinkType  = "Unknown"
	LinkUp          LinkState = "Up"
	LinkDown        LinkState = "Down"
	LinkUnknown     LinkState = "Unknown"
)

// Machine is what the DMI tables say about the machine; a field is empty where the tables have no value or may not be read.
type Machine struct {
	Manufacturer, Model, SerialNumber, UUID string
}

// Firmware is what a device runs and holds. The design id (board id) is part of the Identity.
type Firmware struct {
	// Running is the version that runs now.
	Running Version
	// Stored is the version that will run after activation; it equals Running when nothing is staged and is empty
	// where the device does not report it.
	Stored Version
	// Slots of devices that hold several images.
	Slots []Slot
	// Activation is what a newly written image will need before it runs. ActivationMessage says why that is more disruptive than usual for
	// such devices; empty if it is not, or the driver does not say.
	Activation        Activation
	ActivationMessage string
	// AtWrite says that the device may start a new image in the middle of the write, before any activation.
	AtWrite bool
	// Format declares how versions order; FormatPlain when they cannot be ordered.
	Format VersionFormat
	// ReadOnly says why the device can be read but not updated; empty when it can.
	ReadOnly string
	// Rollback is how the running firmware can be restored after an update; RollbackMessage says why it cannot, or what
	// that needs, for people.
	Rollback        Rollback
	RollbackMessage string
	// LastAttempt says why the device itself refused the image it was last asked to activate; empty when it accepted it,
	// or keeps no record.
	LastAttempt string
}

// Slot is one firmware slot (NVMe Base Specification, Firmware Slot Information log).
type Slot struct {
	Number  int
	Version Version
	State   SlotState
}

// SlotState says what a slot is for.
type SlotState string

// States of a slot.
const (
	SlotActive   SlotState = "Active"
	SlotPending  SlotState = "Pending"
	SlotReadOnly SlotState = "ReadOnly"
	SlotIdle     SlotState = "Idle"
)

// Pending reports whether a version other than the running one waits for activation.
func (f Firmware) Pending() bool { return f.Stored != "" && f.Stored != f.Running }

// NormalizeID brings ids that people and tools spell differently (PSIDs, serial numbers, models) to one form for
// comparison: no surrounding blanks, upper case.
func NormalizeID(s string) string { return strings.ToUpper(strings.TrimSpace(s)) }

// Activation is what a stored image needs before it runs. The kinds are ordered from the least to the most disruptive.
type Activation int

// The kinds of activation.
const (
	ActivateNone Activation = iota
	ActivateDeviceReset
	ActivateDriverReload
	ActivateReboot
	ActivatePowerCycle
)

var activationNames = [...]string{"None", "DeviceReset", "DriverReload", "Reboot", "PowerCycle"}

// String is the name the API uses for the kind.
func (a Activation) String() string {
	if a < 0 || int(a) >= len(activationNames) {
		return "Unknown"
	}
	return activationNames[a]
}

// Rollback says how the running firmware of a device can be restored after another one was written.
type Rollback int

// The kinds of rollback. The zero value means that there is no rollback: only what a driver declares is used.
const (
	// RollbackNone: not at all.
	RollbackNone Rollback = iota
	// RollbackReadBack: the driver reads the image out of the device beforehand and writes it back.
	RollbackReadBack
	// RollbackSlot: it stays in a slot, and the driver makes the device run that slot again.
	RollbackSlot
	// RollbackImage: the driver writes an image of that version, which has to come from elsewhere.
	RollbackImage
)

var rollbackNames = [...]string{"None", "ReadBack", "Slot", "Image"}

// String is the name the API uses for the kind.
func (r Rollback) String() string {
	if r < 0 || int(r) >= len(rollbackNames) {
		return "Unknown"
	}
	return rollbackNames[r]
}

// AnyVendor as a vendor that a person names says that every vendor is meant, and that it was not forgotten.
const AnyVendor = "any"

// Vendor spells the vendor that a rule, an image or an index names, a PCI id or a name, in the form in which it is compared with the
// text.Slug of what a device reports. It is empty where it is no device's; every says that it is not restricted.
func Vendor(named string) (slug string, every bool) {
	slug = text.Slug(named)
	return slug, named == "" || slug == AnyVendor
}

// Use is what uses a drive at one moment.
type Use struct {
	// By lists, for people, what would fail while the drive does not answer: mounted file systems, swap space, pools. What a
	// redundant array carries is not listed, because the array survives.
	By []string
	// Arrays are those the drive is an active member of.
	Arrays []Array
	// Carries is a directory without which the node does not run and that is on the drive, such as "/", also behind an array;
	// empty for none.
	Carries string
}

// Array is a set of drives that back each other up, that one file system is on, or that are paths to one drive.
type Array struct {
	// Name is what people call it, such as "md0" or "the ZFS pool tank".
	Name string
	// Degraded says that the loss of one more drive would or might lose data; Rebuilds names the repair in progress ("resync", "recover" or
	// "reshape"), empty if there is none.
	Degraded bool
	Rebuilds string
}

// Whole reports whether the array survives the loss of a drive.
func (a Array) Whole() bool { return !a.Degraded && a.Rebuilds == "" }

// String is the array and what is wrong with it.
func (a Array) String() string {
	switch {
	case a.Rebuilds != "":
		return fmt.Sprintf("%s, which is not redundant before its %s has ended", a.Name, a.Rebuilds)
	case a.Degraded:
		return a.Name + ", which is degraded"
	}
	return a.Name
}

// Hold says why the drive must not be disturbed now; empty when it may be. No activation is safe for a drive of an array
// that has no drive to spare.
func (u Use) Hold() string {
	for _, a := range u.Arrays {
		if !a.Whole() {
			return "it is a drive of " + a.String()
		}
	}
	return ""
}

// MayReset reports whether the drive may be reset while the node runs.
func (u Use) MayReset() bool { return u.Carries == "" && len(u.By) == 0 }

// MayPause reports whether the drive may stop answering, for as long as the kernel holds I/O back.
func (u Use) MayPause() bool { return u.Carries == "" }

// Forbids says why the drive with the firmware must not be written; empty when it may be.
func (u Use) Forbids(f Firmware) string {
	if u.MayPause() || !f.AtWrite && f.Activation != ActivateNone {
		return ""
	}
	return "the drive starts its new firmware in the middle of the write and carries " + u.Carries + " of the node; update it on a node that boots from another drive"
}

// maxUsers bounds the users that are named.
const maxUsers = 3

// String names what uses the drive; empty for nothing.
func (u Use) String() string {
	by := u.By
	if u.Carries != "" {
		by = append([]string{"it carries " + u.Carries + " of the node"}, by...)
	}
	return text.Some(by, maxUsers)
}

// PCIAddress is the address of one PCI function: domain, bus, device and function.
type PCIAddress struct {
	Domain, Bus, Device, Function uint16
}

// ParsePCIAddress parses "domain:bus:device.function" in hexadecimal, as sysfs spells it ("0000:3b:00.0").
func ParsePCIAddress(s string) (PCIAddress, error) {
	var parts [4]uint64
	domain, rest, ok1 := strings.Cut(s, ":")
	bus, rest, ok2 := strings.Cut(rest, ":")
	device, function, ok3 := strings.Cut(rest, ".")
	if !ok1 || !ok2 || !ok3 || len(domain) != 4 || len(bus) != 2 || len(device) != 2 || len(function) != 1 {
		return PCIAddress{}, fmt.Errorf("parse PCI address %q: want dddd:bb:dd.f", s)
	}
	for i, f := range []string{domain, bus, device, function} {
		n, err := strconv.ParseUint(f, 16, 16)
		if err != nil {
			return PCIAddress{}, fmt.Errorf("parse PCI address %q: want dddd:bb:dd.f", s)
		}
		parts[i] = n
	}
	if parts[2] > 0x1f || parts[3] > 7 {
		return PCIAddress{}, fmt.Errorf("parse PCI address %q: device is at most 1f and function at most 7", s)
	}
	return PCIAddress{uint16(parts[0]), uint16(parts[1]), uint16(parts[2]), uint16(parts[3])}, nil
}

// String spells the address as sysfs does.
func (a PCIAddress) String() string {
	return fmt.Sprintf("%04x:%02x:%02x.%x", a.Domain, a.Bus, a.Device, a.Function)
}

// Slot is the address without the function: all functions of a card share it.
func (a PCIAddress) Slot() string { return fmt.Sprintf("%04x:%02x:%02x", a.Domain, a.Bus, a.Device) }

// Compare orders addresses by domain, bus, device and function, as cmp.Compare does.
func (a PCIAddress) Compare(b PCIAddress) int {
	return cmp.Or(cmp.Compare(a.Domain, b.Domain), cmp.Compare(a.Bus, b.Bus), cmp.Compare(a.Device, b.Device),
		cmp.Compare(a.Function, b.Function))
}
