package host

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/sysfs"
)

// Use reads what uses a drive now: file systems, swap space, pools and arrays, directly or through the devices in between. It is zero for a
// device that is no drive. Volume managers with redundancy of their own (LVM, Ceph) do not show the kernel how they are.
func (h *Host) Use(ctx context.Context, id inventory.Identity) (inventory.Use, error) {
	if id.Class != inventory.Disk || id.Node == "" {
		return inventory.Use{}, nil
	}
	s, err := h.readStack(ctx)
	if err == nil {
		var use inventory.Use
		if use, err = s.use(id.Node); err == nil {
			return use, nil
		}
	}
	return inventory.Use{}, fmt.Errorf("read what uses %s: %w", id.Node, err)
}

// addArrays completes the drives of a scan. What cannot be read is left out: a job asks again before it changes anything.
func (h *Host) addArrays(ctx context.Context, devices []inventory.Device) {
	isDrive := func(d inventory.Device) bool { return d.Class == inventory.Disk && d.Node != "" }
	if !slices.ContainsFunc(devices, isDrive) {
		return
	}
	s, err := h.readStack(ctx)
	if err != nil {
		return
	}
	for i, d := range devices {
		if !isDrive(d) {
			continue
		}
		use, err := s.use(d.Node)
		if err != nil {
			continue
		}
		for _, a := range use.Arrays {
			devices[i].Arrays = append(devices[i].Arrays, a.Name)
		}
	}
}

// Arrays lists the redundant arrays of the md driver, in order of name.
func (h *Host) Arrays(ctx context.Context) ([]inventory.Array, error) {
	s, err := h.readStack(ctx)
	if err != nil {
		return nil, fmt.Errorf("list arrays: %w", err)
	}
	var arrays []inventory.Array
	for _, b := range s.devices {
		if b.Array != nil && b.Array.Degraded != nil {
			arrays = append(arrays, arrayOf(b))
		}
	}
	return arrays, nil
}

// stack is the block devices of a host and what is mounted from them.
type stack struct {
	fsys        fs.FS
	devices     []sysfs.BlockDevice
	controllers []sysfs.NVMeController
	mounts      []sysfs.Mount
	swaps       []string
	btrfs       []string
}

func (h *Host) readStack(ctx context.Context) (stack, error) {
	type read struct {
		stack stack
		err   error
	}
	got, err := attempt(ctx, h, "block devices", func(context.Context) read {
		s := stack{fsys: h.cfg.FS}
		err := s.read()
		return read{s, err}
	})
	if err == nil {
		err = got.err
	}
	return got.stack, err
}

func (s *stack) read() (err error) {
	if s.devices, err = sysfs.BlockDevices(s.fsys); err != nil {
		return err
	}
	if s.controllers, err = sysfs.NVMeControllers(s.fsys); err != nil {
		return err
	}
	if s.mounts, err = sysfs.Mounts(s.fsys); err != nil {
		return err
	}
	if s.swaps, err = sysfs.Swaps(s.fsys); err != nil {
		return err
	}
	s.btrfs, err = sysfs.BtrfsDevices(s.fsys)
	return err
}

// use is what uses the drive with the kernel's name.
func (s stack) use(node string) (inventory.Use, error) {
	dirs, err := s.dirs(node)
	if err != nil {
		return inventory.Use{}, err
	}
	w := walk{stack: s, seen: map[string]bool{}}
	for _, b := range s.devices {
		if slices.ContainsFunc(dirs, func(dir string) bool { return b.Path == dir || strings.HasPrefix(b.Path, dir+"/") }) {
			if err := w.follow(b); err != nil {
				return inventory.Use{}, err
			}
		}
	}
	slices.Sort(w.found.By)
	return w.found, nil
}

// dirs are the directories that the block devices of a drive are below: those of all its controllers, and with native
// multipath that of its subsystem.
func (s stack) dirs(node string) ([]string, error) {
	dir, err := sysfs.BlockOf(s.fsys, node)
	if err != nil || dir == "" {
		return nil, err
	}
	dirs := []string{dir}
	at := slices.IndexFunc(s.controllers, func(c sysfs.NVMeController) bool { return c.Name == node })
	if at < 0 || s.controllers[at].Subsystem == "" {
		return dirs, nil
	}
	subsystem := s.controllers[at].Subsystem
	dirs = append(dirs, path.Join("sys/devices/virtual/nvme-subsystem", subsystem))
	for _, c := range s.controllers {
		if c.Subsystem != subsystem || c.Name == node {
			continue
		}
		if dir, err = sysfs.BlockOf(s.fsys, c.Name); err != nil {
			return nil, err
		}
		dirs = append(dirs, dir)
	}
	return dirs, nil
}

// walk goes from the block devices of a drive to all that is made of them.
type walk struct {
	stack
	found inventory.Use
	seen  map[string]bool
}

// follow notes what uses a block device, and follows what is made of it. It does not look behind an array that survives the
// loss of this device.
func (s *walk) follow(b sysfs.BlockDevice) error {
	if s.seen[b.Name] {
		return nil
	}
	s.seen[b.Name] = true
	if err := s.note(b); err != nil {
		return err
	}
	for _, above := range s.devices {
		switch {
		case !slices.Contains(above.Slaves, b.Name) && !(above.Partition && path.Dir(above.Path) == b.Path):
		case above.Array != nil && above.Array.Degraded != nil:
			if strings.Contains(above.Array.Members[b.Name], "faulty") {
				continue // the array goes on without it
			}
			s.found.Arrays = append(s.found.Arrays, arrayOf(above))
		default:
			if err := s.follow(above); err != nil {
				return err
			}
		}
	}
	return nil
}

func arrayOf(b sysfs.BlockDevice) inventory.Array {
	a := inventory.Array{Name: b.Name, Degraded: *b.Array.Degraded > 0}
	if slices.Contains([]string{"resync", "recover", "reshape"}, b.Array.Action) {
		a.Rebuilds = b.Array.Action
	}
	return a
}

// note adds the users of one block device.
func (s *walk) note(b sysfs.BlockDevice) error {
	by := func(format string, args ...any) { s.found.By = append(s.found.By, fmt.Sprintf(format, args...)) }
	isThis := func(source string) bool {
		name := path.Base(source)
		return strings.HasPrefix(source, "/dev/") && (name == b.Name || b.MapperName != "" && name == b.MapperName)
	}
	point := ""
	for _, m := range s.mounts {
		if m.Number == b.Number || isThis(m.Source) {
			if point == "" || len(m.Point) < len(point) {
				point = m.Point
			}
		}
	}
	switch {
	case point != "":
		by("%s is mounted on %s", b.Name, point)
	case slices.Contains(s.btrfs, b.Name):
		by("%s is part of a mounted btrfs file system", b.Name)
	case slices.ContainsFunc(s.swaps, isThis):
		by("%s is swap space", b.Name)
	case strings.HasPrefix(b.MapperName, "ceph--"):
		by("%s is a Ceph OSD", b.Name)
	}
	kind, label, err := sysfs.Content(s.fsys, b.Number)
	if err != nil {
		return err
	}
	switch kind {
	case "ceph_bluestore":
		by("%s is a Ceph OSD", b.Name)
	case "zfs_member":
		return s.notePool(b, label)
	}
	return nil
}

// notePool adds the ZFS pool that a block device is part of. How the drives of a pool back each other up is not shown.
func (s *walk) notePool(b sysfs.BlockDevice, pool string) error {
	state, err := sysfs.PoolState(s.fsys, pool)
	if err != nil || state == "" {
		return err // it is not imported
	}
	s.found.By = append(s.found.By, fmt.Sprintf("%s is part of the ZFS pool %s", b.Name, pool))
	s.found.Arrays = append(s.found.Arrays, inventory.Array{Name: "the ZFS pool " + pool, Degraded: state != "ONLINE"})
	return nil
}
