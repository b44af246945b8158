package sysfs

import (
	"io/fs"
	"path"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// Device is a node of the kernel's device tree: what a network interface or a disk belongs to.
type Device struct {
	// Path is the node's real directory, such as "sys/devices/pci0000:00/0000:00:03.0/virtio2". It says where the
	// device is plugged in and holds no name the kernel gave it.
	Path string
	// Subsystem is the bus: "pci", "virtio", "scsi", "platform", "usb" (link subsystem).
	Subsystem string
	// Driver is bound to the device; empty when none is (link driver).
	Driver string
	// Function is the PCI function that the device is, or that carries it when it is a virtio device; nil elsewhere.
	Function *PCIFunction
}

func deviceAt(fsys fs.FS, dir string) (Device, error) {
	a := attributes{fsys: fsys, dir: dir}
	d := Device{Path: dir, Subsystem: a.base("subsystem"), Driver: a.base("driver")}
	if a.err != nil {
		return d, a.err
	}
	switch d.Subsystem {
	case "virtio":
		dir = path.Dir(dir)
		if _, err := inventory.ParsePCIAddress(path.Base(dir)); err != nil {
			return d, nil
		}
	case "pci":
	default:
		return d, nil
	}
	f, err := functionAt(fsys, dir)
	d.Function = f
	return d, err
}
