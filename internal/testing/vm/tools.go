package vm

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/vm/rootfs"
)

// needed are the programs the lab runs on this machine, and Debian's packages of them. Everything else comes from
// packages that it unpacks in its cache.
var needed = []struct{ program, pkg string }{
	{"qemu-system-x86_64", "qemu-system-x86"}, {"mke2fs", "e2fsprogs"}, {"make", "make"}, {"gcc-12", "gcc-12"},
	{"xz", "xz-utils"}, {"tar", "tar"}, {"/usr/lib/x86_64-linux-gnu/libelf.so.1", "libelf1"},
}

// installTools installs the missing programs as root; otherwise its error contains the command.
func installTools(ctx context.Context, apt rootfs.Apt, say func(string, ...any)) error {
	for _, program := range []string{"apt-get", "dpkg-deb"} {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("prepare lab: it is made of Debian's packages and needs %s: run it on Debian 12", program)
		}
	}
	var missing []string
	for _, n := range needed {
		if !has(n.program) {
			missing = append(missing, n.pkg)
		}
	}
	lists, err := filepath.Glob("/var/lib/apt/lists/*Packages*")
	if err != nil {
		return err
	}
	if len(missing) == 0 && len(lists) > 0 {
		return nil
	}
	command := "apt-get update && apt-get install -y --no-install-recommends " + strings.Join(missing, " ")
	if os.Geteuid() != 0 {
		return fmt.Errorf("prepare lab: it needs what is not installed: run, as root: %s", command)
	}
	say("Installing: %s", command)
	if err := apt.Update(ctx); err != nil || len(missing) == 0 {
		return err
	}
	return apt.Install(ctx, slices.Compact(missing)...)
}

// has also looks in the administrator's directories, which may not be in PATH.
func has(program string) bool {
	if filepath.IsAbs(program) {
		_, err := os.Stat(program)
		return !errors.Is(err, fs.ErrNotExist)
	}
	return tool(program) != ""
}

// tool is the path of a program.
func tool(name string) string {
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	for _, dir := range []string{"/usr/sbin", "/sbin"} {
		if path := filepath.Join(dir, name); has(path) {
			return path
		}
	}
	return ""
}
