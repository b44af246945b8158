package sysfs

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// BlockVolume is what a block device says of itself as a whole (sys/class/block/<name>/).
type BlockVolume struct {
	// Size in bytes (size, in units of 512 bytes).
	Size int64
	// Hidden devices are paths to another one, and cannot be opened (hidden).
	Hidden bool
	// ID is the unique id of an NVMe namespace or a SCSI disk (wwid); empty where it has none.
	ID string
}

// ReadBlockVolume reads a block device.
func ReadBlockVolume(fsys fs.FS, name string) (BlockVolume, error) {
	a := attributes{fsys: fsys, dir: path.Join(blockClass, name)}
	v := BlockVolume{Hidden: a.text("hidden") == "1", ID: cmp.Or(a.text("wwid"), a.text("device/wwid"))}
	if sectors := a.number("size"); sectors != nil {
		v.Size = int64(*sectors) * 512
	}
	return v, a.err
}

// Loops lists the files and devices behind loop devices, by the loop device.
func Loops(fsys fs.FS) (map[string]string, error) {
	names, err := list(fsys, blockClass)
	if err != nil {
		return nil, err
	}
	files := map[string]string{}
	for _, name := range names {
		if !strings.HasPrefix(name, "loop") {
			continue
		}
		file, err := LoopFile(fsys, name)
		if err != nil {
			return nil, err
		}
		if file != "" {
			files[name] = file
		}
	}
	return files, nil
}

// Export is a device, or a file, that this host gives to others.
type Export struct {
	// Path is as whoever exported it wrote it; it may lead over links.
	Path string
	// Over names the protocol.
	Over string
}

// Exports lists what this host gives to others over NVMe (sys/kernel/config/nvmet/subsystems/<name>/namespaces/<id> and passthru) and over
// SCSI (sys/kernel/config/target/core/<kind>/<name>).
func Exports(fsys fs.FS) ([]Export, error) {
	var out []Export
	const subsystems, cores = "sys/kernel/config/nvmet/subsystems", "sys/kernel/config/target/core"
	names, err := list(fsys, subsystems)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		ids, err := list(fsys, path.Join(subsystems, name, "namespaces"))
		if err != nil {
			return nil, err
		}
		dirs := []string{path.Join(subsystems, name, "passthru")}
		for _, id := range ids {
			dirs = append(dirs, path.Join(subsystems, name, "namespaces", id))
		}
		for _, dir := range dirs {
			a := attributes{fsys: fsys, dir: dir}
			if file := a.text("device_path"); a.text("enable") == "1" && file != "" && file != "(null)" {
				out = append(out, Export{file, "NVMe"})
			}
			if a.err != nil {
				return nil, a.err
			}
		}
	}
	kinds, err := list(fsys, cores)
	if err != nil {
		return nil, err
	}
	for _, kind := range kinds {
		names, err := list(fsys, path.Join(cores, kind))
		if err != nil && !errors.Is(err, syscall.ENOTDIR) {
			return nil, err
		}
		for _, name := range names {
			a := attributes{fsys: fsys, dir: path.Join(cores, kind, name)}
			if file := a.text("udev_path"); file != "" {
				out = append(out, Export{file, "SCSI"})
			}
			if a.err != nil && !errors.Is(a.err, syscall.ENOTDIR) {
				return nil, a.err
			}
		}
	}
	return out, nil
}

// DeviceNumber is the number, major:minor, of the block device that a path of the host leads to; empty where it leads to something else.
func DeviceNumber(fsys fs.FS, file string) (string, error) {
	name := strings.TrimPrefix(path.Clean(file), "/")
	info, err := fs.Stat(fsys, name)
	if err != nil {
		return "", named("read", name, err)
	}
	number, char := numberOf(info)
	if char {
		return "", nil
	}
	return number, nil
}

// numberOf is the number of a device, and whether it is a character device; empty for what is none.
func numberOf(info fs.FileInfo) (number string, char bool) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || info.Mode()&fs.ModeDevice == 0 {
		return "", false
	}
	return fmt.Sprint(unix.Major(stat.Rdev)) + ":" + fmt.Sprint(unix.Minor(stat.Rdev)), info.Mode()&fs.ModeCharDevice != 0
}

// GenericNumber is the number of the character device of an NVMe namespace (sys/class/nvme-generic/<name>/dev), ng0n1 for nvme0n1, or of a SCSI
// disk (sys/class/block/<name>/device/scsi_generic/<name>/dev); empty where it has none.
func GenericNumber(fsys fs.FS, block string) (string, error) {
	rest, ok := strings.CutPrefix(block, "nvme")
	if !ok {
		a := attributes{fsys: fsys, dir: path.Join(blockClass, block, "device")}
		if name := a.only("scsi_generic"); name != "" {
			return a.text(path.Join("scsi_generic", name, "dev")), a.err
		}
		return "", a.err
	}
	a := attributes{fsys: fsys, dir: path.Join("sys/class/nvme-generic", "ng"+rest)}
	return a.text("dev"), a.err
}

// Devices are block devices by their paths and by their numbers, and character devices by their numbers.
type Devices struct{ Paths, Blocks, Chars []string }

// Openers returns the programs that have one of the devices open, whatever they call it. The process with the id of this one is left out. What a
// program handed to the kernel and closed (io_uring, a message in flight) is not seen.
func Openers(fsys fs.FS, self string, of Devices) ([]Holder, error) {
	ids, err := list(fsys, "proc")
	if err != nil {
		return nil, err
	}
	var out []Holder
	for _, pid := range ids {
		if strings.Trim(pid, "0123456789") != "" || pid == self {
			continue
		}
		dir := path.Join("proc", pid, "fd")
		open, err := list(fsys, dir)
		if err != nil && !ended(err) {
			return nil, err
		}
		for _, fd := range open {
			is, err := opens(fsys, path.Join(dir, fd), of)
			if err != nil {
				return nil, err
			}
			if is {
				out = append(out, holder(fsys, pid))
				break
			}
		}
	}
	return out, nil
}

// opens reports whether an open file is one of the devices.
func opens(fsys fs.FS, fd string, of Devices) (bool, error) {
	file, err := fs.ReadLink(fsys, fd)
	switch {
	case err != nil && ended(err), err == nil && !strings.HasPrefix(file, "/"):
		return false, nil
	case err != nil:
		return false, named("read link", fd, err)
	case slices.Contains(of.Paths, file):
		return true, nil
	}
	info, err := fs.Stat(fsys, fd)
	if err != nil {
		if ended(err) || errors.Is(err, syscall.ENOTCONN) {
			return false, nil
		}
		return false, named("read", fd, err)
	}
	number, char := numberOf(info)
	return number != "" && (!char && slices.Contains(of.Blocks, number) || char && slices.Contains(of.Chars, number)), nil
}
