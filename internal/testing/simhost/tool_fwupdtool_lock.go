package simhost

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// fwupdLock takes the lock of which fwupdtool holds one for each machine, whatever it was asked to do. The directory is /run/lock,
// or what the variable says.
func (c *call) fwupdLock() (unlock func(), problem *fwupdError, err error) {
	dir, shown := os.Getenv("FWUPD_LOCKDIR"), os.Getenv("FWUPD_LOCKDIR")
	if dir == "" {
		dir, shown = c.m.path("run", "lock"), "/run/lock"
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, nil, fmt.Errorf("make directory of locks: %w", err)
		}
	}
	shown = filepath.Join(shown, "fwupdtool")
	file, err := os.OpenFile(filepath.Join(dir, "fwupdtool"), os.O_RDWR|os.O_CREATE, 0o700)
	if err != nil {
		return nil, &fwupdError{fwupdNotSupported, "Failed to lock: failed to open " + shown}, nil //nolint:nilerr // it is the answer
	}
	err = unix.FcntlFlock(file.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK})
	switch {
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EACCES):
		_ = file.Close()
		return nil, &fwupdError{fwupdNotSupported, "Failed to lock: another instance has locked " + shown}, nil
	case err != nil:
		return nil, nil, errors.Join(fmt.Errorf("lock %s: %w", shown, err), file.Close())
	}
	return func() { _ = file.Close() }, nil, nil
}

// enables reports whether a plugin is enabled: all are, unless one is named.
func (o options) enables(plugin string) bool {
	named, ok := o.values["plugins"]
	return !ok || named == plugin
}

// fwupdFirmware reports whether the tool sees the machine's /sys/firmware.
func fwupdFirmware() bool { return os.Getenv("FWUPD_SYSFSFWDIR") == "" }

// fwupdPending is the answer to an activation where the history has nothing to activate: the tool looks there before it locks. Else
// it is the problem of the lock.
func (c *call) fwupdPending(locked *fwupdError) (*fwupdError, error) {
	s, err := c.m.view()
	if err != nil {
		return nil, err
	}
	for _, d := range s.Spec.SATA {
		if s.present(d.Key) && s.SATA[d.Key].needsActivation() {
			return locked, nil
		}
	}
	return &fwupdError{fwupdNothingToDo, "No devices to activate"}, nil
}
