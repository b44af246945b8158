package controlplane

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
)

// lock locks the cache for this process and returns the function that unlocks it. The kernel also unlocks it when the
// process ends, however it ends. A process that has to wait prints that.
func (l *Locator) lock(ctx context.Context) (func(), error) {
	p := startProgress(l.Progress, "controlplane: another run is getting etcd and kube-apiserver; waiting for it",
		lockSilence)
	defer p.stop()
	lock := flock.New(filepath.Join(l.CacheDir, "lock"), flock.SetFlag(os.O_CREATE|os.O_RDWR), flock.SetPermissions(0o644))
	if _, err := lock.TryLockContext(ctx, lockPoll); err != nil {
		return nil, fmt.Errorf("lock the control plane cache: %w", err)
	}
	return func() { lock.Close() }, nil
}

const (
	// lockPoll is how often a waiting process tries to get the lock.
	lockPoll = 200 * time.Millisecond
	// lockSilence is how long it waits before it prints that it waits.
	lockSilence = 300 * time.Millisecond
)
