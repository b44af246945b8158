package controlplane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// lock takes the cache for this process and returns the function that gives it back. The kernel gives it back too when
// the process ends in any way. A process that has to wait says so.
func (l *Locator) lock(ctx context.Context) (func(), error) {
	f, err := os.OpenFile(filepath.Join(l.CacheDir, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open lock of the control plane cache: %w", err)
	}
	p := startProgress(l.Progress, "controlplane: another run is getting etcd and kube-apiserver; waiting for it",
		lockSilence)
	defer p.stop()
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			f.Close()
			return nil, fmt.Errorf("lock the control plane cache: %w", err)
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, fmt.Errorf("wait for another run to fill the control plane cache: %w", ctx.Err())
		case <-time.After(lockPoll):
		}
	}
}

const (
	// lockPoll is how often a waiting process asks for the lock.
	lockPoll = 200 * time.Millisecond
	// lockSilence is how long it waits before it says that it waits.
	lockSilence = 300 * time.Millisecond
)
