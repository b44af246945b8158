package sysfs

import (
	"errors"
	"io/fs"
	"path"
	"strings"
)

// BlockDevice is a disk, a partition, or what the kernel makes of them (sys/class/block/<name>/).
type BlockDevice struct {
	Name string
	// Path is its real directory. That of a partition is in the directory of its disk.
	Path string
	// Number is major:minor (dev).
	Number string
	// Partition is set for partitions (partition).
	Partition bool
	// Slaves are the block devices it is made of (slaves).
	Slaves []string
	// MapperName and MapperUUID are those of the device mapper (dm/name, dm/uuid); empty for others.
	MapperName, MapperUUID string
	// Array is nil for what is no array of the md driver.
	Array *BlockArray
}

// BlockArray is an array of the md driver (sys/class/block/<name>/md/).
type BlockArray struct {
	// Level is "raid1", "raid5" and the like; "container" for a set of drives whose arrays are other devices (level).
	Level string
	// Degraded is how many members are missing; nil for levels without redundancy (degraded).
	Degraded *int
	// Action is what the array does to its members: "idle", "resync", "recover", "reshape", "check", "repair", "frozen"; empty for
	// levels without redundancy (sync_action).
	Action string
	// Members are the states of its members by block device, such as "in_sync" and "faulty" (dev-<member>/state).
	Members map[string]string
}

const blockClass = "sys/class/block"

// BlockDevices lists the block devices in order of name. Loop devices and those in memory are left out, because no drive is
// part of them.
func BlockDevices(fsys fs.FS) ([]BlockDevice, error) {
	names, err := list(fsys, blockClass)
	if err != nil {
		return nil, err
	}
	var devices []BlockDevice
	for _, name := range names {
		if strings.HasPrefix(name, "loop") || strings.HasPrefix(name, "ram") || strings.HasPrefix(name, "zram") {
			continue
		}
		dir, err := follow(fsys, path.Join(blockClass, name))
		if err != nil {
			return nil, err
		}
		if dir == "" {
			continue
		}
		a := attributes{fsys: fsys, dir: dir}
		b := readBlock(&a, name)
		if a.gone() {
			continue
		}
		if a.err != nil {
			return nil, a.err
		}
		devices = append(devices, b)
	}
	return devices, nil
}

func readBlock(a *attributes, name string) BlockDevice {
	b := BlockDevice{
		Name: name, Path: a.dir, Number: a.text("dev"), Partition: a.text("partition") != "",
		MapperName: a.text("dm/name"), MapperUUID: a.text("dm/uuid"),
	}
	slaves, err := list(a.fsys, path.Join(a.dir, "slaves"))
	a.err = errors.Join(a.err, err)
	b.Slaves = slaves
	if level := a.text("md/level"); level != "" {
		b.Array = readArray(a, level)
	}
	return b
}

func readArray(a *attributes, level string) *BlockArray {
	array := &BlockArray{Level: level, Degraded: a.number("md/degraded"), Action: a.text("md/sync_action"), Members: map[string]string{}}
	entries, err := list(a.fsys, path.Join(a.dir, "md"))
	a.err = errors.Join(a.err, err)
	for _, entry := range entries {
		if member, ok := strings.CutPrefix(entry, "dev-"); ok {
			array.Members[member] = a.text(path.Join("md", entry, "state"))
		}
	}
	return array
}

// BlockOf is the directory in which the kernel keeps the block devices of a drive: its path is a prefix of theirs. The name is
// that of an sg device, of a controller or of a block device. It is empty where there is none.
func BlockOf(fsys fs.FS, name string) (string, error) {
	generic, err := follow(fsys, path.Join("sys/class/scsi_generic", name))
	if err != nil {
		return "", err
	}
	if generic != "" {
		return follow(fsys, path.Join(generic, "device"))
	}
	for _, class := range []string{nvmeClass, blockClass} {
		dir, err := follow(fsys, path.Join(class, name))
		if err != nil || dir != "" {
			return dir, err
		}
	}
	return "", nil
}

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
