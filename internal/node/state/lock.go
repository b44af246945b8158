package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
)

const (
	lockFile = "lock"
	// lockPatience is how long another process is waited for, such as a daemon that is just ending.
	lockPatience = 2 * time.Second
	lockPause    = 20 * time.Millisecond
)

// ErrLocked says that another process has the directory open.
var ErrLocked = journal.ErrLocked

// lock takes the directory for this process until the file is closed. The kernel gives it back when the process ends in any
// way. Writes that outlive the process do not hold it: they have locks of their own.
func lock(dir string, patience time.Duration) (*os.File, error) {
	path := filepath.Join(dir, lockFile)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	for end := time.Now().Add(patience); ; {
		err = flock(f, syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) || time.Now().After(end) {
			break
		}
		<-time.After(lockPause)
	}
	switch {
	case errors.Is(err, syscall.EWOULDBLOCK):
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, ErrLocked), f.Close())
	case err != nil:
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
	}
	return f, nil
}

// locked reports whether another process has the directory open.
func locked(dir string) (bool, error) {
	f, err := os.Open(filepath.Join(dir, lockFile))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for a running daemon: %w", err)
	}
	defer f.Close()
	switch err := flock(f, syscall.LOCK_SH|syscall.LOCK_NB); {
	case errors.Is(err, syscall.EWOULDBLOCK):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("look for a running daemon: %w", err)
	}
	return false, nil
}

func flock(f *os.File, how int) error {
	for {
		if err := syscall.Flock(int(f.Fd()), how); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}
