package command

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// A lock is flock(2) on a file of its own. The open file, and with it the lock, is shared with the tool and all that
// the tool starts: it is free only when the last of them is gone, whatever happens to this process. Lock files stay,
// since removing one races with whoever just opened it.

// WriteRunning reports whether a Write under the lock still runs, started by this process or by an earlier one.
func (r *ExecRunner) WriteRunning(lock string) (bool, error) {
	f, err := os.OpenFile(r.lockBase(lock)+lockSuffix, os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for a running write: %w", err)
	}
	defer f.Close()
	switch err := flock(f, syscall.LOCK_SH|syscall.LOCK_NB); {
	case errors.Is(err, syscall.EWOULDBLOCK):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("look for a running write: lock %s: %w", f.Name(), err)
	}
	return false, nil
}

// acquire takes the lock of a write.
func (r *ExecRunner) acquire(ctx context.Context, c Command) (*os.File, error) {
	if c.Lock == "" {
		return nil, errors.New("a write needs a lock: name the device it changes")
	}
	if r.cfg.StateDir == "" {
		return nil, errors.New("a write needs a state directory: configure one")
	}
	base := r.lockBase(c.Lock)
	if err := os.MkdirAll(filepath.Dir(base), 0o700); err != nil {
		return nil, fmt.Errorf("create state directory: %w", err)
	}
	f, err := os.OpenFile(base+lockSuffix, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	// A process forked at this moment, or a WriteRunning, holds the lock of a write that just ended for an instant.
	const attempts, pause = 20, 5 * time.Millisecond
	for range attempts {
		if err = flock(f, syscall.LOCK_EX|syscall.LOCK_NB); !errors.Is(err, syscall.EWOULDBLOCK) {
			break
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done(): // the last word is the lock's
		}
	}
	switch {
	case err == nil:
		return f, nil
	case errors.Is(err, syscall.EWOULDBLOCK):
		err = fmt.Errorf("%w%s", ErrBusy, r.describeHolder(c.Lock))
	default:
		err = fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	return nil, errors.Join(err, f.Close())
}

func (r *ExecRunner) lockBase(lock string) string {
	sum := sha256.Sum256([]byte(lock))
	return filepath.Join(r.cfg.StateDir, "run", hex.EncodeToString(sum[:16]))
}

func flock(f *os.File, how int) error {
	for {
		if err := syscall.Flock(int(f.Fd()), how); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// describeHolder says who holds the lock, as far as that was recorded.
func (r *ExecRunner) describeHolder(lock string) string {
	w, err := r.Writing(lock)
	if err != nil || w == nil || w.Argv == nil {
		return ""
	}
	return ": " + w.describe()
}
