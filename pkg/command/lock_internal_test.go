package command

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A process that is forked for something else holds the lock of a write that has just ended until it runs its own program. On a
// busy machine that takes longer than any number of attempts.
func TestAProcessThatIsBornDoesNotMakeADeviceBusy(t *testing.T) {
	r := &ExecRunner{cfg: Config{StateDir: t.TempDir()}}
	base := r.lockBase("card")
	require.NoError(t, os.MkdirAll(filepath.Dir(base), 0o700))
	child, err := os.OpenFile(base+lockSuffix, os.O_CREATE|os.O_RDWR, 0o600)
	require.NoError(t, err)
	syscall.ForkLock.Lock()
	require.NoError(t, syscall.Flock(int(child.Fd()), syscall.LOCK_EX|syscall.LOCK_NB))
	type outcome struct {
		lock    *os.File
		running bool
		err     error
	}
	acquired, asked := make(chan outcome, 1), make(chan outcome, 1)
	go func() {
		running, err := r.WriteRunning("card")
		asked <- outcome{running: running, err: err}
	}()
	go func() {
		lock, err := r.acquire(context.WithoutCancel(t.Context()), Command{Lock: "card"})
		acquired <- outcome{lock: lock, err: err}
	}()
	select {
	case o := <-acquired:
		assert.Fail(t, "the lock was judged while a process was born", "%v", o.err)
		acquired <- o
	case o := <-asked:
		assert.Fail(t, "the lock was judged while a process was born", "%t", o.running)
		asked <- o
	case <-time.After(300 * time.Millisecond): // longer than all attempts
	}
	require.NoError(t, child.Close())
	syscall.ForkLock.Unlock()
	look := <-asked
	require.NoError(t, look.err)
	o := <-acquired
	require.NoError(t, o.err)
	require.NoError(t, o.lock.Close())
}
