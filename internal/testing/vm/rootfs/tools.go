package rootfs

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
)

// Need is a program that a lab runs on this machine, by its name or path, and Debian's package of it.
type Need struct{ Program, Package string }

// Require installs the missing programs as root; otherwise its error contains the command.
func (a Apt) Require(ctx context.Context, say func(string, ...any), needed ...Need) error {
	for _, program := range []string{"apt-get", "dpkg-deb"} {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("prepare lab: it is made of Debian's packages and needs %s: run it on Debian 12", program)
		}
	}
	var missing []string
	for _, n := range needed {
		if !has(n.Program) {
			missing = append(missing, n.Package)
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
	if err := a.Update(ctx); err != nil || len(missing) == 0 {
		return err
	}
	return a.Install(ctx, slices.Compact(missing)...)
}

// has also looks in the administrator's directories, which may not be in PATH.
func has(program string) bool {
	if filepath.IsAbs(program) {
		_, err := os.Stat(program)
		return !errors.Is(err, fs.ErrNotExist)
	}
	return Tool(program) != ""
}

// Tool is the path of a program, or empty.
func Tool(name string) string {
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
