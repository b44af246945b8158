package command_test

import (
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
)

// victim is who is killed with SIGKILL, at any moment.
type victim struct{ daemon, worker bool }

// Whoever is killed, and whenever: a tool that started ends by itself, what is recorded of it is true, and the device is free
// afterwards (F1, F7, F11; I2, I6).
func TestKillsAtAnyMomentEndNoWrite(t *testing.T) {
	const rounds = 12
	for name, v := range map[string]victim{
		"daemon": {daemon: true}, "worker": {worker: true}, "both": {daemon: true, worker: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for range rounds {
				seed := rand.Uint64()
				v.strike(t, rand.New(rand.NewPCG(seed, 0)))
				if t.Failed() {
					t.Fatalf("seed %d", seed)
				}
			}
		})
	}
}

// strike starts a daemon whose tool ends at once, kills the victims at a random moment, and looks at what is left.
func (v victim) strike(t *testing.T, random *rand.Rand) {
	t.Helper()
	m := newMachine(t)
	publish(m.file("f.go"), "")
	daemon := exec.Command(filepath.Join(m.bin, "worker-daemon"), m.bin, m.state, m.file("f"))
	require.NoError(t, daemon.Start())
	worker := pidsIn(t, m.file("f.scoping"))[0] // it waits for its order, or has just got it
	<-time.After(time.Duration(random.IntN(80)) * time.Millisecond)
	if v.daemon {
		_ = daemon.Process.Kill()
	}
	if v.worker {
		_ = syscall.Kill(worker, syscall.SIGKILL)
	}
	_ = daemon.Wait() // one that was not killed notices that its worker was
	r := m.runner(t)
	requireFree(t, r, "card")
	requireGone(t, worker)

	w, err := r.Writing("card")
	require.NoError(t, err)
	started, done := exists(m.file("f.started")), exists(m.file("f.done"))
	assert.Equal(t, started, done, "what started ended by itself")
	switch w.State {
	case command.WriteEnded:
		assert.True(t, done)
		assert.Equal(t, 7, w.Ended.ExitCode)
	case command.WriteLost:
		assert.True(t, v.worker || !started, "only the worker knows how a tool ended")
	default:
		assert.Fail(t, "the write is over", "%+v", w)
	}
	assert.False(t, w.Tool.Alive())
	_, err = r.Run(t.Context(), command.Command{Argv: []string{"flash", m.file("f")}, Kind: command.Write, Lock: "card"})
	require.NoError(t, err, "the next write is not kept from the device")
}
