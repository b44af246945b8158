package daemon

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/config"
	"github.com/nodefirmware/node-firmware-operator/internal/node/guard"
	"github.com/nodefirmware/node-firmware-operator/internal/node/health"
	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/internal/node/state"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/simhost"
	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/nvme"
)

// guarded is a machine with a static pod of a guard that nobody installed, as it is left by a daemon that lost its state.
func guarded(t *testing.T) (w *watchman, manifest string) {
	t.Helper()
	root := filepath.Join(t.TempDir(), "n1")
	_, err := simhost.Create(root, simhost.DefaultSpec("n1", 1))
	require.NoError(t, err)
	manifest = filepath.Join(root, "etc/kubernetes/manifests", guard.ManifestFile)
	for path, content := range map[string]string{
		simhost.KubeletConfig: "staticPodPath: /etc/kubernetes/manifests\n",
		simhost.KubeletKubeconfig: "apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts: [{name: a, context: {cluster: a}}]\n" +
			"clusters: [{name: a, cluster: {server: \"https://127.0.0.1:1\"}}]\n",
		"/etc/kubernetes/manifests/" + guard.ManifestFile: "kind: Pod\n",
	} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(root, path)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(root, path), []byte(content), 0o600))
	}
	m := config.Machine{HostRoot: root, StateDir: filepath.Join(root, "var/lib/node-firmware")}
	w, err = newWatchman(Options{Config: config.Daemon{Machine: m}, Log: slog.New(slog.DiscardHandler)}, "https://127.0.0.1:1")
	require.NoError(t, err)
	return w, manifest
}

func TestGuardWithoutAJobRemovesWhatItIsStartedFrom(t *testing.T) {
	w, manifest := guarded(t)
	require.NoError(t, w.round(t.Context()))
	assert.NoFileExists(t, manifest)
}

func TestGuardLeavesItsRemovalToADaemonThatRuns(t *testing.T) {
	w, manifest := guarded(t)
	daemon, err := state.Open(w.options.Config.StateDir, state.Options{Daemon: "v0.1.0"})
	require.NoError(t, err)
	require.NoError(t, w.round(t.Context()))
	assert.FileExists(t, manifest)
	require.NoError(t, daemon.Close())
	require.NoError(t, w.round(t.Context()))
	assert.NoFileExists(t, manifest)
}

// A guard waits while a daemon has the state directory open, while the API server answers, and until it has been alone for long
// enough; it keeps the static pod meanwhile.
func TestGuardStaysOutOfTheWay(t *testing.T) {
	w, manifest := guarded(t)
	daemon, err := state.Open(w.options.Config.StateDir, state.Options{Daemon: "v0.1.0"})
	require.NoError(t, err)
	require.NoError(t, daemon.Journal.Save(journal.Job{Name: "j", UID: "u"}))
	require.NoError(t, os.MkdirAll(filepath.Join(w.options.Config.StateDir, guard.Dir), 0o700))
	require.NoError(t, w.round(t.Context()))
	assert.True(t, w.free.IsZero(), "a daemon is at work")
	alive, err := w.host.Alive()
	require.NoError(t, err)
	assert.True(t, alive)

	require.NoError(t, daemon.Close())
	answers := httptest.NewTLSServer(http.NotFoundHandler())
	silent := w.server
	w.server = newServer(answers.URL)
	require.NoError(t, w.round(t.Context()))
	assert.True(t, w.free.IsZero(), "the kubelet starts the daemon")
	answers.Close()
	w.server = silent
	require.NoError(t, w.round(t.Context()))
	assert.False(t, w.free.IsZero(), "it is alone from now on")
	assert.WithinDuration(t, time.Now(), w.free, time.Minute)
	assert.FileExists(t, manifest)
	w.release()
}

// A slow API server that does not answer a guard in time says nothing about whether a daemon is there: its claim does. Exactly one of
// the two works, whichever looks first.
func TestGuardLeavesTheJobToADaemonThatClaimsIt(t *testing.T) {
	w, _ := guarded(t)
	dir := w.options.Config.StateDir
	before, err := state.Open(dir, state.Options{Daemon: "v0.1.0"})
	require.NoError(t, err)
	require.NoError(t, before.Journal.Save(journal.Job{Name: "j", UID: "u"}))
	require.NoError(t, before.Close())
	require.NoError(t, os.MkdirAll(filepath.Join(dir, guard.Dir), 0o700))
	defer w.release()
	assert.False(t, w.relieved(t.Context()), "nobody is there and the API server is silent")

	guardWorks, err := openState(w.options, 0)
	require.NoError(t, err)
	came := make(chan error, 1)
	go func() {
		host, err := takeState(w.options)
		if err == nil {
			err = host.Close()
		}
		came <- err
	}()
	require.Eventually(t, func() bool { return w.relieved(t.Context()) }, time.Minute, time.Millisecond, "the daemon that waits for the guard says so")
	require.NoError(t, guardWorks.Close())
	require.NoError(t, <-came)

	host, err := takeState(w.options)
	require.NoError(t, err)
	w.free = time.Now().Add(-time.Hour)
	require.NoError(t, w.round(t.Context()))
	assert.True(t, w.free.IsZero(), "it begins its patience anew")
	require.NoError(t, host.State.Close())
	w.free = time.Now().Add(-time.Hour)
	require.NoError(t, w.work(t.Context()), "it came between the look and the lock")
	locked, err := state.Locked(dir)
	require.NoError(t, err)
	assert.False(t, locked, "the guard took nothing")
	require.NoError(t, host.claim.Close())
	assert.False(t, w.relieved(t.Context()))
}

// A vendor's tool that hangs when it is asked for its version, for up to half a minute, keeps no daemon waiting that claims the job.
func TestGuardLeavesTheJobToADaemonWhileAToolHangs(t *testing.T) {
	w, _ := guarded(t)
	dir, tools := w.options.Config.StateDir, t.TempDir()
	asked := filepath.Join(tools, "asked")
	script := "#!/bin/sh\n: > " + asked + "\nexec /bin/sleep 600\n"
	require.NoError(t, os.WriteFile(filepath.Join(tools, "nvme"), []byte(script), 0o700))
	before, err := state.Open(dir, state.Options{Daemon: "v0.1.0"})
	require.NoError(t, err)
	require.NoError(t, before.Journal.Save(journal.Job{Name: "j", UID: "u"}))
	require.NoError(t, before.Close())
	w.options.Config.ToolPath = tools
	lists := 0
	w.options.Drivers = func(runner command.Runner, _ fs.FS) driver.Set {
		lists++ // once for the names of the tools, and again when they have answered
		return driver.Set{nvme.New(runner)}
	}
	worked := make(chan error, 1)
	go func() { worked <- w.work(t.Context()) }()
	require.Eventually(t, func() bool { _, err := os.Stat(asked); return err == nil }, time.Minute, time.Millisecond)
	host, err := takeState(w.options)
	require.NoError(t, err)
	require.NoError(t, <-worked)
	assert.Equal(t, 1, lists, "the tool was not waited for")
	require.NoError(t, host.Close())
}

// The disk of a machine in the middle of a job was copied with the static pod of its guard. The guard of the copy has nothing to do there.
func TestClonedGuardLeaves(t *testing.T) {
	w, manifest := guarded(t)
	before, err := state.Open(w.options.Config.StateDir, state.Options{Daemon: "v0.1.0", Machine: state.Machine{UUID: "of another"}})
	require.NoError(t, err)
	require.NoError(t, before.Journal.Save(journal.Job{Name: "j", UID: "u"}))
	require.NoError(t, before.Close())
	assert.True(t, w.relieved(t.Context()))
	require.NoError(t, w.round(t.Context()))
	assert.True(t, w.free.IsZero(), "it waits for nobody")
	assert.NoFileExists(t, manifest)
}

// A guard that the kubelet is about to end does not vouch for the one that replaces it.
func TestGuardThatIsReplacedIsNotTakenForTheNextOne(t *testing.T) {
	w, _ := guarded(t)
	daemon, err := state.Open(w.options.Config.StateDir, state.Options{Daemon: "v0.1.0"})
	require.NoError(t, err)
	defer func() { require.NoError(t, daemon.Close()) }()
	require.NoError(t, daemon.Journal.Save(journal.Job{Name: "j", UID: "u"}))
	dir := filepath.Join(w.options.Config.StateDir, guard.Dir)
	for _, next := range []struct {
		id    string
		alive bool
	}{{"a", true}, {"a", true}, {"b", false}} {
		if next.id == "b" {
			require.NoError(t, os.RemoveAll(dir))
		}
		require.NoError(t, os.MkdirAll(dir, 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "installed.json"), []byte(`{"manifest":"/m","id":"`+next.id+`"}`), 0o600))
		require.NoError(t, w.round(t.Context()))
		alive, err := w.host.Alive()
		require.NoError(t, err)
		assert.Equal(t, next.alive, alive, next.id)
	}
	w.release()
}

// A write that the host's systemd did not take over ends with the container of the guard, so that this must not end before it.
func TestGuardThatIsToEndWaitsForAWriteThatRuns(t *testing.T) {
	w, _ := guarded(t)
	dir := filepath.Join(w.options.Config.StateDir, "run")
	require.NoError(t, os.MkdirAll(dir, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "over.lock"), nil, 0o600))
	write, err := os.OpenFile(filepath.Join(dir, "runs.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	require.NoError(t, err)
	require.NoError(t, syscall.Flock(int(write.Fd()), syscall.LOCK_EX))
	synctest.Test(t, func(t *testing.T) {
		ended := false
		go func() {
			w.linger()
			ended = true
		}()
		<-time.After(time.Hour / 2)
		synctest.Wait()
		assert.False(t, ended, "the write runs")
		require.NoError(t, write.Close())
		<-time.After(time.Minute)
		synctest.Wait()
		assert.True(t, ended)
	})
}

// An API server that works answers, with any certificate and whatever it says; a load balancer without one does not.
func TestGuardLearnsOnlyWhetherTheAPIServerAnswers(t *testing.T) {
	status := http.StatusOK
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		assert.Empty(t, r.Header.Get("Authorization"))
		w.WriteHeader(status)
	}))
	s := newServer(server.URL)
	for code, answers := range map[int]bool{200: true, 401: true, 403: true, 404: true, 429: false, 500: false, 502: false, 503: false, 504: false} {
		status = code
		_, _, err := s.Ready(t.Context())
		require.Error(t, err)
		assert.Equal(t, answers, errors.Is(err, health.ErrAnswered), code)
	}
	server.Close()
	_, _, err := s.Ready(t.Context())
	require.NotErrorIs(t, err, health.ErrAnswered)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	assert.False(t, s.answers(ended))
}
