package daemon

import (
	"context"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/config"
	"github.com/nodefirmware/node-firmware-operator/internal/maintenance"
	"github.com/nodefirmware/node-firmware-operator/internal/maintenance/nodemaintenance"
	"github.com/nodefirmware/node-firmware-operator/internal/node/archive"
	"github.com/nodefirmware/node-firmware-operator/internal/node/discovery"
	"github.com/nodefirmware/node-firmware-operator/internal/node/drainrequest"
	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/internal/node/state"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/simhost"
	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/host"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// counted is a machine without a device that counts its scans.
type counted struct{ scans atomic.Int32 }

func (c *counted) ScanGuarded(context.Context, host.Guard) (host.Inventory, error) {
	c.scans.Add(1)
	return host.Inventory{}, nil
}

type still struct{}

func (still) WriteRunning(string) (bool, error)    { return false, nil }
func (still) View() (view journal.View, err error) { return view, nil }

// TestSpecReachesTheScans: scanThreshold of the NodeFirmware is the age of a scan at which the next one is due, also when it changes.
func TestSpecReachesTheScans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &counted{}
		d := discovery.New(discovery.Config{Node: "n1", Interval: time.Hour, Host: m, Journal: still{}, Writes: still{}, Log: logr.Discard()})
		scheme := runtime.NewScheme()
		require.NoError(t, v1alpha1.AddToScheme(scheme))
		own, err := Scheme()
		require.NoError(t, err)
		informers := &informertest.FakeInformers{Scheme: own}
		ctx, stop := context.WithCancel(t.Context())
		require.NoError(t, watchObjects(ctx, informers, d))
		informer, err := informers.FakeInformerFor(ctx, &v1alpha1.NodeFirmware{})
		require.NoError(t, err)
		ended := make(chan error, 1)
		go func() { ended <- d.RunScans(ctx) }()
		in := func(wait time.Duration, scans int32, why string) {
			t.Helper()
			time.Sleep(wait)
			synctest.Wait()
			assert.Equal(t, scans, m.scans.Swap(0), why)
		}
		in(59*time.Minute, 1, "the interval of the daemon")
		before := &v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
		after := before.DeepCopy()
		after.Spec.ScanThreshold = "2h"
		informer.Add(after)
		in(2*time.Minute, 0, "the threshold is longer")
		informer.Update(after, before)
		in(time.Minute, 1, "it is gone")
		after.Spec.ScanThreshold = "10m"
		informer.Update(before, after)
		in(31*time.Minute, 3, "it is shorter")
		stop()
		require.NoError(t, <-ended)
	})
}

// unreachable are the options of a daemon on a simulated machine whose API server does not answer.
func unreachable(t *testing.T) Options {
	t.Helper()
	root := filepath.Join(t.TempDir(), "n1")
	_, err := simhost.Create(root, simhost.DefaultSpec("n1", 1))
	require.NoError(t, err)
	stateDir := filepath.Join(root, "var/lib/node-firmware")
	return Options{
		Config: config.Daemon{
			Machine:  config.Machine{HostRoot: root, StateDir: stateDir, ToolPath: filepath.Join(root, "usr/bin")},
			NodeName: "n1", UpdateStrategy: config.StrategyDaemon, Maintenance: config.MaintenanceOperator, Namespace: "ns", AllowUnconfined: true,
			ScanInterval: 7 * time.Minute, BootTimeLimit: 8 * time.Minute, HealthTimeout: 9 * time.Minute, IsolationTimeout: 11 * time.Minute, CheckTimeout: 10 * time.Second, StartTimeout: 12 * time.Minute,
			StepPriorities:    config.StepPriorities{"nic.activate=719", "disk.configure=0"},
			ImageVerification: config.ImagesSignedIfKeys, ProbeAddress: "0", MetricsAddress: "0",
		},
		Access:  &rest.Config{Host: "https://127.0.0.1:1"},
		Drivers: func(command.Runner, fs.FS) driver.Set { return driver.Set{} },
		Log:     slog.New(slog.DiscardHandler),
	}
}

// TestSettingsReachTheParts: each setting of the daemon is one of the part that it is about.
func TestSettingsReachTheParts(t *testing.T) {
	o := unreachable(t)
	base, err := newBase(t.Context(), o)
	require.NoError(t, err)
	taken, err := takeState(o)
	require.NoError(t, err)
	defer func() { require.NoError(t, taken.Close()) }()
	scans := base.scans(o, taken.Journal)
	assert.Equal(t, 7*time.Minute, scans.Interval)
	assert.Equal(t, "n1", scans.Node)
	assert.NotNil(t, scans.Look, "cards that come and go are seen")
	assert.Same(t, base.hardware.Host, scans.Settings, "settings are read in the turn of their device")
	assert.True(t, scans.MayConfigure(inventory.NIC))
	assert.False(t, scans.MayConfigure(inventory.Disk), "the step is switched off")
	engine, err := base.engineConfig(o, taken.State)
	require.NoError(t, err)
	assert.Equal(t, 8*time.Minute, engine.Limits.Boot)
	assert.Equal(t, 9*time.Minute, engine.Limits.Health)
	assert.Equal(t, 11*time.Minute, engine.Limits.Isolation)
	assert.Same(t, taken.Journal, engine.Journal)
	assert.Same(t, taken.Archive, engine.Archive)
	for _, step := range base.catalog.All() {
		if step.Key() == "nic.activate" {
			assert.EqualValues(t, 719, step.Priority)
		}
	}
	assert.Equal(t, 10*time.Second, base.checks(o.Config, nil).Timeout)
	executor, err := newExecutor(t.Context(), o, taken.State, "only")
	require.NoError(t, err)
	assert.Equal(t, 12*time.Minute, executor.jobs.StartTimeout)
	assert.Equal(t, "only", executor.jobs.Only)
	assert.Same(t, taken.Archive, executor.jobs.Archive)
	for way, want := range map[string]maintenance.Window{
		config.MaintenanceOperator: &nodemaintenance.Node{Namespace: "ns", NodeName: "n1"},
		config.MaintenanceDrain:    &drainrequest.Window{NodeName: "n1"},
		config.MaintenanceNone:     &maintenance.None{},
	} {
		o.Config.Maintenance = way
		got := windowOf(client.Client(nil), taken.Journal, o.Config, "")
		if node, is := got.(*nodemaintenance.Node); is {
			cordon := maintenance.Cordon{Node: "u", By: "manager"}
			require.NoError(t, taken.Journal.Save(journal.Job{Name: "j", UID: "u", Cordon: cordon}))
			was, err := node.Was()
			require.NoError(t, err)
			assert.Equal(t, cordon, was, "the journal remembers whose cordon it was")
			node.Was = nil
		}
		assert.Equal(t, want, got, way)
	}
}

// TestWithoutAnAPIServer: an interrupted job goes on (R002-39), and the archive is pruned of a device that is long gone.
func TestWithoutAnAPIServer(t *testing.T) {
	t.Parallel() // it waits
	o := unreachable(t)
	taken, err := takeState(o)
	require.NoError(t, err)
	require.NoError(t, taken.Journal.Save(journal.Job{Name: "j", UID: "u"}))
	gone := archive.Manifest{UniqueID: "gone", Class: inventory.NIC, Version: "1", BootID: "b", Rollback: inventory.RollbackReadBack}
	require.NoError(t, taken.Archive.Keep(t.Context(), gone, func(_ context.Context, path string) error { return os.WriteFile(path, []byte("1"), 0o600) }))
	absent := filepath.Join(o.Config.StateDir, state.ArchiveDir, "gone", "absent.json")
	require.NoError(t, os.WriteFile(absent, []byte(`{"days":90,"last":"2026-01-01"}`), 0o600))
	require.NoError(t, taken.Close())
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, o) }()
	assert.EventuallyWithT(t, func(c *assert.CollectT) {
		found, err := state.Inspect(o.Config.StateDir)
		require.NoError(c, err)
		assert.True(c, found.Locked)
		assert.Nil(c, found.Journal.Active())
		assert.Empty(c, found.Archive)
	}, 2*time.Minute, 50*time.Millisecond)
	stop()
	require.NoError(t, <-ended)
}
