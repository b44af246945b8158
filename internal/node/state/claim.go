package state

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gofrs/flock"
)

const claimFile = "claim"

// Claim says to the guard of this host that a daemon, or the pod of a job, is there and is to execute the jobs, until it is closed or
// the process ends in any way. It comes before the directory is opened: a guard that has it open gives it up for a claim, and one that
// has not leaves it alone, whether or not the API server answers the guard. Several processes may claim a directory; the lock of
// Open still decides which of them works.
func Claim(dir string) (io.Closer, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("claim state directory: %w", err)
	}
	l := flock.New(filepath.Join(dir, claimFile))
	if err := l.RLock(); err != nil { // blocks only while a guard looks
		return nil, fmt.Errorf("claim state directory: %w", err)
	}
	return l, nil
}

// Claimed reports whether a process claims the directory.
func Claimed(dir string) (bool, error) {
	l := flock.New(filepath.Join(dir, claimFile), flock.SetFlag(os.O_RDONLY))
	alone, err := l.TryLock()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("look for a claim on the state directory: %w", err)
	}
	return !alone, l.Close()
}
