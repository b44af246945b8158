package state

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"

	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
)

const (
	lockFile = "lock"
	// lockPatience is how long to wait for another process, such as a daemon that is just ending.
	lockPatience = 2 * time.Second
	lockPause    = 20 * time.Millisecond
)

// ErrLocked says that another process has the directory open.
var ErrLocked = journal.ErrLocked

// lock takes the directory for this process until the lock is closed. The kernel gives it back when the process ends in
// any way. Writes that outlive the process do not hold it: they have locks of their own.
func lock(dir string, patience time.Duration) (*flock.Flock, error) {
	l := flock.New(filepath.Join(dir, lockFile))
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	_, err := l.TryLockContext(ctx, lockPause)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return nil, fmt.Errorf("lock %s: %w", l.Path(), ErrLocked)
	case err != nil:
		return nil, fmt.Errorf("lock %s: %w", l.Path(), err)
	}
	return l, nil
}

// Locked reports whether another process has the directory open.
func Locked(dir string) (bool, error) {
	l := flock.New(filepath.Join(dir, lockFile), flock.SetFlag(os.O_RDONLY))
	free, err := l.TryRLock()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("check for a running daemon: %w", err)
	}
	return !free, l.Close()
}
