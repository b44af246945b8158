package child

import (
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
	file, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return fmt.Errorf("find the module: %w", err)
	}
	root := filepath.Dir(strings.TrimSpace(string(file)))
	shared := filepath.Join(root, "bin", "test")
	if err := os.MkdirAll(shared, 0o755); err != nil {
		return fmt.Errorf("make directory of programs: %w", err)
	}
	lock, err := os.Create(filepath.Join(shared, ".lock"))
	if err != nil {
		return fmt.Errorf("lock directory of programs: %w", err)
	}
	defer lock.Close() // ends the lock
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("lock directory of programs: %w", err)
	}
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
