package sysfs

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// Mount is a mounted file system as the first process of the host sees it (proc/1/mountinfo).
type Mount struct {
	// Number is major:minor of its device. Some file systems have one of their own there, which no device has.
	Number string
	// Point is where it is mounted, Type its file system, and Source what was mounted, such as "/dev/sda1".
	Point, Type, Source string
	// Options are those of the file system itself, separated by commas.
	Options string
}

// maxTable bounds a line of a table of the kernel in bytes.
const maxTable = 64 << 10

// Mounts lists the mounts of the host.
func Mounts(fsys fs.FS) ([]Mount, error) { return mountsOf(fsys, "1") }

// mountsOf lists the mounts that a process sees.
func mountsOf(fsys fs.FS, pid string) ([]Mount, error) {
	file := path.Join("proc", pid, "mountinfo")
	var mounts []Mount
	err := lines(fsys, file, func(line string) error {
		before, after, found := strings.Cut(line, " - ")
		place, what := strings.Fields(before), strings.Fields(after)
		if !found || len(place) < 6 || len(what) < 2 {
			return fmt.Errorf("read %s: %q is not a mount entry", file, line)
		}
		m := Mount{Number: place[2], Point: unescape(place[4]), Type: what[0], Source: unescape(what[1])}
		if len(what) > 2 {
			m.Options = unescape(what[2])
		}
		mounts = append(mounts, m)
		return nil
	})
	return mounts, err
}

// LoopFile is the file behind a loop device, as a path of the host; empty where it has none (sys/class/block/<name>/loop/backing_file).
func LoopFile(fsys fs.FS, name string) (string, error) {
	dir, err := follow(fsys, path.Join(blockClass, name))
	if err != nil || dir == "" {
		return "", err
	}
	a := attributes{fsys: fsys, dir: dir}
	return a.text("loop/backing_file"), a.err
}

// Swaps lists what the host swaps to, as paths (proc/swaps).
func Swaps(fsys fs.FS) ([]string, error) {
	var swaps []string
	err := lines(fsys, "proc/swaps", func(line string) error {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] != "Filename" {
			swaps = append(swaps, unescape(fields[0]))
		}
		return nil
	})
	return swaps, err
}

// Btrfs is a mounted btrfs file system. It has a number that none of its devices has.
type Btrfs struct {
	UUID string
	// Devices are its block devices (sys/fs/btrfs/<uuid>/devices/).
	Devices []string
	// Missing says that it is mounted without one of them (devinfo/<id>/missing; older kernels do not say so).
	Missing bool
}

// BtrfsMounted lists the mounted btrfs file systems.
func BtrfsMounted(fsys fs.FS) ([]Btrfs, error) {
	const class = "sys/fs/btrfs"
	ids, err := list(fsys, class)
	if err != nil {
		return nil, err
	}
	var out []Btrfs
	for _, id := range ids {
		b := Btrfs{UUID: id}
		if b.Devices, err = list(fsys, path.Join(class, id, "devices")); err != nil {
			return nil, err
		}
		if len(b.Devices) == 0 {
			continue // what the kernel offers, beside the file systems
		}
		a := attributes{fsys: fsys, dir: path.Join(class, id)}
		known, err := list(fsys, path.Join(class, id, "devinfo"))
		for _, device := range known {
			b.Missing = b.Missing || a.text(path.Join("devinfo", device, "missing")) == "1"
		}
		if err := errors.Join(err, a.err); err != nil {
			return nil, err
		}
		out = append(out, b)
	}
	return out, nil
}

// Content is what udev found on a block device: the type of its file system, such as "zfs_member", and its label; empty where
// it found nothing (run/udev/data/b<major>:<minor>).
func Content(fsys fs.FS, number string) (kind, label string, err error) {
	err = lines(fsys, path.Join("run/udev/data", "b"+number), func(line string) error {
		if v, ok := strings.CutPrefix(line, "E:ID_FS_TYPE="); ok {
			kind = v
		}
		if v, ok := strings.CutPrefix(line, "E:ID_FS_LABEL="); ok {
			label = v
		}
		return nil
	})
	return kind, label, err
}

// PartitionEntry is what udev found about a partition in its partition table: the id of the partition and of its type, in lower case,
// as in "c12a7328-f81f-11d2-ba4b-00a0c93ec93b" of a GPT and "0xef" of an MBR; empty where it found nothing
// (run/udev/data/b<major>:<minor>).
func PartitionEntry(fsys fs.FS, number string) (id, kind string, err error) {
	err = lines(fsys, path.Join("run/udev/data", "b"+number), func(line string) error {
		if v, ok := strings.CutPrefix(line, "E:ID_PART_ENTRY_UUID="); ok {
			id = strings.ToLower(v)
		}
		if v, ok := strings.CutPrefix(line, "E:ID_PART_ENTRY_TYPE="); ok {
			kind = strings.ToLower(v)
		}
		return nil
	})
	return id, kind, err
}

// PoolState is the state of an imported ZFS pool, such as "ONLINE" and "DEGRADED"; empty where it is not imported
// (proc/spl/kstat/zfs/<pool>/state).
func PoolState(fsys fs.FS, pool string) (string, error) {
	name := path.Join("proc/spl/kstat/zfs", pool, "state")
	if !fs.ValidPath(name) {
		return "", nil
	}
	a := attributes{fsys: fsys, dir: path.Dir(name)}
	return a.text("state"), a.err
}

// lines calls a function with each line of a file. A file that is absent has none.
func lines(fsys fs.FS, name string, each func(string) error) error {
	f, err := fsys.Open(name)
	if absent(err) {
		return nil
	}
	if err != nil {
		return named("read", name, err)
	}
	defer f.Close()
	scanner := bufio.NewScanner(f)
	scanner.Buffer(nil, maxTable)
	for scanner.Scan() {
		if err := each(scanner.Text()); err != nil {
			return err
		}
	}
	if err := scanner.Err(); err != nil {
		return errors.Join(fmt.Errorf("read %s", name), err)
	}
	return nil
}

// unescape undoes what the kernel writes for blanks and backslashes (mangle_path).
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

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
