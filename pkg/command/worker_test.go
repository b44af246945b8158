package command_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
)

func playWorker([]string) int {
	if err := command.RunWorker(); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		return 1
	}
	return 0
}

// playDaemonWithWorker runs flash through a worker: args are the tools' directory, the state directory, the file of flash,
// and what the host does with the worker: "hang" for one that never answers, nothing for one that does.
func playDaemonWithWorker(args []string) int {
	answer := scoper(func(_ context.Context, pid int, _ string) error {
		publish(args[2]+".scoping", strconv.Itoa(pid))
		if len(args) > 3 {
			time.Sleep(time.Hour) // sleeps: plays a host that does not answer until the daemon is killed
		}
		return nil
	})
	r, err := command.NewExecRunner(command.Config{
		Path: []string{args[0]}, StateDir: args[1], Worker: []string{filepath.Join(args[0], "worker")}, Scope: answer,
	})
	if err != nil {
		return 1
	}
	_, _ = r.Run(context.Background(), command.Command{Argv: []string{"flash", args[2]}, Kind: command.Write, Lock: "card"})
	return 0
}

// playPromise holds something as long as its input is open: <file> exists until then.
func playPromise(args []string) int {
	publish(args[0], strconv.Itoa(os.Getpid()))
	_, _ = io.Copy(os.Stdout, os.Stdin)
	_ = os.Remove(args[0])
	return 0
}

// scoper is a host as a function.
type scoper func(ctx context.Context, pid int, name string) error

func (s scoper) Scope(ctx context.Context, pid int, name string) error { return s(ctx, pid, name) }

// withWorker makes a runner use workers, on a host that protects them.
func (m machine) withWorker(c *command.Config) {
	c.Worker = []string{filepath.Join(m.bin, "worker")}
	c.Scope = scoper(func(context.Context, int, string) error { return nil })
}

// flashing starts flash through a worker and waits until it runs.
func (m machine) flashing(t *testing.T, change ...func(*command.Config)) (r *command.ExecRunner, ended <-chan error) {
	t.Helper()
	r = m.runner(t, append([]func(*command.Config){m.withWorker}, change...)...)
	result := make(chan error, 1)
	go func() {
		_, err := r.Run(context.WithoutCancel(t.Context()), command.Command{
			Argv: []string{"flash", m.file("f")}, Kind: command.Write, Lock: "card",
		})
		result <- err
	}()
	pidsIn(t, m.file("f.started"))
	return r, result
}

// recorded waits until the write under the lock is recorded with its tool.
func recorded(t *testing.T, r *command.ExecRunner) command.Writing {
	t.Helper()
	var w *command.Writing
	require.Eventually(t, func() bool {
		var err error
		w, err = r.Writing("card")
		return err == nil && w != nil && w.Tool.PID != 0
	}, patience, tick)
	return *w
}

func TestAToolRunsThroughAWorkerAsItDoesWithout(t *testing.T) {
	m := newMachine(t)
	r := m.runner(t, m.withWorker, func(c *command.Config) { c.MaxOutput = 10 << 10 })
	write := func(argv ...string) (command.Result, error) {
		return r.Run(t.Context(), command.Command{Argv: argv, Env: []string{"OF=the command"}, Kind: command.Write, Lock: "card"})
	}
	got, err := write("describe", "-d", "a b;$(c)")
	require.NoError(t, err)
	var s started
	require.NoError(t, json.Unmarshal(got.Stdout, &s))
	assert.Equal(t, []string{filepath.Join(m.bin, "describe"), "-d", "a b;$(c)"}, s.Argv)
	assert.Equal(t, []string{"PATH=" + filepath.Join(m.bin, "missing") + ":" + m.bin, "LC_ALL=C", "HOME=/", "OF=the command"}, s.Env)
	assert.Equal(t, "/dev/null", s.Stdin)
	assert.Equal(t, "/", s.Dir)
	assert.Equal(t, s.PID, s.Group, "what is sent to the worker's group does not reach it")
	assert.NotEqual(t, sessionOf(t, os.Getpid()), s.Session)

	for _, code := range []int{0, 1, 255} {
		got, err := write("answer", strconv.Itoa(code), "out", "err")
		require.NoError(t, err)
		assert.Equal(t, command.Result{ExitCode: code, Stdout: []byte("out"), Stderr: []byte("err")}, got)
	}
	_, err = write("die")
	require.ErrorContains(t, err, "ended by signal killed")

	got, err = write("flood", "4096")
	require.NoError(t, err)
	assert.Equal(t, 3, got.ExitCode)
	assert.Len(t, got.Stdout, 10<<10)
	assert.True(t, strings.HasSuffix(string(got.Stdout), "flood is over\n"))
	w, err := r.Writing("card")
	require.NoError(t, err)
	assert.Equal(t, "flood is over", w.LastLine)
}

func sessionOf(t *testing.T, pid int) int {
	t.Helper()
	sid, _, errno := syscall.Syscall(syscall.SYS_GETSID, uintptr(pid), 0, 0)
	require.Zero(t, errno)
	return int(sid)
}

func TestNamesUnstartableTool(t *testing.T) {
	m := newMachine(t)
	require.NoError(t, os.WriteFile(filepath.Join(m.bin, "broken"), []byte("no program"), 0o700))
	r := m.runner(t, m.withWorker)
	_, err := r.Run(t.Context(), command.Command{Argv: []string{"broken"}, Kind: command.Write, Lock: "card"})
	require.ErrorContains(t, err, "its worker did not start the tool")
	require.ErrorContains(t, err, "exec format error")
	assert.NotErrorIs(t, err, command.ErrLost)
	running, err := r.WriteRunning("card")
	require.NoError(t, err)
	assert.False(t, running)
}

// A write that would leave no trace does not begin (F5).
func TestNoWriteWithoutRecord(t *testing.T) {
	for name, direct := range map[string]bool{"without a worker": true, "before the worker": false} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			first := m.runner(t)
			_, err := first.Run(t.Context(), command.Command{Argv: []string{"describe"}, Kind: command.Write, Lock: "card"})
			require.NoError(t, err)
			m.spoilRecord(t)
			r := m.runner(t, m.withWorker)
			if direct {
				r = first
			}
			_, err = r.Run(t.Context(), command.Command{Argv: []string{"flash", m.file("f")}, Kind: command.Write, Lock: "card"})
			require.ErrorContains(t, err, ".json")
			assert.False(t, exists(m.file("f.started")))
		})
	}
	t.Run("by the worker", func(t *testing.T) {
		m := newMachine(t)
		r := m.runner(t, m.withWorker, func(c *command.Config) {
			c.Scope = scoper(func(context.Context, int, string) error { m.spoilRecord(t); return nil })
		})
		_, err := r.Run(t.Context(), command.Command{Argv: []string{"flash", m.file("f")}, Kind: command.Write, Lock: "card"})
		require.ErrorContains(t, err, "its worker did not start the tool")
		assert.False(t, exists(m.file("f.started")))
	})
}

// spoilRecord puts something in the place of the record that cannot be replaced.
func (m machine) spoilRecord(t *testing.T) {
	t.Helper()
	records, err := filepath.Glob(filepath.Join(m.state, "run", "*.json"))
	require.NoError(t, err)
	require.Len(t, records, 1)
	require.NoError(t, os.Remove(records[0]))
	require.NoError(t, os.MkdirAll(filepath.Join(records[0], "in the way"), 0o700))
}

// Nothing is started by a daemon that died before its worker was safe (F1).
func TestADaemonKilledBeforeItGaveTheOrderStartsNothing(t *testing.T) {
	m := newMachine(t)
	daemon := exec.Command(filepath.Join(m.bin, "worker-daemon"), m.bin, m.state, m.file("f"), "hang")
	require.NoError(t, daemon.Start())
	worker := pidsIn(t, m.file("f.scoping"))
	require.NoError(t, daemon.Process.Kill())
	_ = daemon.Wait()

	requireGone(t, worker...)
	r := m.runner(t)
	requireFree(t, r, "card")
	assert.False(t, exists(m.file("f.started")))
	w, err := r.Writing("card")
	require.NoError(t, err)
	assert.Equal(t, command.WriteLost, w.State)
	assert.Zero(t, w.Tool, "the record says that no tool was started")
}

func TestAWriteIsCalledOffUntilTheOrderIsGiven(t *testing.T) {
	m := newMachine(t)
	ctx, cancel := context.WithCancel(t.Context())
	var worker int
	r := m.runner(t, m.withWorker, func(c *command.Config) {
		c.Scope = scoper(func(ctx context.Context, pid int, _ string) error {
			worker = pid
			assert.False(t, exists(m.file("f.started")), "the tool starts when its worker is safe")
			cancel()
			<-ctx.Done()
			return ctx.Err()
		})
	})
	_, err := r.Run(ctx, command.Command{Argv: []string{"flash", m.file("f")}, Kind: command.Write, Lock: "card"})
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, command.ErrStillRunning)
	requireGone(t, worker)
	assert.False(t, exists(m.file("f.started")))
}

func TestWorkerIgnoresSignals(t *testing.T) {
	m := newMachine(t)
	r, ended := m.flashing(t)
	w := recorded(t, r)
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGCONT} {
		require.NoError(t, syscall.Kill(-w.Worker.PID, s))
	}
	publish(m.file("f.go"), "")
	require.NoError(t, <-ended)
	assert.Equal(t, 7, recorded(t, r).Ended.ExitCode)
}

func TestUnprotectedWriteSaysSo(t *testing.T) {
	m := newMachine(t)
	log := &bytes.Buffer{}
	r := m.runner(t, m.withWorker, func(c *command.Config) {
		c.Scope = scoper(func(context.Context, int, string) error { return errors.New("no systemd here") })
		c.Log = slog.New(slog.NewTextHandler(log, nil))
	})
	got, err := r.Run(t.Context(), command.Command{Argv: []string{"answer", "0", "", ""}, Kind: command.Write, Lock: "card"})
	require.NoError(t, err)
	assert.Zero(t, got.ExitCode)
	w := recorded(t, r)
	assert.False(t, w.Protected)
	assert.Equal(t, "no systemd here", w.Unprotected)
	assert.Contains(t, log.String(), "no systemd here")

	direct := m.runner(t)
	_, err = direct.Run(t.Context(), command.Command{Argv: []string{"answer", "0", "", ""}, Kind: command.Write, Lock: "card"})
	require.NoError(t, err)
	w = recorded(t, direct)
	assert.False(t, w.Protected)
	assert.NotEmpty(t, w.Unprotected)
	assert.Equal(t, command.WriteEnded, w.State)
}

func TestAShutdownIsHeldOffAsLongAsTheToolLives(t *testing.T) {
	m := newMachine(t)
	promise := func(c *command.Config) { c.Inhibit = []string{"promise", m.file("held")} }
	r, ended := m.flashing(t, promise)
	assert.True(t, exists(m.file("held")), "it holds before the tool starts")
	w := recorded(t, r)
	assert.True(t, w.Inhibited)
	assert.Empty(t, w.Uninhibited)
	publish(m.file("f.go"), "")
	require.NoError(t, <-ended)
	assert.False(t, exists(m.file("held")), "who waits for the write may reboot")

	require.NoError(t, os.Remove(m.file("f.go")))
	require.NoError(t, os.Remove(m.file("f.started")))
	r, ended = m.flashing(t, promise)
	w = recorded(t, r)
	require.NoError(t, syscall.Kill(w.Worker.PID, syscall.SIGKILL))
	requireGone(t, w.Worker.PID)
	assert.True(t, exists(m.file("held")), "the tool holds it too")
	publish(m.file("f.go"), "")
	require.ErrorIs(t, <-ended, command.ErrLost)
	require.Eventually(t, func() bool { return !exists(m.file("held")) }, patience, tick)
}

func TestAWriteRunsThoughAShutdownCannotBeHeldOff(t *testing.T) {
	for tool, why := range map[string]string{"broken-promise": "Failed to connect to bus", "not-installed": "no such file"} {
		m := newMachine(t)
		r := m.runner(t, m.withWorker, func(c *command.Config) { c.Inhibit = []string{tool} })
		got, err := r.Run(t.Context(), command.Command{Argv: []string{"answer", "0", "out", "err"}, Kind: command.Write, Lock: "card"})
		require.NoError(t, err)
		assert.Equal(t, command.Result{Stdout: []byte("out"), Stderr: []byte("err")}, got)
		w := recorded(t, r)
		assert.False(t, w.Inhibited)
		assert.Contains(t, w.Uninhibited, why)
	}
}

// Steps may take hours, as long as they show that they live.
// It proves R003-46.
func TestOutputExtendsTheDeadline(t *testing.T) {
	for name, worker := range map[string]bool{"direct": false, "worker": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t)
			r := m.runner(t)
			if worker {
				r = m.runner(t, m.withWorker)
			}
			before := time.Now()
			_, err := r.Run(t.Context(), command.Command{
				Argv: []string{"talk", "70"}, Kind: command.Write, Lock: "card", Timeout: 6 * time.Second,
			})
			require.NoError(t, err)
			assert.Greater(t, time.Since(before), 6*time.Second)

			_, err = r.Run(t.Context(), command.Command{
				Argv: []string{"flash", m.file("f")}, Kind: command.Write, Lock: "card", Timeout: 300 * time.Millisecond,
			})
			require.ErrorIs(t, err, command.ErrStillRunning)
			require.ErrorContains(t, err, "printed nothing for 300ms")
			publish(m.file("f.go"), "")
			requireFree(t, r, "card")
			assert.True(t, exists(m.file("f.done")), "it was not killed")
		})
	}
}

func TestWorkerRefusesManualStart(t *testing.T) {
	m := newMachine(t)
	out, err := exec.Command(filepath.Join(m.bin, "worker")).CombinedOutput()
	require.Error(t, err)
	assert.Contains(t, string(out), "started by the daemon alone")
	assert.ErrorContains(t, func() error {
		_, err := command.NewExecRunner(command.Config{Path: []string{"/bin"}, Worker: []string{"worker"}})
		return err
	}(), "configure commands: worker")
}

// Whatever is cut off before its end is no order.
func TestHalfAnOrderStartsNothing(t *testing.T) {
	m := newMachine(t)
	whole := fmt.Sprintf(`{"Tool":%q,"Base":%q,"Writing":{"Argv":["flash",%q]}}`,
		filepath.Join(m.bin, "flash"), m.file("base"), m.file("f"))
	for _, sent := range []string{"", "{", whole[:len(whole)-1], whole, "nonsense\n"} {
		lock, err := os.Create(m.file("lock"))
		require.NoError(t, err)
		from, to, err := os.Pipe()
		require.NoError(t, err)
		worker := exec.Command(filepath.Join(m.bin, "worker"))
		worker.ExtraFiles = []*os.File{lock, from}
		complaint := &bytes.Buffer{}
		worker.Stderr = complaint
		require.NoError(t, worker.Start())
		_, err = to.WriteString(sent)
		require.NoError(t, err)
		require.NoError(t, errors.Join(to.Close(), from.Close(), lock.Close()))
		require.Error(t, worker.Wait())
		assert.Contains(t, complaint.String(), "order")
		assert.False(t, exists(m.file("f.started")), "%q", sent)
	}
}

// A driver without a vendor's tool writes through its own program, and that write has the same guards.
func TestOwnToolsWriteAndQuery(t *testing.T) {
	m := newMachine(t)
	own := func(c *command.Config) {
		c.Own = map[string][]string{"flash": {filepath.Join(m.bin, "answer"), "4", "own"}, "kernel": {filepath.Join(m.bin, "answer"), "5"}}
	}
	r := m.runner(t, m.withWorker, own)
	got, err := r.Run(t.Context(), command.Command{Argv: []string{"kernel", "told", "asked"}})
	require.NoError(t, err)
	assert.Equal(t, command.Result{ExitCode: 5, Stdout: []byte("told"), Stderr: []byte("asked")}, got)

	got, err = r.Run(t.Context(), command.Command{Argv: []string{"flash", "card"}, Kind: command.Write, Lock: "card"})
	require.NoError(t, err)
	assert.Equal(t, 4, got.ExitCode, "an own tool wins over one of the path")
	w := recorded(t, r)
	assert.Equal(t, []string{"flash", "card"}, w.Argv)
	assert.True(t, w.Protected)

	_, err = command.NewExecRunner(command.Config{Path: []string{m.bin}, Own: map[string][]string{"flash": {"answer"}}})
	assert.ErrorContains(t, err, `own tool "flash"`)
}
