package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"time"

	mo "github.com/Mellanox/maintenance-operator/api/v1alpha1"
	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/config"
	"github.com/nodefirmware/node-firmware-operator/internal/node/archive"
	"github.com/nodefirmware/node-firmware-operator/internal/node/discovery"
	"github.com/nodefirmware/node-firmware-operator/internal/node/health"
	"github.com/nodefirmware/node-firmware-operator/internal/node/hotplug"
	"github.com/nodefirmware/node-firmware-operator/internal/node/images"
	"github.com/nodefirmware/node-firmware-operator/internal/node/job"
	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/internal/node/maintenance"
	"github.com/nodefirmware/node-firmware-operator/internal/node/reboot"
	"github.com/nodefirmware/node-firmware-operator/internal/node/state"
	"github.com/nodefirmware/node-firmware-operator/internal/node/steps"
	"github.com/nodefirmware/node-firmware-operator/internal/version"
	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
	"github.com/nodefirmware/node-firmware-operator/pkg/sysfs"
)

// Options is what a daemon works with.
type Options struct {
	Config config.Daemon
	// Access reaches the API server, which may be away.
	Access  *rest.Config
	Drivers DriverList
	// Worker is the command line of a program that calls command.RunWorker; writes run through it.
	Worker []string
	// Own are the tools that are the same program.
	Own map[string][]string
	// Plugins are drivers that come and go; nil for none.
	Plugins Plugins
	Log     *slog.Logger
}

// Plugins are drivers that come and go.
type Plugins interface {
	// Watch calls back when a driver came, changed or went, until the context ends.
	Watch(ctx context.Context, changed func())
}

// writeGrace is how long the end of the process waits for a running write. It is a little less than the grace period of
// the pod; the write goes on in any case.
const writeGrace = 55 * time.Minute

// Run runs the daemon until the context ends. A job that was interrupted is taken up first and needs no API server.
func Run(ctx context.Context, o Options) error {
	host, err := state.Open(o.Config.StateDir, state.Options{Daemon: version.Current()})
	if err != nil {
		return err
	}
	if host.Leftover != "" {
		o.Log.Warn("Half-made state of an interrupted first start was put aside", "directory", host.Leftover)
	}
	if host.Unswept != nil {
		o.Log.Warn("Remains of an interrupted archiving could not be removed; remove them by hand", "err", host.Unswept)
	}
	d, err := assemble(ctx, o, host)
	if err != nil {
		return errors.Join(err, host.Close())
	}
	return errors.Join(d.run(ctx), host.Close())
}

// parts are the running parts of a daemon.
type parts struct {
	engine    *job.Engine
	discovery *discovery.Discovery
	archive   *archive.Store
	manager   interface{ Start(context.Context) error }
	plugins   Plugins
	log       logr.Logger
}

func (p parts) run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return p.engine.Run(ctx) })
	group.Go(func() error { return p.discovery.RunScans(ctx) })
	group.Go(func() error { return p.discovery.RunLooks(ctx) })
	group.Go(func() error { return p.manager.Start(ctx) })
	group.Go(func() error { trimMemory(ctx, p.log); return nil })
	group.Go(func() error { pruneArchive(ctx, p.log, p.discovery, p.archive); return nil })
	group.Go(func() error { hotplug.Watch(ctx, p.log, p.discovery.Request); return nil })
	if p.plugins != nil {
		group.Go(func() error { p.plugins.Watch(ctx, p.discovery.Request); return nil })
	}
	return group.Wait()
}

// assemble makes the parts and connects them. It does not talk to the API server.
func assemble(ctx context.Context, o Options, host *state.State) (parts, error) {
	book, log := host.Journal, logr.FromSlogHandler(o.Log.Handler())
	c := o.Config
	tools, err := Outliving(command.Config{Path: c.Tools(), Own: o.Own, StateDir: c.StateDir, Log: o.Log}, o.Worker, command.EnterHost())
	if err != nil {
		return parts{}, err
	}
	hardware, err := NewHardware(os.DirFS(c.HostRoot), tools, o.Drivers, c.NVMeTransports...)
	if err != nil {
		return parts{}, err
	}
	if err := hardware.Host.Ties(ctx); err != nil {
		return parts{}, err
	}
	store, err := images.Open(images.Config{
		Dir: filepath.Join(c.StateDir, "images"), Server: c.ImageServer, CAFile: c.ImageServerCA, TokenFile: c.ImageTokenFile,
	})
	if err != nil {
		return parts{}, err
	}
	direct, err := uncached(o.Access)
	if err != nil {
		return parts{}, err
	}
	mgr, err := NewManager(o.Access, ManagerOptions{
		Node: c.NodeName, ProbeAddress: c.ProbeAddress, MetricsAddress: c.MetricsAddress, Log: log,
	})
	if err != nil {
		return parts{}, err
	}
	priorities, err := c.StepPriorities.Parse()
	if err != nil {
		return parts{}, err
	}
	catalog, err := steps.NewCatalog(hardware.Drivers, priorities)
	if err != nil {
		return parts{}, err
	}
	disc := discovery.New(discovery.Config{
		Node: c.NodeName, Steps: steps.Enabled(catalog), Interval: c.ScanInterval, Host: hardware.Host, Look: hardware.Look, Journal: book, Writes: hardware.Runner,
		Client: mgr.GetClient(), Log: log.WithName("discovery"),
	})
	window := &maintenance.Node{Client: direct, Namespace: c.Namespace, NodeName: c.NodeName}
	reconciler := &job.Reconciler{
		Client: mgr.GetClient(), NodeName: c.NodeName, Journal: book, Maintenance: window, Results: disc,
		Recorder: mgr.GetEventRecorder("firmware-daemon"), Catalog: catalog,
	}
	checks := &health.Checks{
		FS: hardware.FS, Runner: hardware.Runner, Launch: health.Launch(c.HostRoot), Timeout: c.CheckTimeout, Advise: reconciler.Advise,
		Rest: min(30*time.Second, c.HealthTimeout/4),
	}
	limits := step.DefaultLimits()
	limits.Boot, limits.Health = c.BootTimeLimit, c.HealthTimeout
	reconciler.Engine = job.New(job.Config{
		Journal: book, Archive: host.Archive, Host: hardware, Drivers: hardware.Drivers, Images: store, Maintenance: window,
		Writes:   hardware.Runner,
		Rebooter: reboot.Host{Runner: hardware.Runner, Argv: reboot.Namespaced()},
		Health: health.Checker{
			Scanner: hardware, Node: health.Node{Reader: direct, Name: c.NodeName, BootID: hardware.BootID}, Checks: checks,
		},
		Catalog: catalog,
		Tasks: steps.Tasks{
			Machine: hardware, Drivers: hardware.Drivers, Root: c.HostRoot, Scratch: filepath.Join(c.StateDir, "scratch"),
			Applied: applied(book),
		},
		BootID: hardware.BootID, Uptime: func() (time.Duration, error) { return sysfs.Uptime(hardware.FS) }, Limits: limits,
		Grace: writeGrace, Log: o.Log,
		Notify: func(s job.Snapshot) {
			reconciler.Notify(s)
			if s.Transition {
				disc.Changed()
			}
		},
	})
	err = errors.Join(
		AddDiscovery(ctx, mgr, disc),
		reconciler.SetupWithManager(mgr),
		mgr.AddHealthzCheck("alive", func(*http.Request) error { return nil }),
		mgr.AddReadyzCheck("scanned", func(*http.Request) error {
			if _, ok := disc.Snapshot(); !ok {
				return errors.New("the first scan has not ended")
			}
			return nil
		}),
	)
	return parts{engine: reconciler.Engine, discovery: disc, archive: host.Archive, manager: mgr, plugins: o.Plugins, log: log.WithName("hotplug")}, err
}

// applied tells what a job brought a device to last.
func applied(book *journal.Journal) func(string) (*v1alpha1.AppliedFirmware, error) {
	return func(uniqueID string) (*v1alpha1.AppliedFirmware, error) {
		view, err := book.View()
		return view.Devices[uniqueID].LastApplied, err
	}
}

// uncached is a client that asks the API server each time: for maintenances, of which a job needs one for a while, and
// for what must not be stale. It learns what is served when it is first used, and again when a kind was missing, so
// that a maintenance-operator can be installed later.
func uncached(access *rest.Config) (client.Client, error) {
	scheme, err := Scheme()
	if err != nil {
		return nil, err
	}
	if err := mo.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("register maintenance kinds: %w", err)
	}
	c, err := client.New(access, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	return c, nil
}
