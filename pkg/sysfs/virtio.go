package sysfs

import (
	"errors"
	"io/fs"
	"path"
)

// VirtioDisk is a paravirtual disk (sys/block/<name>/).
type VirtioDisk struct {
	Name string
	// Device is the virtio device (link device).
	Device Device
	// Serial is what the hypervisor calls the disk, often nothing (serial).
	Serial string
	// Err says what of the disk could not be read.
	Err error
}

const blockDir = "sys/block"

// VirtioDisks lists the block devices on the virtio bus in order of name.
func VirtioDisks(fsys fs.FS) ([]VirtioDisk, error) {
	names, err := list(fsys, blockDir)
	if err != nil {
		return nil, err
	}
	var disks []VirtioDisk
	for _, name := range names {
		dir, err := follow(fsys, path.Join(blockDir, name))
		if err != nil {
			return nil, err
		}
		if dir == "" {
			continue
		}
		device, err := follow(fsys, path.Join(dir, "device"))
		if err != nil {
			return nil, err
		}
		a := attributes{fsys: fsys, dir: device}
		if device == "" || a.base("subsystem") != "virtio" && a.err == nil {
			continue
		}
		a = attributes{fsys: fsys, dir: dir}
		d := VirtioDisk{Name: name, Serial: a.text("serial")}
		d.Device, err = deviceAt(fsys, device)
		d.Err = errors.Join(a.err, err)
		if !a.gone() {
			disks = append(disks, d)
		}
	}
	return disks, nil
}
