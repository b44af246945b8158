package rootfs

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// linker is Debian's dynamic linker.
const linker = "lib64/ld-linux-x86-64.so.2"

// libraryDirs are where Debian keeps shared libraries.
var libraryDirs = []string{"lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu"}

// found is a line of what the linker lists: a name, and the file that is loaded for it.
var found = regexp.MustCompile(`(?m)^\t(.+) => (.+) \(0x[0-9a-f]+\)$`)

// Libraries are the shared libraries that the programs need, what those need in turn, and the linker, as paths below root, whose own
// linker says so.
func Libraries(ctx context.Context, root string, programs []string) ([]string, error) {
	own, err := Resolve(root, linker)
	if err != nil {
		return nil, fmt.Errorf("find libraries: %w", err)
	}
	dirs, out := []string{}, []string{linker}
	for _, dir := range libraryDirs {
		dirs = append(dirs, filepath.Join(root, dir))
	}
	for _, p := range programs { // a program may have libraries of its own
		if dir := filepath.Join(root, filepath.Dir(p)); strings.HasSuffix(p, ".so") && !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	for _, p := range programs {
		path, err := Resolve(root, p)
		if err != nil {
			return nil, err
		}
		text, err := exec.CommandContext(ctx, own, "--inhibit-cache", "--library-path", strings.Join(dirs, ":"), "--list", path).CombinedOutput()
		if err != nil {
			return nil, fmt.Errorf("find libraries of %s: %w: %s", p, err, text)
		}
		for _, line := range found.FindAllStringSubmatch(string(text), -1) {
			at, below := strings.CutPrefix(line[2], root+"/")
			if !below {
				return nil, fmt.Errorf("find libraries of %s: no package has %s", p, line[1])
			}
			if !slices.Contains(out, at) {
				out = append(out, at)
			}
		}
	}
	slices.Sort(out)
	return out, nil
}

// maxLinks is how many symbolic links a name may lead through.
const maxLinks = 20

// Resolve follows the symbolic links a name ends in, absolute ones from root, and returns the file's path on this machine.
func Resolve(root, name string) (string, error) {
	for range maxLinks {
		at := filepath.Join(root, name)
		info, err := os.Lstat(at)
		if err != nil {
			return "", err
		}
		if info.Mode().IsRegular() {
			return at, nil
		}
		target, err := os.Readlink(at)
		if err != nil {
			return "", err
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(name), target)
		}
		name = target
	}
	return "", fmt.Errorf("resolve %s: too many symbolic links", name)
}
