package realnode

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/vm"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/vm/guest"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/vm/qemu"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/vm/rootfs"
)

// Machine is what the virtual machine boots from. It is the same for all runs with the same content.
type Machine struct {
	// Root is the disk, which is never written: each run has a layer of its own on it. Kernel and Initrd are taken from it.
	Root, Kernel, Initrd string
}

// rootSize is the size of the root disk in bytes. The file has holes.
const rootSize = 8 << 30

// parts are what a machine is made of.
type parts struct {
	tree     string
	programs Programs
	// guest is the program of the lab's agent and of its tool.
	guest string
	// images are archives as "docker save" writes them.
	images []string
	// devices are the emulated ones.
	devices vm.Devices
}

// digest names a machine by its content.
func (p parts) digest() (string, error) {
	facts := []any{p.tree, fmt.Sprint(machineFiles, enabled, masked, directories), rootSize, p.devices.Release, p.devices.Needed, p.devices.Config}
	files := slices.Concat([]string{p.guest}, p.images, p.devices.Files)
	for _, n := range nodePrograms {
		files = append(files, p.programs[n.Name])
	}
	for _, f := range files {
		sum, err := fileDigest(f)
		if err != nil {
			return "", err
		}
		facts = append(facts, sum)
	}
	return digestOf(facts...)
}

// prepareMachine returns the machine that the parts make. It is built when it is not in the cache; machines of other contents are
// removed, because each takes gigabytes.
func prepareMachine(ctx context.Context, cache string, p parts, apt rootfs.Apt, say func(string, ...any)) (Machine, error) {
	name, err := p.digest()
	if err != nil {
		return Machine{}, err
	}
	dir := filepath.Join(cache, "machine-"+name)
	m := Machine{filepath.Join(dir, "root.img"), filepath.Join(dir, "vmlinuz"), filepath.Join(dir, "initrd.img")}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return m, err
	}
	say("Making the machine's disk once, with %d images …", len(p.images))
	work, err := os.MkdirTemp(cache, "making-")
	if err != nil {
		return Machine{}, fmt.Errorf("make machine: %w", err)
	}
	defer os.RemoveAll(work)
	if err := p.build(ctx, work, apt); err != nil {
		return Machine{}, err
	}
	if err := removeOthers(cache, "machine-*", dir); err != nil {
		return Machine{}, err
	}
	if err := os.Rename(filepath.Join(work, "out"), dir); err != nil {
		return Machine{}, fmt.Errorf("make machine: %w", err)
	}
	return m, nil
}

// removeOthers removes what the pattern names in the cache but what is to stay.
func removeOthers(cache, pattern, stays string) error {
	found, err := filepath.Glob(filepath.Join(cache, pattern))
	if err != nil {
		return err
	}
	for _, path := range found {
		if path == stays {
			continue
		}
		if err := os.RemoveAll(path); err != nil {
			return fmt.Errorf("remove what an earlier run kept: %w", err)
		}
	}
	return nil
}

func (p parts) build(ctx context.Context, work string, apt rootfs.Apt) error {
	root, out := filepath.Join(work, "root"), filepath.Join(work, "out")
	if err := errors.Join(os.Mkdir(root, 0o755), os.Mkdir(out, 0o755)); err != nil {
		return fmt.Errorf("make machine: %w", err)
	}
	if err := apt.Run(ctx, "tar", "-xf", p.tree, "-C", root, "--exclude=./dev/*", "--numeric-owner"); err != nil {
		return fmt.Errorf("make machine: %w", err)
	}
	if err := p.populate(root); err != nil {
		return err
	}
	if err := importImages(ctx, p.programs, filepath.Join(root, "var/lib/containerd"), filepath.Join(work, "import.log"), p.images); err != nil {
		return err
	}
	for _, name := range []string{"vmlinuz", "initrd.img"} { // of the kernel that the modules were built for
		if err := copyProgram(filepath.Join(out, name), filepath.Join(root, "boot", name+"-"+p.devices.Release)); err != nil {
			return err
		}
	}
	disk := filepath.Join(out, "root.img")
	if err := qemu.MakeDisk(disk, rootSize); err != nil {
		return err
	}
	if err := apt.Run(ctx, rootfs.Tool("mke2fs"), "-q", "-F", "-t", "ext4", "-O", "^metadata_csum", "-d", root, disk); err != nil {
		return fmt.Errorf("make machine's disk: %w", err)
	}
	return nil
}

// populate adds what is not from packages.
func (p parts) populate(root string) error {
	for _, d := range directories {
		if err := os.MkdirAll(filepath.Join(root, d), 0o755); err != nil {
			return fmt.Errorf("make machine: %w", err)
		}
	}
	_ = os.Remove(filepath.Join(root, "etc/resolv.conf")) // a copy of this machine's
	if err := writeFiles(root, machineFiles...); err != nil {
		return err
	}
	for _, n := range nodePrograms {
		if err := copyProgram(filepath.Join(root, "usr/bin", n.Name), p.programs[n.Name]); err != nil {
			return err
		}
	}
	if err := errors.Join(copyProgram(filepath.Join(root, "usr/lib/lab/firmware-lab-guest"), p.guest),
		copyProgram(filepath.Join(root, toolDir, guest.FlashTool), p.guest)); err != nil {
		return err
	}
	if err := writeFiles(root, file{guest.ConfigPath[1:], 0o644, string(p.devices.Config)},
		file{"etc/modules-load.d/lab-devices.conf", 0o644, strings.Join(p.devices.Needed, "\n") + "\n"}); err != nil {
		return err
	}
	for _, f := range p.devices.Files {
		if err := copyProgram(filepath.Join(root, moduleDir, filepath.Base(f)), f); err != nil {
			return err
		}
	}
	units := filepath.Join(root, "etc/systemd/system")
	for name, target := range enabled {
		wants := filepath.Join(units, target+".wants")
		if err := errors.Join(os.MkdirAll(wants, 0o755), link("../"+name, filepath.Join(wants, name))); err != nil {
			return fmt.Errorf("make machine: %w", err)
		}
	}
	wants := filepath.Join(units, "multi-user.target.wants")
	if err := link("/lib/systemd/system/systemd-networkd.service", filepath.Join(wants, "systemd-networkd.service")); err != nil {
		return fmt.Errorf("make machine: %w", err)
	}
	for _, name := range masked {
		if err := link("/dev/null", filepath.Join(units, name)); err != nil {
			return fmt.Errorf("make machine: %w", err)
		}
	}
	return nil
}

// link makes a symbolic link in place of what is there.
func link(target, path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.Symlink(target, path)
}

func copyProgram(to, from string) error {
	raw, err := os.ReadFile(from)
	if err != nil {
		return fmt.Errorf("copy %s: %w", filepath.Base(from), err)
	}
	if err := os.WriteFile(to, raw, 0o755); err != nil {
		return fmt.Errorf("copy %s: %w", filepath.Base(from), err)
	}
	return nil
}

// tail is the end of a text, for error messages.
func tail(text string, size int) string {
	if len(text) > size {
		text = text[len(text)-size:]
	}
	return strings.TrimSpace(text)
}
