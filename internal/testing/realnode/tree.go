package realnode

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/vm/rootfs"
)

// needed are the programs the lab runs on this machine.
var needed = []rootfs.Need{
	{Program: "qemu-system-x86_64", Package: "qemu-system-x86"}, {Program: "qemu-img", Package: "qemu-utils"},
	{Program: "mke2fs", Package: "e2fsprogs"}, {Program: "mmdebstrap", Package: "mmdebstrap"}, {Program: "tar", Package: "tar"},
	{Program: "unshare", Package: "util-linux"},
}

// suite is the release of Debian on the machine.
const suite = "bookworm"

// packages of the machine beside the essential ones. Kubernetes and containerd are built; runc and the network plugins are
// Debian's. Of the initial RAM disk's tools none is used but what finds the root disk.
var packages = []string{
	"systemd-sysv", "dbus", "udev", "kmod", "linux-image-amd64", "iproute2", "runc", "containernetworking-plugins", "iptables",
	"util-linux", "mount", "procps", "e2fsprogs",
}

// skeleton is in the tree before its packages are: the kernel's package makes the RAM disk when it is installed.
var skeleton = []file{
	{"etc/initramfs-tools/conf.d/lab", 0o644, "MODULES=list\nRESUME=none\n"},
	{"etc/initramfs-tools/hooks/lab", 0o755, "#!/bin/sh\n[ \"$1\" = prereqs ] && exit 0\n. /usr/share/initramfs-tools/hook-functions\n" +
		"manual_add_modules virtio_pci virtio_blk ext4 crc32c_generic\n"},
}

// file is a file of the machine.
type file struct {
	path    string
	mode    fs.FileMode
	content string
}

func writeFiles(root string, files ...file) error {
	for _, f := range files {
		path := filepath.Join(root, f.path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("write %s: %w", f.path, err)
		}
		if err := os.WriteFile(path, []byte(f.content), f.mode); err != nil {
			return fmt.Errorf("write %s: %w", f.path, err)
		}
	}
	return nil
}

// prepareTree returns an archive with Debian as it is installed on the machine, from the packages that apt would install now. It
// is made when it is not in the cache.
func prepareTree(ctx context.Context, cache string, apt rootfs.Apt, say func(string, ...any)) (string, error) {
	lists, err := filepath.Glob("/var/lib/apt/lists/*" + suite + "*_Packages*")
	if err != nil {
		return "", err
	}
	facts := []any{suite, packages, fmt.Sprint(skeleton)}
	for _, path := range lists {
		info, err := os.Stat(path)
		if err != nil {
			return "", fmt.Errorf("read lists of packages: %w", err)
		}
		facts = append(facts, filepath.Base(path), info.Size(), info.ModTime())
	}
	name, err := digestOf(facts...)
	if err != nil {
		return "", err
	}
	tree := filepath.Join(cache, "debian-"+name+".tar")
	if _, err := os.Stat(tree); !errors.Is(err, fs.ErrNotExist) {
		return tree, err
	}
	say("Installing Debian for the machine once, with %d packages and what they need, about 2 minutes …", len(packages))
	return tree, makeTree(ctx, cache, tree, apt)
}

func makeTree(ctx context.Context, cache, tree string, apt rootfs.Apt) error {
	work, err := os.MkdirTemp(cache, "making-")
	if err != nil {
		return fmt.Errorf("install Debian: %w", err)
	}
	defer os.RemoveAll(work)
	start := filepath.Join(work, "skeleton")
	if err := writeFiles(start, skeleton...); err != nil {
		return err
	}
	made := filepath.Join(work, "debian.tar")
	args := []string{
		"--mode=root", "--variant=minbase", "--format=tar", "--aptopt=APT::Install-Recommends false", "--dpkgopt=force-unsafe-io",
		"--setup-hook=sync-in " + start + " /", "--include=" + strings.Join(packages, ","), suite, made,
	}
	sources, err := aptSources()
	if err != nil {
		return err
	}
	if err := apt.Run(ctx, "mmdebstrap", append(args, sources...)...); err != nil {
		return fmt.Errorf("install Debian: %w", err)
	}
	if err := os.Rename(made, tree); err != nil {
		return fmt.Errorf("install Debian: %w", err)
	}
	return removeOthers(cache, "debian-*.tar", tree)
}

// aptSources are the files in which this machine names Debian's archive, so that its mirror is used.
func aptSources() ([]string, error) {
	for _, path := range []string{"/etc/apt/sources.list.d/debian.sources", "/etc/apt/sources.list"} {
		info, err := os.Stat(path)
		if err == nil && info.Size() > 0 {
			return []string{path}, nil
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("find Debian's archive: %w", err)
		}
	}
	return nil, errors.New("find Debian's archive: neither /etc/apt/sources.list.d/debian.sources nor /etc/apt/sources.list names one")
}

// digestOf is a short name for the values.
func digestOf(values ...any) (string, error) {
	raw, err := json.Marshal(values)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:8]), nil
}
