package child

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// Build puts programs of this module into a directory, as they are shipped. They are linked once for all packages whose tests start them,
// and again when their sources change: the go command leaves a program in bin/test alone that it would link in the same way.
func Build(dir string, programs ...string) error {
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	unlock, err := lockPrograms(root)
	if err != nil {
		return err
	}
	defer unlock()
	return link(root, filepath.Join(root, "bin", "test"), dir, programs)
}

func moduleRoot() (string, error) {
	file, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("find the module: %w", err)
	}
	return filepath.Dir(strings.TrimSpace(string(file))), nil
}

// lockPrograms waits until no other test links programs.
func lockPrograms(root string) (unlock func(), err error) {
	shared := filepath.Join(root, "bin", "test")
	if err := os.MkdirAll(shared, 0o755); err != nil {
		return nil, fmt.Errorf("make directory of programs: %w", err)
	}
	lock, err := os.Create(filepath.Join(shared, ".lock"))
	if err != nil {
		return nil, fmt.Errorf("lock directory of programs: %w", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return nil, errors.Join(fmt.Errorf("lock directory of programs: %w", err), lock.Close())
	}
	return func() { _ = lock.Close() }, nil // which ends the lock
}

// link links programs of the module in root into the directory shared, and copies them from there.
func link(root, shared, dir string, programs []string) error {
	args := []string{"build", "-tags=grpcnotrace", "-ldflags=-s -w", "-o", shared + "/"}
	for _, p := range programs {
		args = append(args, "./cmd/"+p)
	}
	build := exec.Command("go", args...)
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w: %s", strings.Join(programs, ", "), err, out)
	}
	for _, p := range programs {
		if err := copyTo(filepath.Join(dir, p), filepath.Join(shared, p)); err != nil {
			return err
		}
	}
	return nil
}

func copyTo(path, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return fmt.Errorf("copy program: %w", err)
	}
	defer in.Close()
	out, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC|syscall.O_CLOEXEC, 0o755)
	if err != nil {
		return fmt.Errorf("copy program: %w", err)
	}
	if _, err := io.Copy(out, in); err != nil {
		_ = out.Close()
		return fmt.Errorf("copy program: %w", err)
	}
	return out.Close()
}
