package rootfs

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Apt runs Debian's package tools. They write only into the given directories.
type Apt struct {
	// Log receives the output of the tools.
	Log *os.File
}

// Package is the version of a package that apt would install, and the packages it needs: of alternatives the first.
type Package struct {
	Name, Version string
	Depends       []string
}

// Spec is the package as apt-get names it.
func (p Package) Spec() string { return p.Name + "=" + p.Version }

// Show looks packages up in the lists of apt, by name, or by name=version where that is not to be the newest one.
func (a Apt) Show(ctx context.Context, names ...string) ([]Package, error) {
	out, err := a.output(ctx, "apt-cache", append([]string{"show", "--no-all-versions"}, names...)...)
	if err != nil {
		return nil, err
	}
	found := parsePackages(out)
	for _, name := range names {
		name, _, _ = strings.Cut(name, "=")
		if !slices.ContainsFunc(found, func(p Package) bool { return p.Name == name }) {
			return nil, fmt.Errorf("apt knows no package %s: run apt-get update", name)
		}
	}
	return found, nil
}

// parsePackages reads control data (deb-control(5)).
func parsePackages(raw []byte) []Package {
	var out []Package
	for stanza := range bytes.SplitSeq(raw, []byte("\n\n")) {
		var p Package
		lines := bufio.NewScanner(bytes.NewReader(stanza))
		lines.Buffer(nil, len(stanza)+1)
		for lines.Scan() {
			field, value, _ := strings.Cut(lines.Text(), ":")
			value = strings.TrimSpace(value)
			switch field {
			case "Package":
				p.Name = value
			case "Version":
				p.Version = value
			case "Depends", "Pre-Depends":
				p.Depends = append(p.Depends, relations(value)...)
			}
		}
		if p.Name != "" && p.Version != "" {
			out = append(out, p)
		}
	}
	return out
}

// relations are the names in a list such as "libc6 (>= 2.34), a | b, perl:any".
func relations(list string) []string {
	var out []string
	for relation := range strings.SplitSeq(list, ",") {
		first, _, _ := strings.Cut(relation, "|")
		name, _, _ := strings.Cut(strings.TrimSpace(first), " ")
		name, _, _ = strings.Cut(name, ":")
		if name != "" {
			out = append(out, name)
		}
	}
	return out
}

// WithLibraries are the packages and the libraries they need, and those these need in turn. Other dependencies are left
// out, because their programs are not used.
func (a Apt) WithLibraries(ctx context.Context, names ...string) ([]Package, error) {
	var all []Package
	known := map[string]bool{}
	for len(names) > 0 {
		level, err := a.Show(ctx, names...)
		if err != nil {
			return nil, err
		}
		names = nil
		for _, p := range level {
			known[p.Name] = true
		}
		for _, p := range level {
			all = append(all, p)
			for _, d := range p.Depends {
				if isLibrary(d) && !known[d] {
					known[d] = true
					names = append(names, d)
				}
			}
		}
	}
	slices.SortFunc(all, func(x, y Package) int { return strings.Compare(x.Name, y.Name) })
	return all, nil
}

func isLibrary(name string) bool {
	return strings.HasPrefix(name, "lib") || strings.HasPrefix(name, "zlib")
}

// Fetch downloads packages into a directory; apt verifies them against the archive's signature.
func (a Apt) Fetch(ctx context.Context, dir string, packages ...Package) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("fetch packages: %w", err)
	}
	args := []string{"download"}
	for _, p := range packages {
		args = append(args, p.Spec())
	}
	return a.run(ctx, dir, "apt-get", args...)
}

// Unpack unpacks every package in a directory below root. It runs none of their scripts.
func (a Apt) Unpack(ctx context.Context, dir, root string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*.deb"))
	if err != nil || len(files) == 0 {
		return errors.Join(fmt.Errorf("unpack packages: there are none in %s", dir), err)
	}
	if err := os.MkdirAll(root, 0o755); err != nil {
		return fmt.Errorf("unpack packages: %w", err)
	}
	for _, file := range files {
		if err := a.run(ctx, "", "dpkg-deb", "--extract", file, root); err != nil {
			return err
		}
	}
	return nil
}

// Install installs packages on this machine, which needs root.
func (a Apt) Install(ctx context.Context, names ...string) error {
	return a.run(ctx, "", "apt-get", append([]string{"install", "-y", "--no-install-recommends"}, names...)...)
}

// Update fetches the lists of packages, which needs root.
func (a Apt) Update(ctx context.Context) error { return a.run(ctx, "", "apt-get", "update") }

// Run runs a program of Debian's package tools; what it prints goes to the log.
func (a Apt) Run(ctx context.Context, name string, args ...string) error {
	return a.run(ctx, "", name, args...)
}

// run runs a program in a directory; what it prints goes to the log.
func (a Apt) run(ctx context.Context, dir, name string, args ...string) error {
	c := command(ctx, name, args...)
	c.Dir, c.Stdout, c.Stderr = dir, a.Log, a.Log
	if err := c.Run(); err != nil {
		return fmt.Errorf("run %s %s: %w; see %s", name, args[0], err, a.Log.Name())
	}
	return nil
}

func (a Apt) output(ctx context.Context, name string, args ...string) ([]byte, error) {
	c := command(ctx, name, args...)
	c.Stderr = a.Log
	out, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("run %s %s: %w; see %s", name, args[0], err, a.Log.Name())
	}
	return out, nil
}

// endGrace is how long a program may take to end in order: mmdebstrap unmounts what it mounted.
const endGrace = time.Minute

// command runs a program non-interactively and without translations. When the context ends, it and what it started are asked to end.
func command(ctx context.Context, name string, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, "env", append([]string{"DEBIAN_FRONTEND=noninteractive", "LC_ALL=C", name}, args...)...)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGTERM) }
	c.WaitDelay = endGrace
	return c
}
