package command_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/simhost"
	"github.com/nodefirmware/node-firmware-operator/pkg/command"
)

// tools are what this test binary does under other names.
var tools = map[string]func(args []string) int{
	// describe prints how it was started.
	"describe": func(args []string) int {
		stdin, _ := os.Readlink("/proc/self/fd/0")
		dir, _ := os.Getwd()
		sid, _, _ := syscall.Syscall(syscall.SYS_GETSID, 0, 0, 0)
		_ = json.NewEncoder(os.Stdout).Encode(started{
			Argv: append([]string{os.Args[0]}, args...), Env: os.Environ(), Stdin: stdin, Dir: dir,
			PID: os.Getpid(), Group: syscall.Getpgrp(), Session: int(sid),
		})
		return 0
	},
	// answer prints on both outputs and exits with a code.
	"answer": func(args []string) int {
		fmt.Print(args[1])
		fmt.Fprint(os.Stderr, args[2])
		code, _ := strconv.Atoi(args[0])
		return code
	},
	// hang starts a child in its group, names both in a file and never ends.
	"hang": func(args []string) int {
		child := exec.Command("/proc/self/exe")
		child.Args[0] = "sleep-forever"
		child.Stdout = os.Stdout
		if child.Start() != nil {
			return 1
		}
		publish(args[0], fmt.Sprintf("%d %d", os.Getpid(), child.Process.Pid))
		time.Sleep(time.Hour) // sleeps: plays a tool that hangs; without a timer the runtime may see a deadlock and exit
		return 0
	},
	"sleep-forever": func([]string) int { time.Sleep(time.Hour); return 0 }, // sleeps: plays a tool that hangs
	// leave-child ends at once and leaves a child that holds its output.
	"leave-child": func(args []string) int {
		child := exec.Command("/proc/self/exe")
		child.Args[0] = "sleep-forever"
		child.Stdout = os.Stdout
		_ = child.Start()
		publish(args[0], strconv.Itoa(child.Process.Pid))
		fmt.Println("parent is done")
		return 0
	},
	// flood prints without end, or the given number of KiB on standard output.
	"flood": func(args []string) int {
		block := bytes.Repeat([]byte("0123456789abcde\n"), 64)
		limit := -1
		if len(args) > 0 {
			limit, _ = strconv.Atoi(args[0])
		}
		for n := 0; n != limit; n++ {
			if _, err := os.Stdout.Write(block); err != nil {
				return 1
			}
		}
		fmt.Println("flood is over")
		return 3
	},
	// flash publishes <file>.started, prints progress, prints much and publishes <file>.printed when <file>.loud is there, waits for <file>.go and publishes <file>.done.
	"flash": func(args []string) int {
		file := args[0]
		publish(file+".started", strconv.Itoa(os.Getpid()))
		fmt.Print("1%\r2%\r")
		for end := time.Now().Add(2 * time.Minute); !exists(file + ".go"); {
			if !exists(filepath.Dir(file)) || time.Now().After(end) {
				return 1 // the test that would let it go on was cut off
			}
			if exists(file+".loud") && !exists(file+".printed") {
				_, _ = os.Stdout.Write(bytes.Repeat([]byte("0123456789abcde\n"), loud/16))
				publish(file+".printed", "")
			}
			time.Sleep(5 * time.Millisecond) // sleeps: plays a tool that takes its time
		}
		// A tool writes to its outputs whatever became of who started it.
		if _, err := fmt.Println("burned"); err != nil {
			return 1
		}
		fmt.Fprintln(os.Stderr, "warning")
		publish(file+".done", "")
		return 7
	},
	// daemon is a process that runs flash through an ExecRunner: args are the runner's path, state and the file.
	"daemon": func(args []string) int {
		r, err := command.NewExecRunner(command.Config{Path: []string{args[0]}, StateDir: args[1]})
		if err != nil {
			return 1
		}
		_, _ = r.Run(context.Background(), command.Command{Argv: []string{"flash", args[2]}, Kind: command.Write, Lock: "card"})
		return 0
	},
	"die": func([]string) int { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL); select {} },
	// talk prints a line every 100 ms, as often as it is told.
	"talk": func(args []string) int {
		n, _ := strconv.Atoi(args[0])
		for i := range n {
			fmt.Println("line", i)
			time.Sleep(100 * time.Millisecond) // sleeps: plays a tool that takes its time
		}
		return 0
	},
	"worker":        playWorker,
	"worker-daemon": playDaemonWithWorker,
	"promise":       playPromise,
	"read-image":    playReadImage,
	"image-daemon":  playDaemonWithImage,
	"broken-promise": func([]string) int {
		fmt.Fprintln(os.Stderr, "Failed to connect to bus")
		return 1
	},
}

// loud is how many bytes flash prints where it prints much.
const loud = 32 << 20

type started struct {
	Argv, Env           []string
	Stdin, Dir          string
	PID, Group, Session int
}

func TestMain(m *testing.M) {
	if tool, ok := tools[filepath.Base(os.Args[0])]; ok {
		os.Exit(tool(os.Args[1:]))
	}
	if simhost.IsTool(os.Args[0]) {
		os.Exit(simhost.RunTool(os.Args, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// publish writes a file so that whoever sees it sees its content.
func publish(path, content string) {
	_ = os.WriteFile(path+".tmp", []byte(content), 0o600)
	_ = os.Rename(path+".tmp", path)
}

func exists(path string) bool { _, err := os.Stat(path); return err == nil }

// machine is a tool directory, a state directory and a place for the tools' files.
type machine struct{ bin, state, files string }

func newMachine(t *testing.T) machine {
	t.Helper()
	dir := t.TempDir()
	m := machine{filepath.Join(dir, "bin"), filepath.Join(dir, "state"), filepath.Join(dir, "files")}
	for _, d := range []string{m.bin, m.files} {
		require.NoError(t, os.Mkdir(d, 0o700))
	}
	self, err := os.Executable()
	require.NoError(t, err)
	for name := range tools {
		require.NoError(t, os.Symlink(self, filepath.Join(m.bin, name)))
	}
	return m
}

func (m machine) runner(t *testing.T, change ...func(*command.Config)) *command.ExecRunner {
	t.Helper()
	cfg := command.Config{Path: []string{filepath.Join(m.bin, "missing"), m.bin}, StateDir: m.state}
	for _, f := range change {
		f(&cfg)
	}
	r, err := command.NewExecRunner(cfg)
	require.NoError(t, err)
	return r
}

func (m machine) file(name string) string { return filepath.Join(m.files, name) }

const patience, tick = time.Minute, 5 * time.Millisecond

func gone(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	// A process whose parent is not us may stay a zombie of init for a moment; it runs no more.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	return fields[0] == "Z" && fields[1] != strconv.Itoa(os.Getpid())
}

func requireGone(t *testing.T, pids ...int) {
	t.Helper()
	for _, pid := range pids {
		require.Eventually(t, func() bool { return gone(pid) }, patience, tick, "process %d still exists", pid)
	}
}

func pidsIn(t *testing.T, path string) []int {
	t.Helper()
	require.Eventually(t, func() bool { return exists(path) }, patience, tick, "%s was never written", path)
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	var pids []int
	for _, f := range strings.Fields(string(data)) {
		pid, err := strconv.Atoi(f)
		require.NoError(t, err)
		pids = append(pids, pid)
	}
	return pids
}

func TestConfigurationIsChecked(t *testing.T) {
	for name, cfg := range map[string]command.Config{
		"no path":         {},
		"relative path":   {Path: []string{"bin"}},
		"empty directory": {Path: []string{"/bin", ""}},
		"relative state":  {Path: []string{"/bin"}, StateDir: "state"},
		"negative bound":  {Path: []string{"/bin"}, MaxOutput: -1},
	} {
		_, err := command.NewExecRunner(cfg)
		assert.ErrorContains(t, err, "configure commands: ", name)
	}
}

func TestToolsGetCleanEnvironment(t *testing.T) {
	t.Setenv("LD_PRELOAD_LIKE", "secret")
	m := newMachine(t)
	for _, kind := range []command.Kind{command.Query, command.Write} {
		got, err := m.runner(t).Run(t.Context(), command.Command{
			Argv: []string{"describe", "-d", "a b;$(c)"}, Env: []string{"OF=the command"}, Kind: kind, Lock: "x",
		})
		require.NoError(t, err)
		var s started
		require.NoError(t, json.Unmarshal(got.Stdout, &s))
		assert.Equal(t, []string{filepath.Join(m.bin, "describe"), "-d", "a b;$(c)"}, s.Argv, "argv[0] is absolute and no shell is involved")
		assert.Equal(t, []string{"PATH=" + filepath.Join(m.bin, "missing") + ":" + m.bin, "LC_ALL=C", "HOME=/", "OF=the command"}, s.Env)
		assert.Equal(t, "/dev/null", s.Stdin)
		assert.Equal(t, "/", s.Dir)
		assert.Equal(t, s.PID, s.Group, "a group of its own")
		if kind == command.Write {
			assert.Equal(t, s.PID, s.Session, "a session of its own")
		}
	}
}

func TestEveryExitCodeIsAResult(t *testing.T) {
	r := newMachine(t).runner(t)
	for _, kind := range []command.Kind{command.Query, command.Write} {
		for _, code := range []int{0, 1, 7, 255} {
			got, err := r.Run(t.Context(), command.Command{Argv: []string{"answer", strconv.Itoa(code), "out", "err"}, Kind: kind, Lock: "x"})
			require.NoError(t, err)
			assert.Equal(t, command.Result{ExitCode: code, Stdout: []byte("out"), Stderr: []byte("err")}, got)
		}
		_, err := r.Run(t.Context(), command.Command{Argv: []string{"die"}, Kind: kind, Lock: "x"})
		assert.ErrorContains(t, err, "ended by signal killed", "a signal is not a result")
	}
}

func TestUnusableCommandsAreRefused(t *testing.T) {
	m := newMachine(t)
	require.NoError(t, os.WriteFile(filepath.Join(m.bin, "not-executable"), nil, 0o600))
	require.NoError(t, os.Mkdir(filepath.Join(m.bin, "directory"), 0o700))
	r := m.runner(t)
	for _, name := range []string{"missing-tool", "not-executable", "directory"} {
		_, err := r.Run(t.Context(), command.Command{Argv: []string{name}})
		require.ErrorIs(t, err, command.ErrNotFound, name)
		assert.ErrorContains(t, err, m.bin, "the message says where it was looked for")
	}
	for _, argv := range [][]string{nil, {""}, {".."}, {"/bin/sh"}, {"../bin/describe"}, {"describe\x00"}} {
		_, err := r.Run(t.Context(), command.Command{Argv: argv})
		var failure *command.Error
		require.ErrorAs(t, err, &failure, "%q", argv)
		assert.NotErrorIs(t, err, command.ErrNotFound)
	}
	_, err := r.Run(t.Context(), command.Command{Argv: []string{"describe"}, Kind: command.Write})
	require.ErrorContains(t, err, "lock")
	stateless := m.runner(t, func(c *command.Config) { c.StateDir = "" })
	_, err = stateless.Run(t.Context(), command.Command{Argv: []string{"describe"}, Kind: command.Write, Lock: "x"})
	require.ErrorContains(t, err, "state directory")
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for _, kind := range []command.Kind{command.Query, command.Write} {
		_, err = r.Run(over, command.Command{Argv: []string{"flash", m.file("f")}, Kind: kind, Lock: "x"})
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, command.ErrStillRunning)
	}
	assert.False(t, exists(m.file("f.started")), "nothing starts under a context that is over")
}

func TestAQueryIsKilledWithItsGroupAtItsDeadline(t *testing.T) {
	m := newMachine(t)
	for limit := 300 * time.Millisecond; !exists(m.file("pids")); limit *= 2 { // a busy machine does not start the tool in that time
		_, err := m.runner(t).Run(t.Context(), command.Command{Argv: []string{"hang", m.file("pids")}, Timeout: limit})
		require.ErrorIs(t, err, command.ErrTimeout)
	}
	requireGone(t, pidsIn(t, m.file("pids"))...)
}

func TestAQueryIsKilledWithItsGroupWhenTheContextEnds(t *testing.T) {
	m := newMachine(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	reason := errors.New("shutting down")
	ended := make(chan error)
	go func() {
		_, err := m.runner(t).Run(ctx, command.Command{Argv: []string{"hang", m.file("pids")}})
		ended <- err
	}()
	pids := pidsIn(t, m.file("pids"))
	cancel(reason)
	require.ErrorIs(t, <-ended, reason)
	requireGone(t, pids...)

	deadline, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer stop()
	_, err := m.runner(t).Run(deadline, command.Command{Argv: []string{"sleep-forever"}})
	require.ErrorIs(t, err, command.ErrTimeout, "the caller's deadline is a deadline too")
}

func TestQueryDoesNotAwaitOrphans(t *testing.T) {
	m := newMachine(t)
	got, err := m.runner(t).Run(t.Context(), command.Command{Argv: []string{"leave-child", m.file("pids")}})
	require.NoError(t, err)
	assert.Equal(t, "parent is done\n", string(got.Stdout))
	requireGone(t, pidsIn(t, m.file("pids"))...)
}

func TestKillsQueryPrintingTooMuch(t *testing.T) {
	r := newMachine(t).runner(t, func(c *command.Config) { c.MaxOutput = 10 << 10 })
	_, err := r.Run(t.Context(), command.Command{Argv: []string{"flood"}})
	require.ErrorIs(t, err, command.ErrOutput)
	var failure *command.Error
	require.ErrorAs(t, err, &failure)
	assert.LessOrEqual(t, len(failure.Stderr), 512)

	got, err := r.Run(t.Context(), command.Command{Argv: []string{"flood", "9"}})
	require.NoError(t, err, "output up to the bound is a result")
	assert.Len(t, got.Stdout, 9<<10+len("flood is over\n"))
}

func TestAWriteThatPrintsTooMuchKeepsItsOutcomeAndLeavesTheDisk(t *testing.T) {
	m := newMachine(t)
	r := m.runner(t, func(c *command.Config) { c.MaxOutput = 10 << 10 })
	got, err := r.Run(t.Context(), command.Command{Argv: []string{"flood", "4096"}, Kind: command.Write, Lock: "x"})
	require.NoError(t, err, "a write is judged by its end, not by its length")
	assert.Equal(t, 3, got.ExitCode)
	assert.Len(t, got.Stdout, 10<<10)
	assert.True(t, strings.HasSuffix(string(got.Stdout), "flood is over\n"))
	outputs, err := filepath.Glob(filepath.Join(m.state, "run", "*.out"))
	require.NoError(t, err)
	require.Len(t, outputs, 1)
	var stat unix.Stat_t
	require.NoError(t, unix.Stat(outputs[0], &stat))
	assert.LessOrEqual(t, stat.Blocks*512, int64(2*10<<10)+4096)
}

// recorder collects progress.
type recorder struct {
	mu    sync.Mutex
	lines []string
}

func (r *recorder) add(line string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, line)
}

func (r *recorder) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string{}, r.lines...)
}

func TestWriteShowsProgress(t *testing.T) {
	m := newMachine(t)
	r, progress, ended := m.runner(t), &recorder{}, make(chan command.Result)
	go func() {
		got, err := r.Run(t.Context(), command.Command{
			Argv: []string{"flash", m.file("f")}, Kind: command.Write, Lock: "card", Progress: progress.add,
		})
		assert.NoError(t, err)
		ended <- got
	}()
	require.Eventually(t, func() bool { return len(progress.all()) == 2 }, patience, tick)
	publish(m.file("f.go"), "")
	got := <-ended
	assert.Equal(t, []string{"1%", "2%", "burned"}, progress.all())
	assert.Equal(t, command.Result{ExitCode: 7, Stdout: []byte("1%\r2%\rburned\n"), Stderr: []byte("warning\n")}, got)

	progress = &recorder{}
	_, err := r.Run(t.Context(), command.Command{Argv: []string{"answer", "0", "a\n\nb\b\b\bc", "no"}, Progress: progress.add})
	require.NoError(t, err)
	assert.Equal(t, []string{"a", "b", "c"}, progress.all(), "a query reports too, its unfinished last line included")
}

func TestAWriteOutlivesContextAndDeadlineAndIsReaped(t *testing.T) {
	for name, run := range map[string]func(t *testing.T, r *command.ExecRunner, c command.Command, started func()) error{
		"context": func(t *testing.T, r *command.ExecRunner, c command.Command, started func()) error {
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				defer cancel()
				started()
			}()
			_, err := r.Run(ctx, c)
			require.ErrorIs(t, err, context.Canceled)
			return err
		},
		"deadline": func(t *testing.T, r *command.ExecRunner, c command.Command, _ func()) error {
			c.Timeout = 50 * time.Millisecond
			_, err := r.Run(t.Context(), c)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			r, progress := m.runner(t), &recorder{}
			flash := command.Command{Argv: []string{"flash", m.file("f")}, Kind: command.Write, Lock: "card", Progress: progress.add}
			err := run(t, r, flash, func() { pidsIn(t, m.file("f.started")) })
			require.ErrorIs(t, err, command.ErrStillRunning)
			reported := progress.all()

			pids := pidsIn(t, m.file("f.started"))
			_, err = r.Run(t.Context(), flash)
			require.ErrorIs(t, err, command.ErrBusy)
			assert.ErrorContains(t, err, strconv.Itoa(pids[0]), "the message names the process")
			other, err := r.WriteRunning("other card")
			require.NoError(t, err)
			assert.False(t, other)
			running, err := r.WriteRunning("card")
			require.NoError(t, err)
			assert.True(t, running)

			publish(m.file("f.go"), "")
			requireFree(t, r, "card")
			assert.True(t, exists(m.file("f.done")), "it ended by itself")
			requireGone(t, pids...)
			assert.Equal(t, reported, progress.all(), "nobody is told any more")
		})
	}
}

// requireFree waits for the write under the lock to end.
func requireFree(t *testing.T, r *command.ExecRunner, lock string) {
	t.Helper()
	require.Eventually(t, func() bool {
		running, err := r.WriteRunning(lock)
		return err == nil && !running
	}, patience, tick)
}

// A process that was forked during a write has the lock open until it runs its own program, which takes long on a busy machine.
func TestTheLockOfAnEndedWriteIsWaitedFor(t *testing.T) {
	m := newMachine(t)
	r, c := m.runner(t), command.Command{Argv: []string{"flash", m.file("f")}, Kind: command.Write, Lock: "card"}
	publish(m.file("f.go"), "")
	_, err := r.Run(t.Context(), c)
	require.NoError(t, err)
	locks, err := filepath.Glob(filepath.Join(m.state, "run", "*.lock"))
	require.NoError(t, err)
	require.Len(t, locks, 1)
	held, err := os.Open(locks[0])
	require.NoError(t, err)
	require.NoError(t, syscall.Flock(int(held.Fd()), syscall.LOCK_SH))
	time.AfterFunc(500*time.Millisecond, func() { assert.NoError(t, held.Close()) }) // longer than a write that runs is waited for
	_, err = r.Run(t.Context(), c)
	require.NoError(t, err)
}

// R002: process death never kills a write, and a later process knows that it still runs.
func TestAWriteOutlivesTheKilledProcessThatStartedIt(t *testing.T) {
	m := newMachine(t)
	daemon := exec.Command(filepath.Join(m.bin, "daemon"), m.bin, m.state, m.file("f"))
	require.NoError(t, daemon.Start())
	pids := pidsIn(t, m.file("f.started"))
	require.NoError(t, daemon.Process.Kill())
	_ = daemon.Wait()

	next := m.runner(t)
	running, err := next.WriteRunning("card")
	require.NoError(t, err)
	assert.True(t, running)
	_, err = next.Run(t.Context(), command.Command{Argv: []string{"flash", m.file("second")}, Kind: command.Write, Lock: "card"})
	require.ErrorIs(t, err, command.ErrBusy)
	assert.False(t, exists(m.file("second.started")))

	publish(m.file("f.go"), "")
	requireFree(t, next, "card")
	assert.True(t, exists(m.file("f.done")), "the orphan went on, printed and ended")
	requireGone(t, pids...)
	publish(m.file("second.go"), "")
	_, err = next.Run(t.Context(), command.Command{Argv: []string{"flash", m.file("second")}, Kind: command.Write, Lock: "card"})
	require.NoError(t, err)
}

func TestWritesDevicesInParallel(t *testing.T) {
	m := newMachine(t)
	r := m.runner(t)
	var group sync.WaitGroup
	for _, card := range []string{"a", "b"} {
		group.Go(func() {
			_, err := r.Run(t.Context(), command.Command{Argv: []string{"flash", m.file(card)}, Kind: command.Write, Lock: card})
			assert.NoError(t, err)
		})
	}
	for _, card := range []string{"a", "b"} {
		pidsIn(t, m.file(card+".started"))
	}
	for _, card := range []string{"a", "b"} {
		publish(m.file(card+".go"), "")
	}
	group.Wait()
}
