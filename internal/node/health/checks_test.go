package health_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/node/health"
	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/command/commandtest"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

const requiredD, wantedD = "etc/node-firmware/check/required.d", "etc/node-firmware/check/wanted.d"

// owned is an entry of a host's file system that belongs to a user.
func owned(uid uint32, mode fs.FileMode) *fstest.MapFile {
	return &fstest.MapFile{Mode: mode, Sys: &syscall.Stat_t{Uid: uid}}
}

// checkFS has both directories and the executables in them.
func checkFS(executables ...string) fstest.MapFS {
	out := fstest.MapFS{}
	for _, dir := range []string{"etc/node-firmware", "etc/node-firmware/check", requiredD, wantedD} {
		out[dir] = owned(0, fs.ModeDir|0o755)
	}
	for _, name := range executables {
		out["etc/node-firmware/check/"+name] = owned(0, 0o755)
	}
	return out
}

// answers plays nsenter: what each executable answers by its name; those without an answer pass.
type answers map[string]commandtest.Tool

func (a answers) runner(t *testing.T) *commandtest.Runner {
	return commandtest.NewRunner(t, map[string]commandtest.Tool{"nsenter": func(ctx context.Context, c command.Command) (command.Result, error) {
		if answer, ok := a[path.Base(c.Argv[len(c.Argv)-1])]; ok {
			return answer(ctx, c)
		}
		return command.Result{}, nil
	}})
}

func check(t *testing.T, c *health.Checks, h host) ([]string, error) {
	t.Helper()
	got, err := health.Checker{Scanner: h, Node: h, Checks: c}.Check(t.Context(), health.Baseline{}, nil)
	var messages []string
	for _, complaint := range got {
		assert.Empty(t, complaint.UniqueID)
		messages = append(messages, complaint.Message)
	}
	return messages, err
}

// TestChecksDecideInNameOrder proves R002-14.
func TestChecksDecideInNameOrder(t *testing.T) {
	r := answers{
		"10-raid":    commandtest.Exits(3, "md0: degraded\n", ""),
		"20-time.sh": commandtest.Exits(1, "chatter\n", "first\n\x1b[31mno peer\x1b[0m \n\n"),
		"30-mute":    commandtest.Exits(255, "", ""),
	}.runner(t)
	c := &health.Checks{
		FS: checkFS("required.d/30-mute", "required.d/10-raid", "required.d/20-time.sh", "required.d/40-good"), Runner: r,
		Launch: health.Namespaced(), Timeout: 7 * time.Second,
	}
	got, err := check(t, c, host{})
	require.NoError(t, err)
	assert.Equal(t, []string{
		"check required.d/10-raid failed (exit code 3): md0: degraded",
		"check required.d/20-time.sh failed (exit code 1): [31mno peer [0m",
		"check required.d/30-mute failed (exit code 255)",
	}, got)
	calls := r.Calls()
	require.Len(t, calls, 4)
	assert.Equal(t, "nsenter --target 1 --mount --uts --ipc --net --pid -- /etc/node-firmware/check/required.d/10-raid", calls[0].String())
	assert.Equal(t, command.Query, calls[0].Kind)
	assert.Equal(t, 7*time.Second, calls[0].Timeout)
}

// TestSilenceOfACheckIsNoSuccess proves R002-17.
func TestSilenceOfACheckIsNoSuccess(t *testing.T) {
	fails := func(cause error) commandtest.Tool {
		return func(_ context.Context, c command.Command) (command.Result, error) {
			return command.Result{}, &command.Error{Argv: c.Argv, ExitCode: -1, Stderr: "last words\n", Err: cause}
		}
	}
	for want, cause := range map[string]error{
		"check required.d/a did not end within 1m0s":                     fmt.Errorf("%w: late", command.ErrTimeout),
		"check required.d/a failed (too much output): last words":        command.ErrOutput,
		"check required.d/a failed (ended by signal killed): last words": errors.New("ended by signal killed"),
	} {
		c := &health.Checks{FS: checkFS("required.d/a"), Runner: answers{"a": fails(cause)}.runner(t), Launch: health.Namespaced()}
		got, err := check(t, c, host{})
		require.NoError(t, err)
		assert.Equal(t, []string{want}, got)
	}
	c := &health.Checks{FS: checkFS("required.d/a"), Runner: answers{"a": fails(command.ErrNotFound)}.runner(t), Launch: health.Namespaced()}
	_, err := check(t, c, host{})
	require.ErrorIs(t, err, command.ErrNotFound, "without nsenter nobody knows")
}

// TestWantedChecksAdviseOncePerTransitionAndNeverDecide proves R002-14.
func TestWantedChecksAdviseOncePerTransitionAndNeverDecide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said []string
		var failing bool
		files := checkFS("required.d/a", "wanted.d/10-fan", "wanted.d/20-good")
		broken := answers{"10-fan": commandtest.Exits(1, "", "fan 3 is slow\n")}
		c := &health.Checks{FS: files, Runner: broken.runner(t), Launch: health.Namespaced(), Advise: func(a health.Advice) {
			said, failing = append(said, a.Message), a.Failing
		}}
		healthy := func() {
			got, err := check(t, c, host{})
			require.NoError(t, err)
			assert.Empty(t, got)
		}
		healthy()
		healthy()
		assert.Equal(t, []string{"check wanted.d/10-fan failed (exit code 1): fan 3 is slow; the check is advisory and nothing is done about it"}, said)
		assert.True(t, failing)
		delete(broken, "10-fan")
		healthy()
		healthy()
		assert.False(t, failing)
		require.Len(t, said, 2)
		assert.Equal(t, "check wanted.d/10-fan passes again", said[1])
		files[wantedD+"/30-foreign"] = owned(1000, 0o755)
		healthy()
		require.Len(t, said, 3)
		assert.Contains(t, said[2], "chown root")
		files[wantedD] = owned(0, fs.ModeDir|0o777)
		healthy()
		c.Advise = nil
		files[wantedD] = owned(0, 0o644)
		healthy()
	})
}

func TestChecksWaitForWhatIsBuiltIn(t *testing.T) {
	c := &health.Checks{FS: checkFS("required.d/a"), Runner: answers{}.runner(t), Launch: health.Namespaced()}
	got, err := check(t, c, host{notReady: "booting"})
	require.NoError(t, err)
	assert.Equal(t, []string{"the node is not Ready: booting"}, got)
	assert.Empty(t, c.Runner.(*commandtest.Runner).Calls(), "a node that boots is not asked")
}

func TestRestsBetweenFailedRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := answers{"a": commandtest.Exits(1, "", "")}
		r := broken.runner(t)
		c := &health.Checks{FS: checkFS("required.d/a"), Runner: r, Launch: health.Namespaced()}
		ask := func(targets ...health.Target) []health.Complaint {
			h := host{devices: []inventory.Device{nic(inventory.LinkUp, "2")}}
			got, err := health.Checker{Scanner: h, Checks: c}.Check(t.Context(), health.Baseline{}, targets)
			require.NoError(t, err)
			return got
		}
		for range 20 {
			require.Len(t, ask(), 1)
			<-time.After(2 * time.Second)
		}
		assert.Len(t, r.Calls(), 2, "at 0 s and 30 s")
		ask(health.Target{Device: "n", UniqueID: "nic", Version: "2"})
		assert.Len(t, r.Calls(), 3, "another question is asked at once")
		delete(broken, "a")
		require.Len(t, ask(health.Target{Device: "n", UniqueID: "nic", Version: "2"}), 1)
		<-time.After(30 * time.Second)
		assert.Empty(t, ask())
		assert.Empty(t, ask())
		assert.Len(t, r.Calls(), 5, "a success is never taken for the next one")
		broken["a"] = commandtest.Exits(1, "", "")
		c.Rest = time.Second
		for range 3 {
			require.Len(t, ask(), 1)
			<-time.After(2 * time.Second)
		}
		assert.Len(t, r.Calls(), 8)
	})
}

func TestIgnoresInterruptedCheck(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r := answers{"a": func(_ context.Context, c command.Command) (command.Result, error) {
		cancel()
		return command.Result{}, &command.Error{Argv: c.Argv, ExitCode: -1, Err: context.Canceled}
	}}.runner(t)
	c := &health.Checks{FS: checkFS("required.d/a"), Runner: r, Launch: health.Namespaced()}
	_, err := health.Checker{Scanner: host{}, Checks: c}.Check(ctx, health.Baseline{}, nil)
	require.ErrorIs(t, err, context.Canceled)
	_, err = check(t, c, host{})
	require.NoError(t, err)
	assert.Len(t, r.Calls(), 2, "and is asked again by whoever asks next")
}

func TestRunsOnlyChecks(t *testing.T) {
	files := checkFS("required.d/10-a", "required.d/b_2.sh", "required.d/C.py", "required.d/.hidden", "required.d/10-a~",
		"required.d/10-a.rpmsave", "required.d/b_2.sh.dpkg-old", "required.d/c.swp")
	files[requiredD+"/off"] = owned(0, 0o644)
	files[requiredD+"/README.md"] = owned(1000, 0o644)
	files[requiredD+"/lib/inner"] = owned(0, 0o755)
	r := answers{}.runner(t)
	got, err := check(t, &health.Checks{FS: files, Runner: r, Launch: health.Namespaced()}, host{})
	require.NoError(t, err)
	assert.Empty(t, got)
	var ran []string
	for _, call := range r.Calls() {
		ran = append(ran, path.Base(call.Argv[len(call.Argv)-1]))
	}
	assert.Equal(t, []string{"10-a", "C.py", "b_2.sh"}, ran)
}

func TestUntrustedChecksFailClosedAndAreNotRun(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(fstest.MapFS)
		want  string
	}{
		"another user's":        {func(f fstest.MapFS) { f[requiredD+"/a"] = owned(1000, 0o755) }, "belongs to user 1000; review it, then chown root /" + requiredD + "/a"},
		"writable by its group": {func(f fstest.MapFS) { f[requiredD+"/a"] = owned(0, 0o775) }, "chmod go-w /" + requiredD + "/a"},
		"writable by others":    {func(f fstest.MapFS) { f[requiredD+"/a"] = owned(0, 0o757) }, "chmod go-w /" + requiredD + "/a"},
		"of nobody":             {func(f fstest.MapFS) { f[requiredD+"/a"] = &fstest.MapFile{Mode: 0o755} }, "owner of /" + requiredD + "/a is not known"},
		"a symbolic link":       {func(f fstest.MapFS) { f[requiredD+"/a"] = owned(0, fs.ModeSymlink|0o777) }, "put the file itself there"},
		"an odd name": {func(f fstest.MapFS) {
			delete(f, requiredD+"/a")
			f[requiredD+"/a.bash"] = owned(0, 0o755)
		}, "rename it, or remove its executable bit"},
		"a directory for all":        {func(f fstest.MapFS) { f[requiredD] = owned(0, fs.ModeDir|0o777) }, "chmod go-w /" + requiredD},
		"a parent of another user":   {func(f fstest.MapFS) { f["etc/node-firmware"] = owned(7, fs.ModeDir|0o755) }, "chown root /etc/node-firmware"},
		"a directory that is a link": {func(f fstest.MapFS) { f[requiredD] = owned(0, fs.ModeSymlink|0o777) }, "not a directory; replace it with one"},
	} {
		t.Run(name, func(t *testing.T) {
			files := checkFS("required.d/a")
			c.spoil(files)
			r := answers{}.runner(t)
			got, err := check(t, &health.Checks{FS: files, Runner: r, Launch: health.Namespaced()}, host{})
			require.NoError(t, err)
			require.Len(t, got, 1)
			assert.Contains(t, got[0], c.want)
			assert.Contains(t, got[0], "is not run: ")
			assert.Empty(t, r.Calls())
		})
	}
}

// unreadable is a file system that fails to list one directory.
type unreadable struct {
	fstest.MapFS
	dir string
}

func (u unreadable) ReadDir(name string) ([]fs.DirEntry, error) {
	if name == u.dir {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: syscall.EIO}
	}
	return u.MapFS.ReadDir(name)
}

func TestDirectoryOfChecksThatIsMissingOrCannotBeRead(t *testing.T) {
	got, err := check(t, &health.Checks{FS: fstest.MapFS{}, Runner: answers{}.runner(t)}, host{})
	require.NoError(t, err)
	assert.Empty(t, got, "no directory holds no checks")
	c := &health.Checks{FS: unreadable{checkFS("required.d/a"), requiredD}, Runner: answers{}.runner(t)}
	_, err = check(t, c, host{})
	require.ErrorIs(t, err, syscall.EIO, "nobody knows what would have to pass")
	c = &health.Checks{FS: unreadable{checkFS("required.d/a"), wantedD}, Runner: answers{}.runner(t), Launch: health.Namespaced()}
	got, err = check(t, c, host{})
	require.NoError(t, err)
	assert.Empty(t, got, "advice that cannot be had decides nothing")
}

func TestRealExecutablesRunInACleanEnvironmentAndAreKilledInTime(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, requiredD)
	require.NoError(t, os.MkdirAll(dir, 0o755))
	write := func(name, body string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+body), 0o755)) //nolint:gosec // an executable
	}
	t.Setenv("SECRET", "of the daemon")
	write("10-env", `[ -z "$SECRET" ] && [ "$LC_ALL" = C ]`)
	write("20-fails", "echo one; echo two >&2; exit 4")
	write("30-hangs", "exec sleep 600")
	write("40-floods", "while :; do echo flood; done")
	runner, err := command.NewExecRunner(command.Config{Path: []string{"/usr/bin", "/bin"}, MaxOutput: 64 << 10})
	require.NoError(t, err)
	// The runner starts the executables of this directory instead of those of this machine.
	c := &health.Checks{FS: os.DirFS(root), Runner: below{runner, root}, Launch: health.Direct(), Timeout: 500 * time.Millisecond}
	got, err := check(t, c, host{})
	require.NoError(t, err)
	require.Len(t, got, 3)
	assert.Equal(t, "check required.d/20-fails failed (exit code 4): two", got[0])
	assert.Equal(t, "check required.d/30-hangs did not end within 500ms", got[1])
	assert.Contains(t, got[2], "check required.d/40-floods")
}

// TestChecksThatFailBeforeTheUpdateAreKnown proves R002-12.
func TestChecksThatFailBeforeTheUpdateAreKnown(t *testing.T) {
	broken := answers{"a": commandtest.Exits(1, "md0: degraded", "")}
	files := checkFS("required.d/a", "required.d/b", "wanted.d/c")
	r := broken.runner(t)
	c := health.Checker{Checks: &health.Checks{FS: files, Runner: r, Launch: health.Namespaced()}}
	for range 2 {
		got, err := c.Before(t.Context())
		require.NoError(t, err)
		assert.Equal(t, []health.Complaint{{
			Message: "check required.d/a failed (exit code 1): md0: degraded", Subject: step.Subject{Kind: step.CheckSubject, Name: "a"},
		}}, got)
	}
	assert.Len(t, r.Calls(), 4, "each time again, and without the advisory ones")
	delete(broken, "a")
	got, err := c.Before(t.Context())
	require.NoError(t, err)
	assert.Empty(t, got)
	files[requiredD+"/b"] = owned(1000, 0o755)
	got, err = c.Before(t.Context())
	require.NoError(t, err)
	require.Len(t, got, 1, "what will be refused afterwards is known before")
	got, err = health.Checker{}.Before(t.Context())
	require.NoError(t, err)
	assert.Empty(t, got)
}

func TestProgramOnTheHostItselfNeedsNoNamespaces(t *testing.T) {
	assert.Equal(t, health.Direct(), health.Launch("/"))
	assert.Equal(t, health.Direct(), health.Launch("//."))
	assert.Equal(t, health.Namespaced(), health.Launch("/host"))
}

// below runs commands with their paths below a directory.
type below struct {
	command.Runner
	root string
}

func (b below) Run(ctx context.Context, c command.Command) (command.Result, error) {
	last := len(c.Argv) - 1
	if !strings.HasPrefix(c.Argv[last], "/etc/") {
		return command.Result{}, fmt.Errorf("run %s: no path of a check", c)
	}
	c.Argv[last] = b.root + c.Argv[last]
	return b.Runner.Run(ctx, c)
}
