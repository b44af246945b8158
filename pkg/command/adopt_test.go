package command_test

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
)

// A new daemon takes over what the old one began (I6, F1, F11).
func TestANewDaemonAdoptsAWrite(t *testing.T) {
	m := newMachine(t)
	daemon := exec.Command(filepath.Join(m.bin, "worker-daemon"), m.bin, m.state, m.file("f"))
	require.NoError(t, daemon.Start())
	tool := pidsIn(t, m.file("f.started"))[0]
	next := m.runner(t, m.withWorker)
	w := recorded(t, next)
	require.NoError(t, daemon.Process.Kill())
	_ = daemon.Wait()

	assert.Equal(t, tool, w.Tool.PID)
	assert.True(t, w.Tool.Alive())
	assert.True(t, w.Worker.Alive())
	assert.Equal(t, command.WriteRunning, w.State)
	assert.Equal(t, []string{"flash", m.file("f")}, w.Argv)
	assert.True(t, w.Protected)
	assert.WithinDuration(t, time.Now(), w.Started, time.Minute)
	require.Eventually(t, func() bool { w, err := next.Writing("card"); return err == nil && w.LastLine == "2%" }, patience, tick)
	_, err := next.Run(t.Context(), command.Command{Argv: []string{"flash", m.file("second")}, Kind: command.Write, Lock: "card"})
	require.ErrorIs(t, err, command.ErrBusy)
	require.ErrorContains(t, err, fmt.Sprintf("process %d,", tool))
	assert.False(t, exists(m.file("second.started")))

	publish(m.file("f.go"), "")
	requireFree(t, next, "card")
	over, err := next.Writing("card")
	require.NoError(t, err)
	assert.Equal(t, command.WriteEnded, over.State)
	assert.Equal(t, 7, over.Ended.ExitCode)
	assert.Equal(t, "burned", over.LastLine)
	assert.False(t, over.LastOutput.IsZero())
	assert.False(t, over.Worker.Alive())
}

func TestAToolOutlivesItsWorker(t *testing.T) {
	m := newMachine(t)
	r, ended := m.flashing(t)
	w := recorded(t, r)
	require.NoError(t, syscall.Kill(w.Worker.PID, syscall.SIGKILL))
	requireGone(t, w.Worker.PID)

	orphan := recorded(t, r)
	assert.Equal(t, command.WriteRunning, orphan.State)
	assert.True(t, orphan.Tool.Alive())
	assert.False(t, orphan.Worker.Alive())
	select {
	case err := <-ended:
		require.Fail(t, "the caller was told too early", "%v", err)
	default:
	}
	publish(m.file("f.go"), "")
	require.ErrorIs(t, <-ended, command.ErrLost)
	assert.True(t, exists(m.file("f.done")), "the tool ended by itself")
	w = recorded(t, r)
	assert.Equal(t, command.WriteLost, w.State)
	assert.Nil(t, w.Ended)
}

func TestToolOutlivesBothParents(t *testing.T) {
	m := newMachine(t)
	daemon := exec.Command(filepath.Join(m.bin, "worker-daemon"), m.bin, m.state, m.file("f"))
	require.NoError(t, daemon.Start())
	pidsIn(t, m.file("f.started"))
	next := m.runner(t, m.withWorker)
	w := recorded(t, next)
	require.NoError(t, daemon.Process.Kill())
	_ = daemon.Wait()
	require.NoError(t, syscall.Kill(w.Worker.PID, syscall.SIGKILL))
	requireGone(t, w.Worker.PID)

	_, err := next.Run(t.Context(), command.Command{Argv: []string{"flash", m.file("second")}, Kind: command.Write, Lock: "card"})
	require.ErrorIs(t, err, command.ErrBusy, "one writer a device, whoever died")
	publish(m.file("f.go"), "")
	requireFree(t, next, "card")
	assert.True(t, exists(m.file("f.done")))
	assert.Equal(t, command.WriteLost, recorded(t, next).State)
}

// What a tool prints that lost its daemon and its worker does not fill the disk once another daemon looks at it, and what it
// printed last is still there. The write itself is left alone.
func TestANewDaemonBoundsTheOutputOfAToolThatNobodyFollows(t *testing.T) {
	const limit = 64 << 10
	m := newMachine(t)
	daemon := exec.Command(filepath.Join(m.bin, "worker-daemon"), m.bin, m.state, m.file("f"))
	require.NoError(t, daemon.Start())
	next := m.runner(t, m.withWorker, func(c *command.Config) { c.MaxOutput = limit })
	pidsIn(t, m.file("f.started"))
	w := recorded(t, next)
	require.NoError(t, daemon.Process.Kill())
	_ = daemon.Wait()
	require.NoError(t, syscall.Kill(w.Worker.PID, syscall.SIGKILL))
	requireGone(t, w.Worker.PID)
	publish(m.file("f.loud"), "")

	require.Eventually(t, func() bool { return exists(m.file("f.printed")) }, time.Minute, tick)
	running, err := next.WriteRunning("card")
	require.NoError(t, err)
	require.True(t, running, "the tool is left alone")
	outputs, err := filepath.Glob(filepath.Join(m.state, "run", "*.out"))
	require.NoError(t, err)
	require.Len(t, outputs, 1)
	var stat syscall.Stat_t
	require.NoError(t, syscall.Stat(outputs[0], &stat))
	assert.LessOrEqual(t, stat.Blocks*512, int64(2*limit), "of %d bytes that it printed", loud)
	publish(m.file("f.go"), "")
	requireFree(t, next, "card")
	over, err := next.Writing("card")
	require.NoError(t, err)
	assert.Equal(t, command.WriteLost, over.State)
	assert.True(t, exists(m.file("f.done")), "the tool ended by itself")
	require.NotEmpty(t, over.LastLine)
}

func TestAWriteOfAnotherBootIsOver(t *testing.T) {
	m := newMachine(t)
	boot := "one"
	r := m.runner(t, func(c *command.Config) { c.BootID = func() (string, error) { return boot, nil } })
	none, err := r.Writing("card")
	require.NoError(t, err)
	assert.Nil(t, none, "nothing was ever written")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := r.Run(ctx, command.Command{Argv: []string{"flash", m.file("f")}, Kind: command.Write, Lock: "card"})
		ended <- err
	}()
	pidsIn(t, m.file("f.started"))
	first := recorded(t, r)
	assert.Equal(t, "one", first.BootID)

	boot = "two" // with the same lock held, as if another daemon had it and had recorded nothing yet
	w, err := r.Writing("card")
	require.NoError(t, err)
	assert.Equal(t, command.WriteRunning, w.State)
	assert.Zero(t, w.Tool, "what the earlier boot recorded says nothing of it")
	require.NoError(t, syscall.Kill(first.Tool.PID, syscall.SIGKILL))
	require.Error(t, <-ended)
}

func TestStartTimeIdentifiesProcess(t *testing.T) {
	m := newMachine(t)
	r, ended := m.flashing(t)
	w := recorded(t, r)
	assert.True(t, w.Tool.Alive())
	assert.False(t, command.Process{PID: w.Tool.PID, Start: w.Tool.Start + 1}.Alive(), "the id was used again")
	assert.False(t, command.Process{}.Alive())
	publish(m.file("f.go"), "")
	require.NoError(t, <-ended)
	assert.False(t, w.Tool.Alive())
}
