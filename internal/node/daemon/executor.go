package daemon

import (
	"context"
	"fmt"
	"time"

	mo "github.com/Mellanox/maintenance-operator/api/v1alpha1"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/internal/config"
	"github.com/nodefirmware/node-firmware-operator/internal/maintenance"
	"github.com/nodefirmware/node-firmware-operator/internal/node/archive"
	"github.com/nodefirmware/node-firmware-operator/internal/node/discovery"
	"github.com/nodefirmware/node-firmware-operator/internal/node/engine"
	"github.com/nodefirmware/node-firmware-operator/internal/node/health"
	"github.com/nodefirmware/node-firmware-operator/internal/node/job"
	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/internal/node/state"
)

// executor is a process that has the state directory open: it reads the machine, executes jobs and reports both.
type executor struct {
	engine    *engine.Engine
	jobs      *job.Reconciler
	discovery *discovery.Discovery
	archive   *archive.Store
	options   Options
	base
}

// start starts the parts that every executor has.
func (e executor) start(ctx context.Context, group *errgroup.Group) {
	group.Go(func() error { return e.confine(ctx, e.options) })
	group.Go(func() error { return e.engine.Run(ctx) })
	group.Go(func() error { return e.discovery.RunScans(ctx) })
	group.Go(func() error { return runManager(ctx, e.manager, managerGrace) })
	e.watch(ctx, group, e.discovery)
}

// newExecutor creates the parts and connects them. It does not contact the API server. Only is the name of the one job
// it may begin; empty for any.
func newExecutor(ctx context.Context, o Options, host *state.State, only string) (executor, error) {
	book, c := host.Journal, o.Config
	base, err := newBase(ctx, o)
	if err != nil {
		return executor{}, err
	}
	hardware := base.hardware
	cfg, err := base.engineConfig(o, host)
	if err != nil {
		return executor{}, err
	}
	direct, err := uncached(base.gate.Access)
	if err != nil {
		return executor{}, err
	}
	looked := &maintenance.Looked{}
	scans := base.scans(o, book)
	scans.Held = looked.Last
	disc := discovery.New(scans)
	looked.Changed = disc.Changed
	window := windowOf(direct, book, c, only)
	reconciler := &job.Reconciler{
		Client: base.manager.GetClient(), Reader: direct, NodeName: c.NodeName, Journal: book, Maintenance: window, Looked: looked, Results: disc, Only: only,
		Recorder: base.recorder(o), Archive: host.Archive, Host: cfg.Host, Catalog: base.catalog, StartTimeout: c.StartTimeout,
	}
	checks := base.checks(c, reconciler.Advise)
	cfg.Maintenance, cfg.Guard, cfg.Grace = window, guardOf(c, ownPod(direct, o)), writeGrace
	cfg.Health = health.Checker{
		Scanner: hardware, Node: readiness{Reader: direct, Name: c.NodeName, BootID: hardware.BootID}, Checks: checks,
		Network: base.network(), Arrays: hardware.Host,
	}
	cfg.Notify = func(s engine.Snapshot) {
		reconciler.Notify(s)
		if s.Transition {
			disc.Changed()
		}
	}
	reconciler.Engine = engine.New(cfg)
	if err := base.report(ctx, disc, reconciler.SetupWithManager); err != nil {
		return executor{}, err
	}
	return executor{
		engine: reconciler.Engine, jobs: reconciler, discovery: disc, archive: host.Archive, options: o, base: base,
	}, nil
}

// checks are the executables of the administrator.
func (b base) checks(c config.Daemon, advise func(health.Advice)) *health.Checks {
	return &health.Checks{
		FS: b.hardware.FS, Runner: b.hardware.Runner, Launch: health.Launch(c.HostRoot), Timeout: c.CheckTimeout, Advise: advise,
		Rest: min(30*time.Second, c.HealthTimeout/4),
	}
}

// applied returns the firmware a job last installed on a device.
func applied(book *journal.Journal) func(string) (*journal.Applied, error) {
	return func(uniqueID string) (*journal.Applied, error) {
		view, err := book.View()
		return view.Devices[uniqueID].LastApplied, err
	}
}

// uncached returns a client that reads from the API server each time: for maintenances, which are needed only during a
// job, and for objects that must not be stale. It discovers the served kinds on first use, and again when a kind was
// missing, so that a maintenance-operator can be installed later.
func uncached(access *rest.Config) (client.Client, error) {
	scheme, err := Scheme()
	if err != nil {
		return nil, err
	}
	scheme.AddKnownTypes(corev1.SchemeGroupVersion, &corev1.Pod{}) // its own, for the guard
	if err := mo.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("register maintenance kinds: %w", err)
	}
	c, err := client.New(access, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	return c, nil
}
