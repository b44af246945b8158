package rootfs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Source is a module of Debian's kernel that is built with changes.
type Source struct {
	// Name of the module, Dir its sources below the kernel's, Files what is needed of them.
	Name, Dir string
	Files     []string
	// Config are settings of the kernel's build that the module's Makefile needs, such as "CONFIG_NETDEVSIM=m". Without
	// any the module is built from the one file of its name.
	Config []string
	// Edits are made to the sources before they are compiled.
	Edits []Edit
}

// Edit replaces a piece of a file. The piece must occur exactly once, so that a changed source is an error.
type Edit struct{ File, Old, New string }

func (e Edit) apply(dir string) error {
	path := filepath.Join(dir, e.File)
	raw, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("edit source: %w", err)
	}
	if n := strings.Count(string(raw), e.Old); n != 1 {
		return fmt.Errorf("edit source: %s has %d places that read %q instead of one: the kernel's source changed, adapt the edit", path, n, e.Old)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(raw), e.Old, e.New, 1)), 0o644); err != nil {
		return fmt.Errorf("edit source: %w", err)
	}
	return nil
}

// Build compiles modules in dir against the headers of a kernel that were unpacked below root, and returns their files.
func (a Apt) Build(ctx context.Context, root, release, dir string, sources ...Source) ([]string, error) {
	headers, err := relocateHeaders(root, release)
	if err != nil {
		return nil, err
	}
	if err := a.extractSources(ctx, root, dir, sources); err != nil {
		return nil, err
	}
	var built []string
	for _, s := range sources {
		at := filepath.Join(dir, s.Dir)
		for _, e := range s.Edits {
			if err := e.apply(at); err != nil {
				return nil, err
			}
		}
		args := append([]string{"-C", headers, "M=" + at}, s.Config...)
		if len(s.Config) == 0 {
			if err := os.WriteFile(filepath.Join(at, "Makefile"), []byte("obj-m := "+s.Name+".o\n"), 0o644); err != nil {
				return nil, fmt.Errorf("build module %s: %w", s.Name, err)
			}
		}
		if err := a.run(ctx, "", "make", append(args, "modules")...); err != nil {
			return nil, fmt.Errorf("build module %s: %w", s.Name, err)
		}
		built = append(built, filepath.Join(at, s.Name+".ko"))
	}
	return built, nil
}

// extractSources takes the files of the modules out of the archive of the kernel's source.
func (a Apt) extractSources(ctx context.Context, root, dir string, sources []Source) error {
	archives, err := filepath.Glob(filepath.Join(root, "usr/src/linux-source-*.tar.xz"))
	if err != nil || len(archives) != 1 {
		return errors.Join(fmt.Errorf("unpack kernel source: %d archives of it in %s", len(archives), root), err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("unpack kernel source: %w", err)
	}
	args := []string{"-xJf", archives[0], "-C", dir, "--strip-components=1"}
	top := strings.TrimSuffix(filepath.Base(archives[0]), ".tar.xz")
	for _, s := range sources {
		for _, f := range s.Files {
			args = append(args, filepath.Join(top, s.Dir, f))
		}
	}
	return a.run(ctx, "", "tar", args...)
}

// relocateHeaders makes headers that were unpacked elsewhere than at / find each other.
func relocateHeaders(root, release string) (string, error) {
	dir := filepath.Join(root, "usr/src/linux-headers-"+release)
	common := strings.TrimSuffix(dir, "-amd64") + "-common"
	content := "include " + filepath.Join(common, "Makefile") + "\n"
	if err := os.WriteFile(filepath.Join(dir, "Makefile"), []byte(content), 0o644); err != nil {
		return "", fmt.Errorf("prepare kernel headers: %w", err)
	}
	return dir, nil
}
