package fwupd

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

// partition is the EFI system partition as this process sees it mounted. The firmware looks there for capsules
// (UEFI Specification 2.10, section 8.5.5).
type partition struct {
	// Path is its mount point.
	Path string
	// ReadOnly says that nothing can be written to it there.
	ReadOnly bool
}

// espPaths are where hosts mount their EFI system partition, in the order in which they are believed. In a container the host's root
// may stand before them.
var espPaths = []string{"/boot/efi", "/efi", "/boot"}

var errNoESP = errors.New("no EFI system partition is mounted where the daemon sees it: mount it at /boot/efi on the host")

// findESP looks for the partition among the mounts of this process (proc_pid_mountinfo(5)), because fwupdtool itself asks UDisks2,
// which no container reaches. A host's own mount is believed before one that is further down, and a writable one before others.
// It returns errNoESP when there is none.
func findESP(host fs.FS) (partition, error) {
	text, err := fs.ReadFile(host, "proc/self/mountinfo")
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return partition{}, errNoESP
	case err != nil:
		return partition{}, fmt.Errorf("find EFI system partition: %w", err)
	}
	var found []partition
	for line := range strings.Lines(string(text)) {
		p, ok, err := parseMount(line)
		if err != nil {
			return partition{}, fmt.Errorf("find EFI system partition: %w", err)
		}
		if ok && p.rank() >= 0 {
			found = append(found, p)
		}
	}
	if len(found) == 0 {
		return partition{}, errNoESP
	}
	return slices.MinFunc(found, func(a, b partition) int {
		switch {
		case a.ReadOnly != b.ReadOnly && b.ReadOnly:
			return -1
		case a.ReadOnly != b.ReadOnly:
			return 1
		case a.rank() != b.rank():
			return a.rank() - b.rank()
		}
		return len(a.Path) - len(b.Path)
	}), nil
}

// rank is the place of the mount point among espPaths, -1 for other mount points.
func (p partition) rank() int {
	return slices.IndexFunc(espPaths, func(path string) bool { return p.Path == path || p.Path == "/host"+path })
}

// parseMount reads a line of mountinfo. It reports false for file systems other than FAT, the one of an EFI system partition.
func parseMount(line string) (partition, bool, error) {
	before, after, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " - ")
	left, right := strings.Fields(before), strings.Fields(after)
	if !ok || len(left) < 6 || len(right) < 3 {
		return partition{}, false, fmt.Errorf("parse mount %q: a field is missing", line)
	}
	if right[0] != "vfat" || left[3] != "/" {
		return partition{}, false, nil
	}
	readOnly := slices.Contains(strings.Split(left[5], ","), "ro") || slices.Contains(strings.Split(right[2], ","), "ro")
	return partition{Path: left[4], ReadOnly: readOnly}, true, nil
}
