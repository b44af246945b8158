package controlplane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/util/wait"
)

// directory is where one control plane keeps its files. Its lock makes sure that there is only one.
type directory struct {
	path      string
	temporary bool
	lock      *os.File
}

// openDirectory locks the directory for this process, ends the processes that a killed run left behind there, and
// prepares everything except the processes.
func openDirectory(path, assets string) (*directory, error) {
	d := &directory{temporary: path == ""}
	var err error
	if d.temporary {
		d.path, err = os.MkdirTemp("", "controlplane-")
	} else if d.path, err = filepath.Abs(path); err == nil {
		err = os.MkdirAll(d.path, 0o755)
	}
	if err != nil {
		return nil, fmt.Errorf("create control plane directory: %w", err)
	}
	if err := d.takeLock(); err != nil {
		return nil, err
	}
	if err := errors.Join(d.killLeftovers(), d.prepare(assets)); err != nil {
		return nil, errors.Join(err, d.close())
	}
	return d, nil
}

// takeLock locks the directory. The file is checked again afterwards, because the run that held the lock may have
// removed it.
func (d *directory) takeLock() error {
	for {
		f, err := os.OpenFile(d.lockPath(), os.O_CREATE|os.O_RDWR, 0o644)
		if err != nil {
			return fmt.Errorf("open lock of %s: %w", d.path, err)
		}
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
			f.Close()
			return fmt.Errorf("lock %s: another control plane runs there; stop it or choose another directory: %w",
				d.path, err)
		}
		locked, err := f.Stat()
		if err != nil {
			f.Close()
			return fmt.Errorf("look at lock of %s: %w", d.path, err)
		}
		if named, err := os.Stat(d.lockPath()); err == nil && os.SameFile(locked, named) {
			d.lock = f
			return nil
		}
		f.Close()
	}
}

// prepare makes the subdirectories and the launchers. Each run creates new certificates, because envtest can only use
// its own.
func (d *directory) prepare(assets string) error {
	assets, err := filepath.Abs(assets)
	if err != nil {
		return fmt.Errorf("find %s: %w", assets, err)
	}
	for _, name := range []string{"apiserver", "pids", "launch"} {
		if err := os.RemoveAll(d.sub(name)); err != nil {
			return fmt.Errorf("remove %s of an earlier run: %w", name, err)
		}
	}
	for _, name := range []string{"etcd", "apiserver", "pids", "launch", "logs"} {
		if err := os.MkdirAll(d.sub(name), 0o700); err != nil {
			return fmt.Errorf("create %s: %w", name, err)
		}
	}
	for _, binary := range []string{etcdBinary, apiServerBinary} {
		if err := d.writeLauncher(binary, filepath.Join(assets, binary)); err != nil {
			return err
		}
	}
	return nil
}

func (d *directory) writeLauncher(binary, program string) error {
	if err := os.WriteFile(d.program(binary), []byte(launcher(d.pidFile(binary), program)), 0o700); err != nil {
		return fmt.Errorf("write launcher of %s: %w", binary, err)
	}
	return nil
}

// launcher is a script that records its process id and becomes the program: envtest does not expose the id.
func launcher(pidFile, program string) string {
	return fmt.Sprintf("#!/bin/sh\necho $$ >%s\nexec %s \"$@\"\n", shellQuote(pidFile), shellQuote(program))
}

func shellQuote(s string) string {
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

func (d *directory) sub(name string) string       { return filepath.Join(d.path, name) }
func (d *directory) program(binary string) string { return filepath.Join(d.path, "launch", binary) }
func (d *directory) pidFile(binary string) string { return filepath.Join(d.path, "pids", binary) }
func (d *directory) logPath(binary string) string {
	return filepath.Join(d.path, "logs", binary+".log")
}
func (d *directory) lockPath() string { return filepath.Join(d.path, "lock") }

// stop ends one program through its own stop function. That function returns an error when it had to kill the program;
// here only its end matters.
func (d *directory) stop(binary string, stop func() error) error {
	if err := stop(); err != nil {
		if killErr := d.kill(binary); killErr != nil {
			return errors.Join(fmt.Errorf("stop %s: %w", binary, err), killErr)
		}
	}
	if err := os.Remove(d.pidFile(binary)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("forget process of %s: %w", binary, err)
	}
	return nil
}

// killLeftovers ends the programs of a run in this directory that was killed itself.
func (d *directory) killLeftovers() error {
	return errors.Join(d.kill(controllerManagerBinary), d.kill(apiServerBinary), d.kill(etcdBinary))
}

// kill ends the recorded process if it still is a program of this directory, and waits until it is gone.
func (d *directory) kill(binary string) error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	err := wait.PollUntilContextCancel(ctx, 20*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		pid, alive := d.alive(binary)
		if !alive {
			return true, nil
		}
		if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
			return false, fmt.Errorf("end process %d of %s: %w", pid, binary, err)
		}
		return false, nil
	})
	if err != nil {
		return fmt.Errorf("end %s in %s (end it by hand): %w", binary, d.path, err)
	}
	return nil
}

// alive reports whether the recorded process runs and its arguments name this directory; the process id alone may have
// been reused.
func (d *directory) alive(binary string) (pid int, alive bool) {
	noted, err := os.ReadFile(d.pidFile(binary))
	if err != nil {
		return 0, false
	}
	if pid, err = strconv.Atoi(strings.TrimSpace(string(noted))); err != nil {
		return 0, false
	}
	arguments, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	return pid, err == nil && strings.Contains(string(arguments), d.path)
}

// close unlocks the directory.
func (d *directory) close() error {
	var err error
	if d.temporary {
		err = os.RemoveAll(d.path)
	} else {
		err = os.Remove(d.lockPath())
	}
	if err != nil {
		err = fmt.Errorf("clean up %s: %w", d.path, err)
	}
	return errors.Join(err, d.lock.Close())
}
