package host

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/sysfs"
)

// Use reads what uses a drive now: file systems, swap space, pools and arrays, directly or through the devices in between. It is zero for a
// device that is no drive. Volume managers with redundancy of their own (LVM, Ceph) hardly show the kernel how they are.
func (h *Host) Use(ctx context.Context, id inventory.Identity) (inventory.Use, error) {
	if !isDrive(id) {
		return inventory.Use{}, nil
	}
	s, err := h.readStack(ctx)
	if err != nil {
		return inventory.Use{}, fmt.Errorf("read what uses %s: %w", id.Node, err)
	}
	return s.use(id.Node)
}

func isDrive(id inventory.Identity) bool { return id.Class == inventory.Disk && id.Node != "" }

// addUse completes the drives of a scan: with their arrays, and with why one must not be written where it is. A drive of which that
// cannot be read is unreadable: it is not one that is in no array.
func (h *Host) addUse(ctx context.Context, devices []inventory.Device) {
	if !slices.ContainsFunc(devices, func(d inventory.Device) bool { return isDrive(d.Identity) }) {
		return
	}
	s, unread := h.readStack(ctx)
	for i, d := range devices {
		if !isDrive(d.Identity) || d.Err != nil {
			continue
		}
		use, err := inventory.Use{}, unread
		if err == nil {
			use, err = s.use(d.Node)
		}
		if err != nil {
			devices[i].Err, devices[i].Firmware = fmt.Errorf("read %s %s: %w", d.Class, d.UniqueID, err), nil
			continue
		}
		for _, a := range use.Arrays {
			devices[i].Arrays = append(devices[i].Arrays, a.Name)
		}
		if fw := d.Firmware; fw != nil && fw.ReadOnly == "" {
			if fw.ReadOnly = use.Forbids(*fw); fw.ReadOnly != "" {
				fw.Rollback, fw.RollbackMessage = inventory.RollbackNone, fw.ReadOnly
			}
		}
	}
}

// Arrays lists the redundant arrays of the md driver, in order of name.
func (h *Host) Arrays(ctx context.Context) ([]inventory.Array, error) {
	type read struct {
		devices []sysfs.BlockDevice
		err     error
	}
	got, err := attempt(ctx, h, blockDevices, func(context.Context) (r read) {
		r.devices, r.err = sysfs.BlockDevices(h.cfg.FS)
		return r
	})
	if err = cmp.Or(err, got.err); err != nil {
		return nil, fmt.Errorf("list arrays: %w", err)
	}
	var arrays []inventory.Array
	for _, b := range got.devices {
		if b.Array != nil && b.Array.Degraded != nil {
			arrays = append(arrays, arrayOf(b))
		}
	}
	return arrays, nil
}

// blockDevices is the turn of those who read block devices.
const blockDevices = "block devices"

// stack is the block devices of a host and what is mounted from them.
type stack struct {
	fsys        fs.FS
	devices     []sysfs.BlockDevice
	controllers []sysfs.NVMeController
	paths       []sysfs.SCSIDisk
	mounts      []sysfs.Mount
	swaps       []string
	btrfs       []sysfs.Btrfs
	carried     []ground
	// holding says that what a drive holds does not count, such as the data of a Ceph OSD that does not run. Pods says that what the pods of the
	// kubelet use does not either.
	holding, pods bool
}

func (h *Host) readStack(ctx context.Context) (stack, error) {
	type read struct {
		stack stack
		err   error
	}
	got, err := attempt(ctx, h, blockDevices, func(context.Context) read {
		s := stack{fsys: h.cfg.FS}
		err := s.read()
		return read{s, err}
	})
	return got.stack, cmp.Or(err, got.err)
}

func (s *stack) read() (err error) {
	if s.devices, err = sysfs.BlockDevices(s.fsys); err != nil {
		return err
	}
	if s.controllers, err = sysfs.NVMeControllers(s.fsys); err != nil {
		return err
	}
	if s.paths, err = sysfs.SCSIDisks(s.fsys); err != nil {
		return err
	}
	if s.mounts, err = sysfs.Mounts(s.fsys); err != nil {
		return err
	}
	if s.swaps, err = sysfs.Swaps(s.fsys); err != nil {
		return err
	}
	if s.btrfs, err = sysfs.BtrfsMounted(s.fsys); err != nil {
		return err
	}
	s.carried, err = s.grounds()
	return err
}

// use is what uses the drive with the kernel's name.
func (s stack) use(node string) (inventory.Use, error) {
	dirs, err := s.dirs(node)
	if err != nil {
		return inventory.Use{}, fmt.Errorf("read what uses %s: %w", node, err)
	}
	w := walk{stack: s, seen: map[seen]bool{}}
	for _, b := range s.devices {
		if slices.ContainsFunc(dirs, func(dir string) bool { return b.Path == dir || strings.HasPrefix(b.Path, dir+"/") }) {
			if err := w.follow(b, false); err != nil {
				return inventory.Use{}, fmt.Errorf("read what uses %s: %w", node, err)
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
	own := slices.IndexFunc(s.paths, func(p sysfs.SCSIDisk) bool { return strings.HasPrefix(dir+"/", p.Device.Path+"/") })
	if own >= 0 {
		for i, p := range s.paths {
			if i != own && leadTogether(p, s.paths[own]) {
				dirs = append(dirs, p.Device.Path)
			}
		}
		return dirs, nil
	}
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
	seen  map[seen]bool
}

// seen is a block device that was looked at; behind an array less of it counts.
type seen struct {
	name   string
	behind bool
}

// follow notes what uses a block device, and follows what is made of it. Behind an array that survives the loss of this device
// it only looks for what carries the node.
func (s *walk) follow(b sysfs.BlockDevice, behind bool) error {
	if s.seen[seen{b.Name, behind}] {
		return nil
	}
	s.seen[seen{b.Name, behind}] = true
	if err := s.note(b, behind); err != nil {
		return err
	}
	for _, above := range s.devices {
		if !slices.Contains(above.Slaves, b.Name) && !(above.Partition && path.Dir(above.Path) == b.Path) {
			continue
		}
		array := above.Array != nil && above.Array.Degraded != nil
		if array && strings.Contains(above.Array.Members[b.Name], "faulty") {
			continue // the array goes on without it
		}
		if array && !behind {
			s.join(arrayOf(above))
		}
		if err := s.follow(above, behind || array); err != nil {
			return err
		}
	}
	return nil
}

// join adds a set of drives that this one is a member of.
func (s *walk) join(a inventory.Array) {
	if !slices.ContainsFunc(s.found.Arrays, func(b inventory.Array) bool { return b.Name == a.Name }) {
		s.found.Arrays = append(s.found.Arrays, a)
	}
}

func arrayOf(b sysfs.BlockDevice) inventory.Array {
	a := inventory.Array{Name: b.Name, Degraded: *b.Array.Degraded > 0}
	if slices.Contains([]string{"resync", "recover", "reshape"}, b.Array.Action) {
		a.Rebuilds = b.Array.Action
	}
	return a
}

// note adds the users of one block device, and the sets of drives that it is or is part of.
func (s *walk) note(b sysfs.BlockDevice, behind bool) error {
	if s.found.Carries == "" {
		var err error
		if s.found.Carries, err = s.carries(b); err != nil {
			return err
		}
	}
	if behind {
		return nil
	}
	by := func(format string, args ...any) { s.found.By = append(s.found.By, fmt.Sprintf(format, args...)) }
	point := ""
	for _, m := range s.mounts {
		if m.Number == b.Number || is(b, m.Source) {
			if point == "" || len(m.Point) < len(point) {
				point = m.Point
			}
		}
	}
	pool := s.btrfsOf(b)
	switch {
	case point != "":
		by("%s is mounted on %s", b.Name, point)
	case pool != nil:
		by("%s is part of a mounted btrfs file system", b.Name)
	case slices.ContainsFunc(s.swaps, func(swap string) bool { return is(b, swap) }):
		by("%s is swap space", b.Name)
	case strings.HasPrefix(b.MapperName, "ceph--"):
		by("%s is a Ceph OSD", b.Name)
	}
	if pool != nil && len(pool.Devices) > 1 {
		s.join(inventory.Array{Name: "the btrfs file system " + pool.UUID, Degraded: pool.Missing})
	}
	switch {
	case strings.HasPrefix(b.MapperUUID, "mpath-") && len(b.Slaves) > 1:
		s.join(inventory.Array{Name: "the multipath set " + b.MapperName})
	case s.hasLegs(b):
		s.join(inventory.Array{Name: "the LVM RAID of " + volumeGroup(b.MapperName), Degraded: s.lacksLeg(b)})
	}
	kind, label, err := sysfs.Content(s.fsys, b.Number)
	if err != nil {
		return err
	}
	switch kind {
	case "ceph_bluestore":
		if s.holding {
			return nil
		}
		by("%s is a Ceph OSD", b.Name)
	case "zfs_member":
		return s.notePool(b, label)
	}
	return nil
}

// is reports whether the path names the block device.
func is(b sysfs.BlockDevice, source string) bool {
	name := path.Base(source)
	return strings.HasPrefix(source, "/dev/") && (name == b.Name || b.MapperName != "" && name == b.MapperName)
}

// notePool adds the ZFS pool that a block device is part of. How the drives of a pool back each other up is not shown.
func (s *walk) notePool(b sysfs.BlockDevice, pool string) error {
	state, err := sysfs.PoolState(s.fsys, pool)
	if err != nil || state == "" {
		return err // it is not imported
	}
	s.found.By = append(s.found.By, fmt.Sprintf("%s is part of the ZFS pool %s", b.Name, pool))
	s.join(inventory.Array{Name: "the ZFS pool " + pool, Degraded: state != "ONLINE"})
	return nil
}

// btrfsOf is the mounted btrfs file system that the block device is part of; nil for none.
func (s stack) btrfsOf(b sysfs.BlockDevice) *sysfs.Btrfs {
	at := slices.IndexFunc(s.btrfs, func(f sysfs.Btrfs) bool { return slices.Contains(f.Devices, b.Name) })
	if at < 0 {
		return nil
	}
	return &s.btrfs[at]
}

// lvm begins the id of a logical volume, and of what LVM makes one of.
const lvm = "LVM-"

// leg ends the names of the volumes that a mirrored or RAID volume is made of. LVM gives no other volume such a name.
var leg = regexp.MustCompile(`_[rm]image_\d+$`)

// hasLegs reports whether a block device is a volume with redundancy of LVM.
func (s stack) hasLegs(b sysfs.BlockDevice) bool {
	return strings.HasPrefix(b.MapperUUID, lvm) && slices.ContainsFunc(s.below(b), func(below sysfs.BlockDevice) bool { return leg.MatchString(below.MapperName) })
}

// lacksLeg reports whether a part of a volume is on no drive: LVM puts something in its place while a drive is missing.
func (s stack) lacksLeg(b sysfs.BlockDevice) bool {
	return strings.HasPrefix(b.MapperUUID, lvm) && (len(b.Slaves) == 0 || slices.ContainsFunc(s.below(b), s.lacksLeg))
}

// below are the block devices that one is made of, and the one that a partition is on.
func (s stack) below(b sysfs.BlockDevice) []sysfs.BlockDevice {
	var out []sysfs.BlockDevice
	for _, other := range s.devices {
		if slices.Contains(b.Slaves, other.Name) || b.Partition && path.Dir(b.Path) == other.Path {
			out = append(out, other)
		}
	}
	return out
}

// volumeGroup is the group in the name of a logical volume, "group-volume", in which a hyphen of either is doubled. The legs of all
// volumes of a group are on the same drives.
func volumeGroup(volume string) string {
	const hyphen = "\x00"
	group, _, _ := strings.Cut(strings.ReplaceAll(volume, "--", hyphen), "-")
	return strings.ReplaceAll(group, hyphen, "-")
}
