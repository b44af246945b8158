package labvm

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/internal/labvm/rootfs"
)

// base is the part of the machine that is made once for each version of Debian's packages: kernel, modules and tools.
type base struct {
	dir string
	// Release of the kernel, and its version as a package.
	Release, Version string
	// Modules in the order to load them in, by their paths in the machine.
	Modules []string
}

func (b base) kernel() string  { return filepath.Join(b.dir, "vmlinuz") }
func (b base) archive() string { return filepath.Join(b.dir, "base.cpio") }

// cab is an image of fwupd's test device, whose version is 1.2.4.
func (b base) cab() string { return filepath.Join(b.dir, "fakedevice124.cab") }

// bootModules are loaded at every boot, with what they need.
var bootModules = []string{
	"virtio_pci", "virtio_blk", "virtio_net", "crc32c_generic", "ext4", "nvme", "nvme_tcp", "sd_mod", "sg",
}

// Programs of the machine by the path in their package. The libraries they need come with them.
var programs = []string{
	"usr/bin/sg_inq", "usr/bin/sg_opcodes", "usr/bin/sg_write_buffer", "usr/bin/nsenter",
	"usr/bin/fwupdtool", "usr/bin/fwupdmgr", "usr/libexec/fwupd/fwupd", "usr/bin/dbus-daemon",
}

// trees are directories of the packages that are taken as they are.
var trees = []string{"usr/share/fwupd/quirks.d"}

// packagesOf are the packages of the programs; their libraries' are found.
var packagesOf = []string{"sg3-utils", "util-linux", "fwupd", "fwupd-tests", "dbus-daemon"}

// prepareBase returns the base for the versions apt would install now. It is made when the cache has none.
func prepareBase(ctx context.Context, cache string, apt rootfs.Apt, say func(string, ...any)) (base, error) {
	var b base
	stamp, err := stampPath(cache)
	if err != nil {
		return b, err
	}
	if b, ok := cachedBase(stamp); ok {
		return b, nil
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
var recipe = []any{bootModules, programs, trees, packagesOf, netdevsim, scsiDebug}

// stampPath names the file that says which base belongs to the lists of packages as they are: asking apt takes longer than
// everything else of a second run.
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

// make makes the base in a directory of its own and gives it its name when it is complete.
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

// kernelPackages are the image, its source and its headers, all of one version; the image is the first.
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
		"linux-headers-" + strings.TrimSuffix(release, "-amd64") + "-common", "linux-kbuild-" + series,
	}
	list, err := apt.Show(ctx, names...)
	if err != nil {
		return nil, err
	}
	for _, p := range list {
		if p.Version != meta[0].Version {
			return nil, fmt.Errorf("prepare kernel: %s has version %s and %s %s: run apt-get update", p.Name, p.Version, image, meta[0].Version)
		}
	}
	return list, nil
}

// build makes the base in a directory that takes its name when it is complete.
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
	if err := made.write(kernelRoot, toolsRoot, built); err != nil {
		return err
	}
	b.Modules = made.Modules
	if err := os.Rename(out, b.dir); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("make base: %w", err)
	}
	return nil
}

func (b *base) write(kernelRoot, toolsRoot string, built []string) error {
	file, err := os.Create(b.archive())
	if err != nil {
		return fmt.Errorf("make base: %w", err)
	}
	defer file.Close()
	archive := rootfs.NewArchive(file)
	for _, dir := range []string{"proc", "sys", "dev", "run", "tmp", "root", "etc", "var/lib", "lib/modules"} {
		archive.Dir(dir)
	}
	if err := b.addModules(archive, kernelRoot, built); err != nil {
		return err
	}
	if err := addTools(archive, toolsRoot); err != nil {
		return err
	}
	if err := archive.Close(); err != nil {
		return err
	}
	raw, err := json.Marshal(b)
	if err != nil {
		return err
	}
	return errors.Join(
		copyFile(b.kernel(), filepath.Join(kernelRoot, "boot", "vmlinuz-"+b.Release)),
		copyFile(b.cab(), filepath.Join(toolsRoot, "usr/share/installed-tests/fwupd/fakedevice124.cab")),
		os.WriteFile(filepath.Join(b.dir, "base.json"), raw, 0o644),
	)
}

// addModules adds the modules with those they need.
func (b *base) addModules(archive *rootfs.Archive, kernelRoot string, built []string) error {
	modules, err := rootfs.OpenModules(filepath.Join(kernelRoot, "lib/modules", b.Release))
	if err != nil {
		return err
	}
	for _, file := range built {
		modules.Add(file)
	}
	names := append([]string{}, bootModules...)
	for _, file := range built {
		names = append(names, strings.TrimSuffix(filepath.Base(file), ".ko"))
	}
	order, err := modules.Order(names...)
	if err != nil {
		return err
	}
	for _, file := range order {
		at := path.Join("/lib/modules", filepath.Base(file))
		archive.Copy(at, file)
		b.Modules = append(b.Modules, at)
	}
	return nil
}

// addTools adds the programs, the libraries they need and what they read.
func addTools(archive *rootfs.Archive, root string) error {
	all := append([]string{}, programs...)
	private, err := filepath.Glob(filepath.Join(root, "usr/lib/x86_64-linux-gnu/fwupd-*/*.so"))
	if err != nil {
		return err
	}
	for _, p := range private {
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		all = append(all, rel)
	}
	libraries, missing, err := rootfs.Libraries(root, all)
	if err != nil {
		return err
	}
	if len(missing) > 0 {
		return fmt.Errorf("collect tools: no package has the libraries %s", strings.Join(missing, ", "))
	}
	for _, p := range append(all, libraries...) {
		file, err := rootfs.Resolve(root, p)
		if err != nil {
			return err
		}
		archive.Copy(placeOf(p), file)
	}
	for _, t := range trees {
		archive.Tree(t, filepath.Join(root, t))
	}
	return nil
}

// placeOf is where a file of a package is in the machine: libraries are all in one place.
func placeOf(p string) string {
	switch {
	case strings.HasPrefix(filepath.Base(p), "ld-linux"):
		return path.Join("lib64", path.Base(p))
	case strings.HasPrefix(p, "lib/"):
		return path.Join("usr", p)
	}
	return p
}

func copyFile(to, from string) error {
	raw, err := os.ReadFile(from)
	if err != nil {
		return fmt.Errorf("copy file: %w", err)
	}
	return os.WriteFile(to, raw, 0o644)
}
