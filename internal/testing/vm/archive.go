package vm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/vm/rootfs"
)

// write writes what a base consists of, from packages that were unpacked and modules that were built.
func (b *base) write(ctx context.Context, kernelRoot, toolsRoot string, built []string) error {
	file, err := os.Create(b.archive())
	if err != nil {
		return fmt.Errorf("make base: %w", err)
	}
	defer file.Close()
	archive := rootfs.NewArchive(file)
	for _, dir := range []string{"proc", "sys", "dev", "run", "tmp", "root", "etc", "media", "var/lib", "lib/modules"} {
		archive.Dir(dir)
	}
	if err := b.addModules(archive, kernelRoot, built); err != nil {
		return err
	}
	if err := addTools(ctx, archive, toolsRoot); err != nil {
		return err
	}
	if err := archive.Close(); err != nil {
		return err
	}
	raw, err := json.Marshal(b)
	if err != nil {
		return err
	}
	keep := append([]string{filepath.Join(kernelRoot, "lib/modules", b.Release, "kernel/fs/efivarfs", efivarfs)}, built...)
	for _, name := range cabs {
		keep = append(keep, filepath.Join(toolsRoot, "usr/share/installed-tests/fwupd", name))
	}
	for _, file := range keep {
		if err := copyFile(b.file(filepath.Base(file)), file); err != nil {
			return err
		}
	}
	return errors.Join(
		copyFile(b.kernel(), filepath.Join(kernelRoot, "boot", "vmlinuz-"+b.Release)),
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
func addTools(ctx context.Context, archive *rootfs.Archive, root string) error {
	all := append([]string{}, programs...)
	for _, pattern := range ownLibraries {
		private, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(private) == 0 {
			return errors.Join(fmt.Errorf("make base: no package has %s", pattern), err)
		}
		for _, p := range private {
			rel, err := filepath.Rel(root, p)
			if err != nil {
				return err
			}
			all = append(all, rel)
		}
	}
	libraries, err := rootfs.Libraries(ctx, root, all)
	if err != nil {
		return err
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
