package vm

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/vm/rootfs"
)

// base is the part of the machine that is built once for each version of Debian's packages: kernel, modules and tools.
type base struct {
	dir string
	// Release of the kernel, and its version as a package.
	Release, Version string
	// Modules in the order to load them in, by their paths in the machine.
	Modules []string
}

func (b base) kernel() string  { return filepath.Join(b.dir, "vmlinuz") }
func (b base) archive() string { return filepath.Join(b.dir, "base.cpio") }

// file is one that is kept beside them: a module that was built for the lab, the module efivarfs, or an image of fwupd's test device.
func (b base) file(name string) string { return filepath.Join(b.dir, name) }

// initrd writes what a machine boots from: the base, and what is added to it.
func (b base) initrd(path string, add func(*rootfs.Archive)) error {
	raw, err := os.ReadFile(b.archive())
	if err != nil {
		return fmt.Errorf("make initramfs: %w", err)
	}
	to, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("make initramfs: %w", err)
	}
	defer to.Close()
	if _, err := to.Write(raw); err != nil {
		return fmt.Errorf("make initramfs: %w", err)
	}
	a := rootfs.NewArchive(to)
	add(a)
	return a.Close()
}

// bootModules are loaded at every boot, with what they need.
var bootModules = []string{
	"virtio_pci", "virtio_blk", "virtio_net", "crc32c_generic", "ext4", "nvme", "nvme_tcp", "sd_mod", "sg",
	"tpm_tis", "dm_crypt", "xts", "ecb", "aes_generic", "algif_skcipher", "algif_hash",
}

// Programs of the machine by the path in their package. The libraries they need come with them.
var programs = []string{
	"usr/bin/sg_inq", "usr/bin/sg_logs", "usr/bin/sg_luns", "usr/bin/sg_opcodes", "usr/bin/sg_persist", "usr/bin/sg_read_buffer", "usr/bin/sg_requests",
	"usr/bin/sg_sanitize", "usr/bin/sg_write_buffer", "usr/bin/nsenter",
	"usr/bin/fwupdtool", "usr/bin/fwupdmgr", "usr/libexec/fwupd/fwupd", "usr/bin/dbus-daemon",
	"sbin/cryptsetup", "usr/bin/systemd-cryptenroll", "sbin/mke2fs", "bin/mount", "bin/umount",
	// What these load by name.
	"usr/lib/x86_64-linux-gnu/cryptsetup/libcryptsetup-token-systemd-tpm2.so", "usr/lib/x86_64-linux-gnu/libtss2-esys.so.0",
	"usr/lib/x86_64-linux-gnu/libtss2-mu.so.0", "usr/lib/x86_64-linux-gnu/libtss2-rc.so.0", "usr/lib/x86_64-linux-gnu/libtss2-tcti-device.so.0",
}

// ownLibraries are where packages keep libraries for their own programs alone.
var ownLibraries = []string{"usr/lib/x86_64-linux-gnu/fwupd-*/*.so", "usr/lib/x86_64-linux-gnu/systemd/libsystemd-shared-*.so"}

// cabs are the images of fwupd's test device in the package fwupd-tests, by the version they are of.
var cabs = map[string]string{"1.2.3": "fakedevice123.cab", "1.2.4": "fakedevice124.cab"}

// trees are directories of the packages that are taken as they are.
var trees = []string{"usr/share/fwupd/quirks.d", "usr/share/polkit-1/actions"}

// packagesOf are the packages of the programs; their libraries' are found.
var packagesOf = []string{"sg3-utils", "util-linux", "fwupd", "fwupd-tests", "dbus-daemon", "systemd", "cryptsetup-bin", "e2fsprogs", "mount",
	"libtss2-esys-3.0.2-0", "libtss2-mu0", "libtss2-rc0", "libtss2-tcti-device0"}

// prepareBase returns the base for the versions apt would install now. It is built if it is not in the cache.
func prepareBase(ctx context.Context, cache string, apt rootfs.Apt, say func(string, ...any)) (base, error) {
	var b base
	stamp, err := stampPath(cache)
	if err != nil {
		return b, err
	}
	if b, ok := cachedBase(stamp); ok {
		return b, nil
	}
	// Old lists name packages that the archive no longer has.
	if os.Geteuid() == 0 {
		if err := apt.Update(ctx); err != nil {
			return b, err
		}
		if stamp, err = stampPath(cache); err != nil {
			return b, err
		}
	}
	kernel, err := kernelPackages(ctx, apt)
	if err != nil {
		return b, err
	}
	content, err := apt.WithLibraries(ctx, packagesOf...)
	if err != nil {
		return b, err
	}
	b.Version = kernel[0].Version
	b.Release = strings.TrimPrefix(kernel[0].Name, "linux-image-")
	name, err := json.Marshal([]any{kernel, content, recipe})
	if err != nil {
		return b, err
	}
	sum := sha256.Sum256(name)
	b.dir = filepath.Join(cache, hex.EncodeToString(sum[:8]))
	if _, err := os.Stat(b.dir); err != nil {
		if err := b.make(ctx, cache, apt, kernel, content, say); err != nil {
			return b, err
		}
	}
	if err := os.WriteFile(stamp, []byte(b.dir), 0o644); err != nil {
		return b, fmt.Errorf("make base: %w", err)
	}
	b, ok := cachedBase(stamp)
	if !ok {
		return b, fmt.Errorf("make base: %s is not complete: remove it", b.dir)
	}
	return b, nil
}

// recipe is everything but the versions of the packages that decides what a base is.
var recipe = []any{bootModules, programs, ownLibraries, trees, cabs, packagesOf, netdevsim, scsiDebug, efivarfs}

// stampPath is the file that names the base for the current package lists: querying apt takes longer than everything
// else in a second run.
func stampPath(cache string) (string, error) {
	lists, err := filepath.Glob("/var/lib/apt/lists/*Packages*")
	if err != nil {
		return "", err
	}
	facts := append([]any{}, recipe...)
	for _, path := range lists {
		info, err := os.Stat(path)
		if err != nil {
			return "", fmt.Errorf("read lists of packages: %w", err)
		}
		facts = append(facts, path, info.Size(), info.ModTime())
	}
	raw, err := json.Marshal(facts)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(raw)
	return filepath.Join(cache, "lists-"+hex.EncodeToString(sum[:8])), nil
}

// cachedBase is the base a stamp names.
func cachedBase(stamp string) (base, bool) {
	var b base
	dir, err := os.ReadFile(stamp)
	if err != nil {
		return b, false
	}
	b.dir = string(dir)
	raw, err := os.ReadFile(filepath.Join(b.dir, "base.json"))
	return b, err == nil && json.Unmarshal(raw, &b) == nil
}

// make builds the base in a temporary directory, which is renamed when it is complete.
func (b *base) make(ctx context.Context, cache string, apt rootfs.Apt, kernel, content []rootfs.Package, say func(string, ...any)) error {
	say("Making the machine's kernel and tools once, from %d packages of Debian (about 300 MB) …", len(kernel)+len(content))
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return fmt.Errorf("make base: %w", err)
	}
	work, err := os.MkdirTemp(cache, "making-")
	if err != nil {
		return fmt.Errorf("make base: %w", err)
	}
	defer os.RemoveAll(work)
	return b.build(ctx, apt, work, kernel, content)
}

// kernelPackages are the image, its source and its headers, all of one version, and the tools that they take, of this or a newer one; the image is the
// first.
func kernelPackages(ctx context.Context, apt rootfs.Apt) ([]rootfs.Package, error) {
	meta, err := apt.Show(ctx, "linux-image-amd64")
	if err != nil {
		return nil, err
	}
	image := ""
	for _, d := range meta[0].Depends {
		if strings.HasPrefix(d, "linux-image-") {
			image = d
		}
	}
	release := strings.TrimPrefix(image, "linux-image-")
	series := strings.Join(strings.SplitN(release, ".", 3)[:2], ".")
	names := []string{
		image, "linux-source-" + series, "linux-headers-" + release,
		"linux-headers-" + strings.TrimSuffix(release, "-amd64") + "-common",
	}
	for i := range names { // the source of the next version comes hours before its signed image
		names[i] += "=" + meta[0].Version
	}
	return apt.Show(ctx, append(names, "linux-kbuild-"+series)...)
}

// build builds the base in the directory work.
func (b *base) build(ctx context.Context, apt rootfs.Apt, work string, kernel, content []rootfs.Package) error {
	kernelDir, kernelRoot := filepath.Join(work, "kernel"), filepath.Join(work, "kernel-root")
	toolsDir, toolsRoot := filepath.Join(work, "tools"), filepath.Join(work, "tools-root")
	if err := errors.Join(apt.Fetch(ctx, kernelDir, kernel...), apt.Fetch(ctx, toolsDir, content...)); err != nil {
		return err
	}
	if err := errors.Join(apt.Unpack(ctx, kernelDir, kernelRoot), apt.Unpack(ctx, toolsDir, toolsRoot)); err != nil {
		return err
	}
	built, err := apt.Build(ctx, kernelRoot, b.Release, filepath.Join(work, "modules"), netdevsim, scsiDebug)
	if err != nil {
		return err
	}
	out := filepath.Join(work, "base")
	if err := os.Mkdir(out, 0o755); err != nil {
		return fmt.Errorf("make base: %w", err)
	}
	made := *b
	made.dir = out
	if err := made.write(ctx, kernelRoot, toolsRoot, built); err != nil {
		return err
	}
	b.Modules = made.Modules
	if err := os.Rename(out, b.dir); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("make base: %w", err)
	}
	return nil
}
