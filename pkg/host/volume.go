package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/sysfs"
)

// Volume is an open block device of a drive: of an NVMe drive, one of its namespaces. There is one of it however many paths lead there. It is read past the kernel's cache, which keeps what
// the drive has lost.
type Volume struct {
	// Name is the kernel's, which may be another one after a reboot; ID stays.
	Name, ID string
	// Size in bytes.
	Size int64
	io.ReaderAt
	io.Closer
}

// InUseError says what uses a drive.
type InUseError struct {
	By []string
	// Pods says that all of it is by pods of the kubelet, and ends when the node is drained.
	Pods bool
}

// Error lists it.
func (e *InUseError) Error() string { return "the drive is in use: " + strings.Join(e.By, "; ") }

// Unused fails with an *InUseError when anything uses a drive or what is made of it, and with another error when that cannot be told.
func (h *Host) Unused(ctx context.Context, id inventory.Identity) error {
	_, err := h.volumes(ctx, id, func(s stack, devices []sysfs.BlockDevice) ([]Volume, error) { return nil, s.unused(id.Node, devices) })
	return err
}

// Claim opens everything that a drive stores for this process alone, by all paths, and fails as Unused does.
func (h *Host) Claim(ctx context.Context, id inventory.Identity) ([]Volume, error) {
	return h.volumes(ctx, id, func(s stack, devices []sysfs.BlockDevice) ([]Volume, error) {
		if err := s.unused(id.Node, devices); err != nil {
			return nil, err
		}
		return s.open(devices, os.O_EXCL)
	})
}

func (s stack) unused(node string, devices []sysfs.BlockDevice) error {
	by, err := s.users(node, devices)
	if err == nil && len(by) == 0 {
		return nil
	}
	var others []string
	if err == nil {
		s.pods = true
		s.mounts = slices.DeleteFunc(slices.Clone(s.mounts), func(m sysfs.Mount) bool { return strings.Contains(m.Point, "/kubelet/") })
		others, err = s.users(node, devices)
	}
	if err != nil {
		return fmt.Errorf("it cannot be told whether the drive is in use: %w", err)
	}
	return &InUseError{By: by, Pods: len(others) == 0}
}

// Volumes opens everything that a drive stores, each by the first path that can be opened.
func (h *Host) Volumes(ctx context.Context, id inventory.Identity) ([]Volume, error) {
	return h.volumes(ctx, id, func(s stack, devices []sysfs.BlockDevice) ([]Volume, error) { return s.open(devices, 0) })
}

func (h *Host) volumes(ctx context.Context, id inventory.Identity, open func(stack, []sysfs.BlockDevice) ([]Volume, error)) ([]Volume, error) {
	type result struct {
		volumes []Volume
		err     error
	}
	if !isDrive(id) {
		return nil, fmt.Errorf("%s is no drive of this machine", id.UniqueID)
	}
	got, err := attempt(ctx, h, "users of drives", func(context.Context) (r result) {
		s := stack{fsys: h.cfg.FS, holding: true}
		var devices []sysfs.BlockDevice
		if r.err = s.read(); r.err == nil {
			devices, r.err = s.stored(id.Node)
		}
		if r.err == nil {
			r.volumes, r.err = open(s, devices)
		}
		return r
	})
	return got.volumes, cmp.Or(err, got.err)
}

// stored are the block devices of the drive itself, without their partitions and without hidden paths to them. Those of the path with the kernel's
// name come first, and those of other paths to the same after them.
func (s stack) stored(node string) ([]sysfs.BlockDevice, error) {
	dirs, err := s.dirs(node)
	if err != nil {
		return nil, err
	}
	var out []sysfs.BlockDevice
	for _, b := range s.devices {
		below := slices.ContainsFunc(dirs, func(dir string) bool { return b.Path == dir || strings.HasPrefix(b.Path, dir+"/") })
		if !below || b.Partition {
			continue
		}
		v, err := sysfs.ReadBlockVolume(s.fsys, b.Name)
		if err != nil {
			return nil, err
		}
		if !v.Hidden {
			out = append(out, b)
		}
	}
	other := func(b sysfs.BlockDevice) int {
		if b.Path == dirs[0] || strings.HasPrefix(b.Path, dirs[0]+"/") {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(out, func(a, b sysfs.BlockDevice) int { return other(a) - other(b) })
	if len(out) == 0 {
		return nil, fmt.Errorf("the kernel has no block device of %s, so what it stores cannot be read", node)
	}
	return out, nil
}

// users says, for people, what uses the block devices of a drive, directly or through others.
func (s stack) users(node string, devices []sysfs.BlockDevice) ([]string, error) {
	if err := s.pathsRead(devices); err != nil {
		return nil, err
	}
	use, err := s.use(node)
	if err != nil {
		return nil, err
	}
	by := use.By
	if use.Carries != "" {
		by = append(by, use.Carries+" is on it")
	}
	of := sysfs.Devices{Paths: []string{"/dev/" + node}} // what gives the controller away gives all of it
	for _, b := range s.madeFrom(devices) {
		of.Paths, of.Blocks = append(of.Paths, "/dev/"+b.Name), append(of.Blocks, b.Number)
		if b.MapperName != "" {
			of.Paths = append(of.Paths, "/dev/mapper/"+b.MapperName)
		}
		if !b.Partition && !slices.ContainsFunc(devices, func(d sysfs.BlockDevice) bool { return d.Name == b.Name }) {
			by = append(by, fmt.Sprintf("%s is made of it", strings.TrimSpace(b.Name+" "+b.MapperName)))
		}
		char, err := sysfs.GenericNumber(s.fsys, b.Name)
		if err != nil {
			return nil, err
		}
		if char != "" {
			of.Chars = append(of.Chars, char)
		}
	}
	loops, err := sysfs.Loops(s.fsys)
	if err != nil {
		return nil, err
	}
	for _, loop := range slices.Sorted(maps.Keys(loops)) {
		is, err := s.isBehind(loop, loops[loop], of)
		if err != nil {
			return nil, err
		}
		if is {
			by = append(by, fmt.Sprintf("%s is made of %s", loop, loops[loop]))
		}
	}
	exports, err := sysfs.Exports(s.fsys)
	if err != nil {
		return nil, err
	}
	for _, e := range exports {
		is, err := s.leadsTo(e.Path, of)
		if err != nil {
			return nil, err
		}
		if is {
			by = append(by, e.Path+" is given to other machines over "+e.Over)
		}
	}
	openers, err := sysfs.Openers(s.fsys, fmt.Sprint(os.Getpid()), of)
	if err != nil {
		return nil, err
	}
	for _, program := range openers {
		if !program.Pod || !s.pods {
			by = append(by, program.Name+" has it open")
		}
	}
	slices.Sort(by)
	return slices.Compact(by), nil
}

// pathsRead fails where something could not be read of a SCSI disk that may be another path to the drive: what is in use by that would not be seen.
func (s stack) pathsRead(devices []sysfs.BlockDevice) error {
	for _, b := range devices {
		own := s.pathOf(b)
		if own == nil {
			continue
		}
		for _, p := range s.paths {
			if p.Err != nil && mayLeadTogether(p, *own) {
				return fmt.Errorf("the SCSI disk %s cannot be read and may be another path to it: %w", p.Address, p.Err)
			}
		}
	}
	return nil
}

// pathOf is the path to a SCSI disk that a block device is of; nil for that of another drive.
func (s stack) pathOf(b sysfs.BlockDevice) *sysfs.SCSIDisk {
	at := slices.IndexFunc(s.paths, func(p sysfs.SCSIDisk) bool { return strings.HasPrefix(b.Path, p.Device.Path+"/") })
	if at < 0 {
		return nil
	}
	return &s.paths[at]
}

// identity is what all paths to a volume have in common, and what it keeps over a reboot as far as it says who it is.
func (s stack) identity(b sysfs.BlockDevice, says sysfs.BlockVolume) string {
	own := s.pathOf(b)
	if says.ID != "" || own == nil || own.Serial == "" {
		return cmp.Or(says.ID, b.Name)
	}
	for _, p := range s.paths {
		if p.WWID != "" && leadTogether(p, *own) {
			return p.WWID
		}
	}
	return scsiID(*own)
}

// leadsTo reports whether a path of the host is one of the devices. It is an error where nothing can be seen there.
func (s stack) leadsTo(file string, of sysfs.Devices) (bool, error) {
	if slices.Contains(of.Paths, file) {
		return true, nil
	}
	number, err := sysfs.DeviceNumber(s.fsys, file)
	return number != "" && slices.Contains(of.Blocks, number), err
}

// isBehind reports whether a loop device is made of one of the devices. The kernel knows it by its number, whatever the file was called by
// whoever set the loop device up.
func (s stack) isBehind(loop, file string, of sysfs.Devices) (bool, error) {
	if slices.Contains(of.Paths, file) {
		return true, nil
	}
	tree, ok := s.fsys.(sysfs.Tree)
	if !ok {
		return false, nil
	}
	if running, err := tree.Mounted(); err != nil || !running {
		return false, err
	}
	device, err := os.Open(filepath.Join(tree.Dir(), "dev", loop))
	if err != nil {
		return false, err
	}
	defer device.Close()
	info, err := unix.IoctlLoopGetStatus64(int(device.Fd())) //nolint:gosec // a descriptor
	if errors.Is(err, unix.ENXIO) {
		return false, nil // it was taken down
	}
	if err != nil {
		return false, fmt.Errorf("read what %s is made of: %w", loop, err)
	}
	return slices.Contains(of.Blocks, fmt.Sprint(unix.Major(info.Rdevice))+":"+fmt.Sprint(unix.Minor(info.Rdevice))), nil
}

// madeFrom are the block devices, their partitions, and all that is made of these.
func (s stack) madeFrom(devices []sysfs.BlockDevice) []sysfs.BlockDevice {
	made := slices.Clone(devices)
	has := func(name string) bool {
		return slices.ContainsFunc(made, func(b sysfs.BlockDevice) bool { return b.Name == name })
	}
	for i := 0; i < len(made); i++ {
		for _, above := range s.devices {
			on := slices.Contains(above.Slaves, made[i].Name) || above.Partition && path.Dir(above.Path) == made[i].Path
			if on && !has(above.Name) {
				made = append(made, above)
			}
		}
	}
	return made
}

// open opens block devices with a flag: O_EXCL claims them from the kernel, which refuses that to one who is not alone with it. With it all paths to a
// volume are opened, and without it one.
func (s stack) open(devices []sysfs.BlockDevice, flag int) (volumes []Volume, err error) {
	tree, ok := s.fsys.(sysfs.Tree)
	if !ok {
		return nil, errors.New("the block devices of this machine cannot be opened")
	}
	running, err := tree.Mounted()
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			for _, v := range volumes {
				err = errors.Join(err, v.Close())
			}
			volumes = nil
		}
	}()
	shut := map[string]error{}
	for _, b := range devices {
		says, err := sysfs.ReadBlockVolume(s.fsys, b.Name)
		if err != nil {
			return volumes, err
		}
		id := s.identity(b, says)
		at := slices.IndexFunc(volumes, func(v Volume) bool { return v.ID == id })
		if at >= 0 && flag&os.O_EXCL == 0 {
			continue
		}
		v, err := openOne(filepath.Join(tree.Dir(), "dev", b.Name), b, says, running, flag)
		v.ID = id
		switch {
		case err != nil && flag&os.O_EXCL != 0:
			return volumes, err
		case err != nil:
			shut[id] = errors.Join(shut[id], err)
		case at >= 0:
			volumes[at].Closer = both{volumes[at].Closer, v.Closer}
		default:
			volumes = append(volumes, v)
		}
	}
	for _, v := range volumes {
		delete(shut, v.ID)
	}
	return volumes, errors.Join(slices.Collect(maps.Values(shut))...)
}

// both closes two paths to a volume.
type both [2]io.Closer

// Close implements io.Closer.
func (b both) Close() error { return errors.Join(b[0].Close(), b[1].Close()) }

// openOne opens a block device. On a machine that does not run, files stand for the devices.
func openOne(file string, b sysfs.BlockDevice, says sysfs.BlockVolume, running bool, flag int) (v Volume, err error) {
	f, err := os.OpenFile(file, os.O_RDONLY|unix.O_NOFOLLOW|flag, 0)
	switch {
	case errors.Is(err, syscall.EBUSY):
		return v, &InUseError{By: []string{"the kernel or a program has " + b.Name + " for itself alone"}}
	case err != nil:
		return v, err
	}
	v = Volume{Name: b.Name, Size: says.Size, ReaderAt: direct{f}, Closer: f}
	if !running {
		return v, nil
	}
	if err = isDevice(f, b.Number); err == nil && says.Size == 0 {
		v.Size, err = measure(f)
	}
	if err != nil {
		return Volume{}, errors.Join(err, f.Close())
	}
	return v, nil
}

// isDevice makes reads of a block device pass the cache, and returns an error when it is another one than that with the number.
func isDevice(file *os.File, number string) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || info.Mode()&(os.ModeDevice|os.ModeCharDevice) != os.ModeDevice ||
		fmt.Sprintf("%d:%d", unix.Major(stat.Rdev), unix.Minor(stat.Rdev)) != number {
		return fmt.Errorf("%s is not the block device %s", file.Name(), number)
	}
	flags, err := unix.FcntlInt(file.Fd(), unix.F_GETFL, 0)
	if err == nil {
		_, err = unix.FcntlInt(file.Fd(), unix.F_SETFL, flags|unix.O_DIRECT)
	}
	if err != nil {
		return fmt.Errorf("read %s past the cache: %w", file.Name(), err)
	}
	return nil
}

// measure has the kernel look again how large a device is. It finds no size where a SAS drive erased itself during the boot, and does not look again
// by itself: BLKRRPART makes it revalidate the disk, as blockdev --rereadpt does.
func measure(file *os.File) (int64, error) {
	if err := unix.IoctlSetInt(int(file.Fd()), unix.BLKRRPART, 0); err != nil {
		return 0, fmt.Errorf("%s has no size, and the kernel does not look again: %w", file.Name(), err)
	}
	return file.Seek(0, io.SeekEnd)
}

// directUnit is what the buffers of direct reads are aligned to in bytes.
const directUnit = 4096

// direct reads into memory that is aligned for O_DIRECT. Offsets and lengths are the caller's.
type direct struct{ file *os.File }

// ReadAt implements io.ReaderAt.
func (d direct) ReadAt(b []byte, off int64) (int, error) {
	room := make([]byte, len(b)+directUnit)
	skip := directUnit - int(uintptr(unsafe.Pointer(&room[0]))%directUnit)
	aligned := room[skip:][:len(b)]
	n, err := d.file.ReadAt(aligned, off)
	copy(b, aligned[:n])
	return n, err
}
