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

	"github.com/gofrs/flock"
)

// A lock is flock(2) on a file of its own. The open file, and with it the lock, is shared with the tool and all that
// the tool starts: it is free only when the last of them is gone, whatever happens to this process. Lock files stay,
// since removing one races with whoever just opened it.
//
// The lock of a write is not a flock.Flock: that keeps its file to itself, where the worker has to inherit it, and its end
// unlocks the file for everybody who inherited it.

// WriteRunning reports whether a Write under the lock still runs, started by this process or by an earlier one. It also bounds the output
// of a running write: called from time to time, it keeps a tool whose daemon and worker died from filling the disk.
func (r *ExecRunner) WriteRunning(lock string) (bool, error) {
	l := flock.New(r.lockBase(lock)+lockSuffix, flock.SetFlag(os.O_RDONLY))
	defer withoutForks()()
	free, err := l.TryRLock()
	switch {
	case errors.Is(err, os.ErrNotExist):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("look for a running write: %w", err)
	}
	if !free {
		// Who began the write may be gone, and with it who bounds its output.
		for _, suffix := range []string{outSuffix, errSuffix} {
			if f, err := os.OpenFile(r.lockBase(lock)+suffix, os.O_WRONLY, 0); err == nil {
				giveBack(f, r.cfg.MaxOutput)
				_ = f.Close()
			}
		}
	}
	return !free, l.Close()
}

// WritesRunning reports whether any Write of a state directory still runs, whoever began it.
func WritesRunning(stateDir string) (bool, error) {
	locks, err := filepath.Glob(filepath.Join(stateDir, "run", "*"+lockSuffix))
	if err != nil {
		return false, fmt.Errorf("list locks of writes: %w", err)
	}
	defer withoutForks()()
	for _, file := range locks {
		l := flock.New(file, flock.SetFlag(os.O_RDONLY))
		free, err := l.TryRLock()
		switch {
		case errors.Is(err, os.ErrNotExist):
			continue
		case err != nil:
			return false, fmt.Errorf("look for a running write: %w", err)
		}
		if err := l.Close(); err != nil || !free {
			return !free, err
		}
	}
	return false, nil
}

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
	// A WriteRunning, of this process or another, holds the lock of a write that just ended for an instant.
	const attempts, pause = 20, 5 * time.Millisecond
	for range attempts {
		if err = tryLock(f); !errors.Is(err, syscall.EWOULDBLOCK) {
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

func tryLock(f *os.File) error {
	defer withoutForks()()
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}

// withoutForks waits until no process that this one forks is between its birth and its own program, and lets none be born until
// the function that it returns is called. Until then such a process holds every file that is open here, also the lock of a write
// that has ended, and on a busy machine for long.
func withoutForks() (end func()) {
	syscall.ForkLock.RLock()
	return syscall.ForkLock.RUnlock
}

func (r *ExecRunner) lockBase(lock string) string {
	sum := sha256.Sum256([]byte(lock))
	return filepath.Join(r.cfg.StateDir, "run", hex.EncodeToString(sum[:16]))
}

// describeHolder says who holds the lock, as far as that was recorded.
func (r *ExecRunner) describeHolder(lock string) string {
	w, err := r.Writing(lock)
	if err != nil || w == nil || w.Argv == nil {
		return ""
	}
	return ": " + w.describe()
}
