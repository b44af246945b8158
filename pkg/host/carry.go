package host

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/nodefirmware/node-firmware-operator/pkg/sysfs"
)

// carried are the directories without which the node does not run: those of its system, what the kubelet, etcd, container runtimes, k3s,
// RKE2 and k0s keep unless they are told otherwise, and the journal of this product.
var carried = []string{
	"/", "/usr", "/var", "/var/lib/kubelet", "/var/lib/etcd", "/var/lib/containerd", "/var/lib/containers", "/var/lib/docker",
	"/var/lib/rancher", "/var/lib/k0s", "/var/lib/node-firmware",
}

// keepers are the processes that keep these directories. What they have open shows where they really are, however they were told; etcd
// and the runtimes have their databases open as long as they run.
var keepers = []string{
	"kubelet", "kubelite", "etcd", "k8s-dqlite", "containerd", "dockerd", "crio", "k3s", "k3s-server", "k3s-agent", "rke2", "k0s",
}

// kept are their flags for these directories.
var kept = []string{"root-dir", "data-dir", "wal-dir", "root", "data-root"}

// ground is what one of these directories is on.
type ground struct {
	dir    string
	mounts []sysfs.Mount
	// seen is false where that is not known, or not of all of it.
	seen bool
}

// grounds finds what the node is on: the known directories, those that its processes were told, their open files, and what containers
// write.
func (s stack) grounds() ([]ground, error) {
	processes, err := sysfs.Processes(s.fsys, keepers...)
	if err != nil {
		return nil, err
	}
	g := grounding{stack: s, known: map[string]bool{}}
	for _, dir := range carried {
		err = cmp.Or(err, g.dir(dir, dir))
	}
	for _, p := range processes {
		err = cmp.Or(err, g.process(p))
	}
	for _, m := range s.mounts {
		if _, upper, unread := s.madeOf(m); unread == nil && path.IsAbs(upper) {
			err = cmp.Or(err, g.dir("a container", upper))
		}
	}
	return g.found, err
}

// grounding collects grounds.
type grounding struct {
	stack
	found []ground
	// known are the mounts that were looked at.
	known map[string]bool
}

// dir adds what a directory of the host is on.
func (g *grounding) dir(name, dir string) error {
	at, err := g.resolve(dir)
	if err != nil || at == "" {
		return err
	}
	return g.on(name, mountOf(g.mounts, at))
}

// process adds what a process keeps. In a container it sees other mounts than the host, at the same path or at another one.
func (g *grounding) process(p sysfs.Process) error {
	for _, flag := range kept {
		for _, dir := range p.Flag(flag) {
			if !path.IsAbs(dir) {
				continue // its open files show it
			}
			err := g.dir(dir, dir)
			if !slices.Equal(p.Mounts, g.mounts) {
				err = cmp.Or(err, g.on(dir, mountOf(p.Mounts, path.Clean(dir))))
			}
			if err != nil {
				return err
			}
		}
	}
	files := "the files of " + p.Name
	for _, file := range p.Files {
		if err := g.on(files, mountOf(p.Mounts, file)); err != nil {
			return err
		}
	}
	if p.Hidden {
		g.found = append(g.found, ground{dir: files})
	}
	return nil
}

// on adds a mount. The first name of each counts, as the file systems of the host's first process come first.
func (g *grounding) on(name string, m *sysfs.Mount) error {
	if m == nil || g.known[fmt.Sprint(*m)] {
		return nil
	}
	g.known[fmt.Sprint(*m)] = true
	mounts, seen, err := g.restsOn(*m, maxLayers)
	if err == nil {
		g.found = append(g.found, ground{name, mounts, seen})
	}
	return err
}

// maxLinks bounds the links on the way to a directory, as the kernel does.
const maxLinks = 40

// resolve follows the links on the way to a directory of the host; it is empty where there are too many.
func (s stack) resolve(dir string) (string, error) {
	at, rest := "/", dir
	for links := 0; rest != ""; {
		var name string
		name, rest, _ = strings.Cut(rest, "/")
		next := path.Join(at, name)
		target, err := fs.ReadLink(s.fsys, cmp.Or(strings.TrimPrefix(next, "/"), "."))
		switch {
		case err == nil && links == maxLinks:
			return "", nil
		case err == nil:
			links++
			rest = target + "/" + rest
			if path.IsAbs(target) {
				at = "/"
			}
		case errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrInvalid) || errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTDIR):
			at = next
		default:
			return "", fmt.Errorf("follow %s: %w", dir, err)
		}
	}
	return at, nil
}

// carries is the first of these directories whose file system is on the block device; empty for none. Where it cannot be seen what a
// directory is on, every device may be that.
func (s stack) carries(b sysfs.BlockDevice) (string, error) {
	for _, g := range s.carried {
		for _, m := range g.mounts {
			if backs, err := s.backs(b, m); backs || err != nil {
				return g.dir, err
			}
		}
		if !g.seen {
			return g.dir + ", whose disk cannot be seen,", nil
		}
	}
	return "", nil
}

// maxLayers bounds how many mounts rest on each other.
const maxLayers = 6

// noDisk are file systems in memory, of the kernel, and of the network.
var noDisk = []string{
	"tmpfs", "ramfs", "rootfs", "devtmpfs", "devpts", "mqueue", "hugetlbfs", "proc", "sysfs", "cgroup", "cgroup2", "nsfs", "bpf", "debugfs",
	"tracefs", "securityfs", "selinuxfs", "configfs", "efivarfs", "pstore", "binfmt_misc", "autofs", "rpc_pipefs", "fusectl", "nfs", "nfs4",
	"cifs", "smb3", "ceph", "9p", "virtiofs",
}

// imageMounts are where the disk is mounted from which a system runs as an image: of ostree and bootc, and of a live system.
var imageMounts = []string{"/sysroot", "/run/initramfs/live"}

// restsOn lists the mounts of disks that a mount rests on: itself, or those of the layers and images that it is made of. The second result
// is false where they cannot all be seen.
func (s stack) restsOn(m sysfs.Mount, layers int) (on []sysfs.Mount, seen bool, err error) {
	below, upper, err := s.madeOf(m)
	for _, b := range s.devices {
		if !seen && err == nil {
			seen, err = s.backs(b, m)
		}
	}
	switch {
	case err != nil:
		return nil, false, err
	case seen:
		on = append(on, m)
	case slices.Contains(noDisk, m.Type) || strings.HasPrefix(m.Source, "/dev/ram") || strings.HasPrefix(m.Source, "/dev/zram"):
		return nil, true, nil
	default:
		seen = len(below) > 0
	}
	add := func(other *sysfs.Mount) error {
		if layers == 0 || other == nil || *other == m {
			seen = false
			return nil
		}
		more, all, err := s.restsOn(*other, layers-1)
		on, seen = append(on, more...), seen && all
		return err
	}
	for _, dir := range below {
		other := mountOf(s.mounts, dir)
		if other != nil && other.Point != dir && slices.Contains(noDisk, other.Type) {
			other = nil // what was mounted there is hidden from the running system, as that of a ramdisk is
		}
		if err := add(other); err != nil {
			return nil, false, err
		}
	}
	if upper != "" {
		err = add(mountOf(s.mounts, upper))
	}
	for _, point := range imageMounts {
		if other := mountOf(s.mounts, point); !seen && err == nil && other != nil && other.Point == point {
			seen = true
			err = add(other)
		}
	}
	return on, seen, err
}

// madeOf lists the directories and files that a mount is made of: the layers of an overlay, and the images behind loop devices. The upper
// layer takes what is written.
func (s stack) madeOf(m sysfs.Mount) (below []string, upper string, err error) {
	if m.Type == "overlay" {
		for option := range strings.SplitSeq(m.Options, ",") {
			switch key, value, _ := strings.Cut(option, "="); key {
			case "lowerdir", "lowerdir+", "datadir+":
				below = append(below, slices.DeleteFunc(strings.Split(value, ":"), func(dir string) bool { return dir == "" })...)
			case "upperdir":
				upper = value
			}
		}
		return below, upper, nil
	}
	device, isDevice := strings.CutPrefix(m.Source, "/dev/")
	if !isDevice && strings.HasPrefix(m.Source, "/") {
		return []string{m.Source}, "", nil
	}
	for _, loop := range s.loops(device, m.Number) {
		file, err := sysfs.LoopFile(s.fsys, loop)
		if err != nil {
			return nil, "", err
		}
		below = append(below, file)
	}
	return below, "", nil
}

// loops are the loop devices that a device is made of.
func (s stack) loops(name, number string) []string {
	if strings.HasPrefix(name, "loop") {
		return []string{name}
	}
	var out []string
	for _, b := range s.devices {
		if b.Name == name || number != "" && b.Number == number {
			for _, slave := range b.Slaves {
				out = append(out, s.loops(slave, "")...)
			}
		}
	}
	return out
}

// mountOf is the mount that a directory is on: the one closest to it, and of several there the last, which hides the others.
func mountOf(mounts []sysfs.Mount, dir string) *sysfs.Mount {
	var found *sysfs.Mount
	for i, m := range mounts {
		above := m.Point == "/" || strings.HasPrefix(dir, m.Point) && (len(dir) == len(m.Point) || dir[len(m.Point)] == '/')
		if above && (found == nil || len(m.Point) >= len(found.Point)) {
			found = &mounts[i]
		}
	}
	return found
}

// backs reports whether the file system that is mounted is on the block device itself, alone or with others.
func (s stack) backs(b sysfs.BlockDevice, m sysfs.Mount) (bool, error) {
	if m.Number == b.Number || is(b, m.Source) {
		return true, nil
	}
	switch m.Type {
	case "btrfs":
		pool := s.btrfsOf(b)
		return pool != nil && slices.ContainsFunc(s.devices, func(other sysfs.BlockDevice) bool {
			return is(other, m.Source) && slices.Contains(pool.Devices, other.Name)
		}), nil
	case "zfs":
		pool, _, _ := strings.Cut(m.Source, "/")
		kind, label, err := sysfs.Content(s.fsys, b.Number)
		return kind == "zfs_member" && label == pool, err
	}
	return false, nil
}
