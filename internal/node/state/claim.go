package state

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"

	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/pkg/durable"
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

// Guest reads a state directory that other processes open, one after the other, to execute one job each. It changes
// nothing there.
type Guest struct {
	dir     string
	machine Machine
}

// NewGuest returns a guest of the directory, which need not exist yet, on this machine.
func NewGuest(dir string, machine Machine) *Guest { return &Guest{dir: dir, machine: machine} }

// View reads the journal even while another process has it open; it is empty before the first job, and on another machine than the
// one of the directory.
func (g *Guest) View() (journal.View, error) {
	stamp, err := readStamp(durable.OS{}, g.dir)
	if err == nil && stamp != nil && g.machine.isOther(stamp.Machine) { // the next process that opens it sets it aside
		return journal.View{}, nil
	}
	v, err := journal.Peek(g.dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, journal.ErrEarlier) { // the next process that opens it sets it aside
		return journal.View{}, nil
	}
	return v, err
}

// Share prevents other processes from opening the directory until done is called; other guests may share it. Ok is
// false while a process has it open: that process reads and reports the machine itself.
func (g *Guest) Share() (done func(), ok bool, err error) {
	if err := os.MkdirAll(g.dir, 0o700); err != nil {
		return nil, false, fmt.Errorf("share state directory: %w", err)
	}
	l := flock.New(filepath.Join(g.dir, lockFile))
	ok, err = l.TryRLock()
	if err != nil {
		return nil, false, fmt.Errorf("share state directory: %w", err)
	}
	return func() { _ = l.Close() }, ok, nil
}
