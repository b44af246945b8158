package sysfs

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"path"
	"strings"
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
