package sysfs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// SCSIDisk is one path to a disk of the SCSI layer, which SATA disks are too (sys/class/scsi_device/<h:c:t:l>/device/).
type SCSIDisk struct {
	// Address is host:channel:target:lun. The host's number may change at any boot.
	Address string
	// Device is the SCSI device (link device).
	Device Device
	// Vendor, Model and Rev of the INQUIRY the kernel made when it found the disk (vendor, model, rev). Rev goes stale
	// when the firmware changes.
	Vendor, Model, Rev string
	// Serial is the unit serial number (vpd_pg80).
	Serial string
	// WWID is the name of the logical unit with its kind, as in "naa.5000c500a1b2c3d4" (wwid).
	WWID string
	// Transport is "sata" when Vendor is "ATA"; else "usb", "iscsi", "fc" or "virtio" when the device hangs below
	// such a bus, and "sas".
	Transport string
	// Generic is the sg device, such as "sg2" (directory scsi_generic); Block the block device, such as "sda"
	// (directory block). Either is empty when there is none.
	Generic, Block string
	// Err says what of the disk could not be read.
	Err error
}

const scsiClass = "sys/class/scsi_device"

// Peripheral device types of disks (SPC-5, table 151): direct access and host-managed zoned block devices.
const (
	typeDisk  = 0x00
	typeZoned = 0x14
)

// SCSIDisks lists the disks in order of address.
func SCSIDisks(fsys fs.FS) ([]SCSIDisk, error) {
	names, err := list(fsys, scsiClass)
	if err != nil {
		return nil, err
	}
	var disks []SCSIDisk
	for _, name := range names {
		entry, err := follow(fsys, path.Join(scsiClass, name))
		if err != nil {
			return nil, err
		}
		if entry == "" {
			continue
		}
		dir, err := follow(fsys, path.Join(entry, "device"))
		if err != nil {
			return nil, err
		}
		if dir == "" {
			continue
		}
		a := attributes{fsys: fsys, dir: dir}
		if kind := a.number("type"); a.err == nil && (kind == nil || *kind != typeDisk && *kind != typeZoned) {
			continue
		}
		if d := readDisk(&a, name); !a.gone() {
			disks = append(disks, d)
		}
	}
	return disks, nil
}

func readDisk(a *attributes, address string) SCSIDisk {
	d := SCSIDisk{
		Address: address,
		Vendor:  a.text("vendor"), Model: a.text("model"), Rev: a.text("rev"),
		Serial: unitSerial(a.bytes("vpd_pg80")), WWID: a.text("wwid"),
		Generic: a.only("scsi_generic"), Block: a.only("block"),
	}
	d.Transport = transport(a.dir, d.Vendor)
	var err error
	d.Device, err = deviceAt(a.fsys, a.dir)
	d.Err = errors.Join(a.err, err)
	return d
}

// only names the entry of a subdirectory, empty when it has none.
func (a *attributes) only(dir string) string {
	names, err := list(a.fsys, path.Join(a.dir, dir))
	a.err = errors.Join(a.err, err)
	if len(names) == 0 {
		return ""
	}
	return names[0]
}

// transport looks at the buses on the way to the device. RAID controllers show drives without a SAS port, so nothing
// but the absence of another bus means "sas".
func transport(dir, vendor string) string {
	if vendor == "ATA" {
		return "sata"
	}
	for part := range strings.SplitSeq(dir, "/") {
		switch {
		case strings.HasPrefix(part, "usb"):
			return "usb"
		case strings.HasPrefix(part, "session"):
			return "iscsi"
		case strings.HasPrefix(part, "rport-"):
			return "fc"
		case strings.HasPrefix(part, "virtio"), strings.HasPrefix(part, "vmbus"):
			return "virtio"
		}
	}
	return "sas"
}

// unitSerial parses the Unit Serial Number page (SPC-5, 7.7.19).
func unitSerial(page []byte) string {
	if len(page) < 4 || page[1] != 0x80 {
		return ""
	}
	length := int(binary.BigEndian.Uint16(page[2:]))
	return clean(string(page[4:min(len(page), 4+length)]))
}

// SCSIHost is what the driver of a storage controller publishes about it (sys/class/scsi_host/<name>/). Which
// attributes there are is up to the driver: megaraid_sas has none of them.
type SCSIHost struct {
	// Name is the kernel's, such as "host0". It may change at any boot.
	Name string
	// Function is the real directory of the PCI function the host belongs to.
	Function string
	// SASAddress is the controller's own, 16 lower-case hexadecimal digits: host_sas_address of mpt3sas and pm80xx, or
	// else the lowest of the controller's own phys (sys/class/sas_phy, sas_address). Empty when it has none.
	SASAddress string
	// Serial is the board's: board_tracer of mpt3sas, serial_number of smartpqi and aacraid.
	Serial string
	// PartNumber is board_assembly of mpt3sas.
	PartNumber string
	// Err says what of the host could not be read.
	Err error
}

const scsiHostClass = "sys/class/scsi_host"

// SCSIHosts lists the hosts right below a PCI function, in order of name. Others are ports of a SATA controller, a USB
// bridge or a network protocol.
func SCSIHosts(fsys fs.FS) ([]SCSIHost, error) {
	names, err := list(fsys, scsiHostClass)
	if err != nil {
		return nil, err
	}
	var hosts []SCSIHost
	for _, name := range names {
		dir, err := follow(fsys, path.Join(scsiHostClass, name))
		if err != nil {
			return nil, err
		}
		host := path.Dir(path.Dir(dir)) // <function>/host0/scsi_host/host0
		if _, err := inventory.ParsePCIAddress(path.Base(path.Dir(host))); dir == "" || err != nil {
			continue
		}
		a := attributes{fsys: fsys, dir: dir}
		h := SCSIHost{
			Name: name, Function: path.Dir(host), SASAddress: a.sasAddress("host_sas_address"),
			Serial: a.text("board_tracer"), PartNumber: a.text("board_assembly"),
		}
		if h.Serial == "" {
			h.Serial = a.text("serial_number")
		}
		if h.SASAddress == "" {
			h.SASAddress = a.lowestPhy(host)
		}
		if h.Err = a.err; !a.gone() {
			hosts = append(hosts, h)
		}
	}
	return hosts, nil
}

// lowestPhy is the lowest address of the phys in a host's own directory (phy-0:1/sas_phy/phy-0:1); those of expanders
// are further below.
func (a *attributes) lowestPhy(host string) string {
	names, err := list(a.fsys, host)
	a.err = errors.Join(a.err, err)
	lowest := ""
	for _, name := range names {
		if !strings.HasPrefix(name, "phy-") {
			continue
		}
		phy := attributes{fsys: a.fsys, dir: path.Join(host, name, "sas_phy", name)}
		address := phy.sasAddress("sas_address")
		a.err = errors.Join(a.err, phy.err)
		if address != "" && (lowest == "" || address < lowest) {
			lowest = address
		}
	}
	return lowest
}

// sasAddress is an address like "0x500605b00dd9c7b0" without the prefix, empty when it is absent or zero.
func (a *attributes) sasAddress(name string) string {
	text := a.text(name)
	if text == "" {
		return ""
	}
	n, err := strconv.ParseUint(strings.TrimPrefix(text, "0x"), 16, 64)
	switch {
	case err != nil:
		a.err = errors.Join(a.err, fmt.Errorf("read %s: %q is not a SAS address", path.Join(a.dir, name), text))
		return ""
	case n == 0:
		return ""
	}
	return fmt.Sprintf("%016x", n)
}
