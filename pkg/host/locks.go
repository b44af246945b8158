package host

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/pkg/luks"
	"github.com/nodefirmware/node-firmware-operator/pkg/sysfs"
)

// Locks reads what opens the encrypted disks that a boot of this node may wait for, by the kernel's name of the device that holds the header. The
// second result is false where the host has no TPM: nothing is sealed to one then.
func (h *Host) Locks(ctx context.Context) (map[string]luks.Header, bool, error) {
	type read struct {
		headers map[string]luks.Header
		err     error
	}
	s, err := h.readStack(ctx)
	var got read
	if err == nil {
		got, err = attempt(ctx, h, "headers of encrypted disks", func(context.Context) read {
			headers, err := s.locks()
			return read{headers, err}
		})
	}
	chips, unknown := fs.ReadDir(h.cfg.FS, "sys/class/tpm")
	tpm := unknown != nil || len(chips) > 0
	if err = cmp.Or(err, got.err); err != nil {
		return nil, tpm, fmt.Errorf("read what opens the encrypted disks of the node: %w", err)
	}
	return got.headers, tpm, nil
}

func (s stack) locks() (map[string]luks.Header, error) {
	found := map[string]luks.Header{}
	seen := map[string]bool{}
	for _, b := range s.devices {
		needed, err := s.boots(b)
		if err != nil {
			return nil, err
		}
		if needed {
			if err := s.locksBelow(b, found, seen); err != nil {
				return nil, err
			}
		}
	}
	return found, nil
}

// boots reports whether a boot may wait for the block device: it carries the node, is swap space, or is mounted. What is mounted in /run and
// for pods comes later.
func (s stack) boots(b sysfs.BlockDevice) (bool, error) {
	if slices.ContainsFunc(s.swaps, func(swap string) bool { return is(b, swap) }) {
		return true, nil
	}
	pools := map[string]bool{}
	for _, m := range s.mounts {
		pool, _, _ := strings.Cut(m.Source, "/")
		if strings.HasPrefix(m.Point, "/run/") || strings.Contains(m.Point, "/kubelet/") || m.Type == "zfs" && pools[pool] {
			continue
		}
		pools[pool] = pools[pool] || m.Type == "zfs"
		if backs, err := s.backs(b, m); backs || err != nil {
			return backs, err
		}
	}
	carries, err := s.carries(b)
	return carries != "", err
}

// locksBelow adds the headers of a block device and of what it is made of.
func (s stack) locksBelow(b sysfs.BlockDevice, found map[string]luks.Header, seen map[string]bool) error {
	if seen[b.Name] {
		return nil
	}
	seen[b.Name] = true
	if slices.ContainsFunc(unread, func(kind string) bool { return strings.HasPrefix(b.MapperUUID, kind) }) {
		found[b.Name] = luks.Header{Keys: 1}
	}
	if strings.HasPrefix(b.MapperUUID, "CRYPT-LUKS2-") {
		holder := b
		for holder.Name == b.Name || isPart(holder.MapperUUID) {
			if len(holder.Slaves) != 1 {
				return fmt.Errorf("%s is made of %d devices", holder.Name, len(holder.Slaves))
			}
			at := slices.IndexFunc(s.devices, func(d sysfs.BlockDevice) bool { return d.Name == holder.Slaves[0] })
			if at < 0 {
				return fmt.Errorf("%s is made of %s, which is not listed", holder.Name, holder.Slaves[0])
			}
			holder = s.devices[at]
		}
		header, err := s.header(holder.Name)
		if err != nil {
			return fmt.Errorf("%s: %w", holder.Name, err)
		}
		if id := strings.ReplaceAll(header.UUID, "-", ""); !strings.HasPrefix(b.MapperUUID, "CRYPT-LUKS2-"+id+"-") {
			return fmt.Errorf("%s: its header is not that of %s", holder.Name, b.Name)
		}
		found[holder.Name] = header
	}
	for _, below := range s.below(b) {
		if err := s.locksBelow(below, found, seen); err != nil {
			return err
		}
	}
	return nil
}

// unread begin the ids of encrypted disks of other formats. What opens them is not read: a person, as far as is known.
var unread = []string{"CRYPT-LUKS1-", "CRYPT-TCRYPT-", "CRYPT-BITLK-", "CRYPT-FVAULT2-"}

// isPart reports whether a mapping is one that cryptsetup puts between an encrypted disk and its device, for checksums.
func isPart(mapper string) bool {
	return strings.HasPrefix(mapper, "CRYPT-SUBDEV-") || strings.HasPrefix(mapper, "INTEGRITY-")
}

// header reads the header of a block device. In names of the kernel a "!" stands for a slash.
func (s stack) header(name string) (luks.Header, error) {
	f, err := s.fsys.Open(path.Join("dev", strings.ReplaceAll(name, "!", "/")))
	if err != nil {
		return luks.Header{}, err
	}
	defer f.Close()
	device, ok := f.(io.ReaderAt)
	if !ok {
		return luks.Header{}, fmt.Errorf("read %s: it cannot be read at a place", name)
	}
	return luks.Read(device)
}
