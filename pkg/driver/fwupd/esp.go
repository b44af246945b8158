package fwupd

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/pkg/sysfs"
)

// partition is a FAT file system that this process sees mounted where hosts have their EFI system partition. The firmware looks there for
// capsules (UEFI Specification 2.10, section 8.5.5).
type partition struct {
	// Path is its mount point.
	Path string
	// ReadOnly says that nothing can be written to it there.
	ReadOnly bool
	// Number is major:minor of its block device.
	Number string
	// ID and Type are those of the partition table, empty where udev does not say.
	ID, Type string
}

// espPaths are where hosts mount their EFI system partition, in the order in which they are shown. In a container the host's root
// may stand before them.
var espPaths = []string{"/boot/efi", "/efi", "/boot"}

// The types of an EFI system partition in a GPT and in an MBR (UEFI Specification 2.10, sections 5.3.3 and 5.2.2).
const (
	espType    = "c12a7328-f81f-11d2-ba4b-00a0c93ec93b"
	espTypeMBR = "0xef"
)

// mounts is what the mounts of this process say about the way of a capsule.
type mounts struct {
	// partitions are the candidates, one for each block device.
	partitions []partition
	// asleep are the automounts at those places on which nothing is mounted now. Systemd mounts the partition when somebody looks there,
	// and takes it away when nobody has for a while (systemd.automount(5), TimeoutIdleSec; two minutes where it finds the partition itself).
	asleep []string
	// variablesReadOnly says that efivarfs is mounted, and read-only.
	variablesReadOnly bool
}

// readMounts reads the mounts of this process (proc_pid_mountinfo(5)), because fwupdtool itself asks UDisks2, which no container
// reaches. Where one partition is mounted twice, a writable mount is believed before others, and the host's own before one that is
// further down.
func readMounts(host fs.FS) (mounts, error) {
	text, err := fs.ReadFile(host, "proc/self/mountinfo")
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return mounts{}, nil
	case err != nil:
		return mounts{}, fmt.Errorf("find EFI system partition: %w", err)
	}
	var out mounts
	awake := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		m, err := parseMount(line)
		switch {
		case err != nil:
			return mounts{}, fmt.Errorf("find EFI system partition: %w", err)
		case m.kind == "efivarfs" && m.Path == "/"+sysfs.EFIVariables:
			out.variablesReadOnly = m.ReadOnly // the last one covers those before it
		case m.kind == "vfat" && m.root == "/" && m.rank() >= 0:
			out.partitions = append(out.partitions, m.partition)
			awake[m.Path] = true
		case m.kind == "autofs" && m.rank() >= 0:
			out.asleep = append(out.asleep, m.Path)
		}
	}
	out.asleep = slices.DeleteFunc(out.asleep, func(path string) bool { return awake[path] })
	slices.SortStableFunc(out.partitions, func(a, b partition) int {
		switch {
		case a.ReadOnly != b.ReadOnly && b.ReadOnly:
			return -1
		case a.ReadOnly != b.ReadOnly:
			return 1
		case a.rank() != b.rank():
			return a.rank() - b.rank()
		}
		return len(a.Path) - len(b.Path)
	})
	seen := map[string]bool{}
	out.partitions = slices.DeleteFunc(out.partitions, func(p partition) bool {
		again := seen[p.Number]
		seen[p.Number] = true
		return again
	})
	for i := range out.partitions {
		p := &out.partitions[i]
		if p.ID, p.Type, err = sysfs.PartitionEntry(host, p.Number); err != nil {
			return mounts{}, fmt.Errorf("find EFI system partition: %w", err)
		}
	}
	return out, nil
}

// rank is the place of the mount point among espPaths, -1 for other mount points.
func (p partition) rank() int {
	return slices.IndexFunc(espPaths, func(path string) bool { return p.Path == path || p.Path == "/host"+path })
}

// mount is a line of mountinfo.
type mount struct {
	partition
	// kind is the type of the file system, root the directory of it that is mounted.
	kind, root string
}

// parseMount reads a line of mountinfo.
func parseMount(line string) (mount, error) {
	before, after, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " - ")
	left, right := strings.Fields(before), strings.Fields(after)
	if !ok || len(left) < 6 || len(right) < 2 { // what was mounted, between type and options, may be an empty text
		return mount{}, fmt.Errorf("parse mount %q: a field is missing", line)
	}
	readOnly := slices.Contains(strings.Split(left[5], ","), "ro") || slices.Contains(strings.Split(right[len(right)-1], ","), "ro")
	return mount{partition: partition{Path: left[4], ReadOnly: readOnly, Number: left[2]}, kind: right[0], root: left[3]}, nil
}

// chooseESP is the partition that the firmware looks at. Of one that is mounted nothing more has to be known; where several are, the
// partition table and then the boot decide. booted is the id of the partition that the machine booted from, empty where that is not
// known. The error is a *notReady.
func chooseESP(found []partition, booted string) (partition, error) {
	for _, p := range found {
		if booted != "" && p.ID == booted {
			return p, nil
		}
	}
	found = slices.DeleteFunc(slices.Clone(found), func(p partition) bool {
		return p.Type != "" && p.Type != espType && p.Type != espTypeMBR
	})
	var paths []string
	for _, p := range found {
		paths = append(paths, p.Path)
	}
	unknown := slices.ContainsFunc(found, func(p partition) bool { return p.ID == "" })
	switch {
	case len(found) == 0:
		return partition{}, notReadyf(NoPartition, "no EFI system partition is mounted where the daemon sees it: mount it at /boot/efi on the host")
	case booted != "" && !unknown:
		return partition{}, notReadyf(OtherPartition, "the machine booted from the EFI system partition %s, which is not the one mounted at %s: mount it there",
			booted, strings.Join(paths, " or "))
	case len(found) > 1:
		return partition{}, notReadyf(SeveralPartitions, "%s are mounted, and nothing says which one is the EFI system partition that the machine booted from: unmount the others",
			strings.Join(paths, " and "))
	}
	return found[0], nil
}
