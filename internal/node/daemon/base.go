package daemon

import (
	"context"
	"errors"
	"net/http"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/node/confinement"
	"github.com/nodefirmware/node-firmware-operator/internal/node/discovery"
	"github.com/nodefirmware/node-firmware-operator/internal/node/hotplug"
	"github.com/nodefirmware/node-firmware-operator/internal/node/steps"
)

// base is what every daemon process on a node uses: the machine and the API.
type base struct {
	machine
	manager ctrl.Manager
	// gate is the access of everything here to the API server.
	gate *confinement.Gate
	// plugins is nil if there are none.
	plugins Plugins
	// transports are those of the NVMe drives that belong to this machine.
	transports []string
	log        logr.Logger
}

func newBase(ctx context.Context, o Options) (base, error) {
	c, log := o.Config, logr.FromSlogHandler(o.Log.Handler())
	machine, err := newMachine(ctx, o)
	if err != nil {
		return base{}, err
	}
	gate := confinement.NewGate(o.Access)
	mgr, err := NewManager(gate.Access, ManagerOptions{
		Node: c.NodeName, ProbeAddress: c.ProbeAddress, MetricsAddress: c.MetricsAddress, Log: log,
	})
	if err != nil {
		return base{}, err
	}
	return base{machine: machine, manager: mgr, gate: gate, plugins: o.Plugins, transports: c.NVMeTransports, log: log}, nil
}

// scans is the configuration of a discovery that publishes the journal's records.
func (b base) scans(o Options, book discovery.Journal) discovery.Config {
	return discovery.Config{
		Node: o.Config.NodeName, Steps: steps.Enabled(b.catalog), Tools: b.tools, Interval: o.Config.ScanInterval, Host: b.hardware.Host,
		Look: b.hardware.Look, Journal: book, Writes: b.hardware.Runner, Client: b.manager.GetClient(),
		Log: logr.FromSlogHandler(o.Log.Handler()).WithName("discovery"),
	}
}

// confine makes sure that the API server confines this daemon to its node, before anything is written to it.
func (b base) confine(ctx context.Context, o Options) error {
	if o.Config.AllowUnconfined {
		b.log.Info("Started with --allow-unconfined: nothing checks that this daemon can write objects of its own node only")
		b.gate.OpenUnproven()
		return nil
	}
	return b.gate.Open(ctx, o.Config.NodeName, o.Config.Namespace, b.log)
}

// recorder emits the events of this daemon.
func (b base) recorder(o Options) events.EventRecorder {
	return ownEvents{EventRecorder: b.manager.GetEventRecorder(v1alpha1.FieldOwnerDaemon), reader: b.manager.GetClient(), node: o.Config.NodeName}
}

// watch requests a scan when hardware or drivers come and go.
func (b base) watch(ctx context.Context, group *errgroup.Group, disc *discovery.Discovery) {
	group.Go(func() error { return disc.RunLooks(ctx) })
	group.Go(func() error { hotplug.Watch(ctx, b.log.WithName("hotplug"), b.transports, disc.Request); return nil })
	if b.plugins != nil {
		group.Go(func() error { b.plugins.Watch(ctx, disc.Request); return nil })
	}
}

// report connects the manager with the discovery and with the reporter of jobs.
func (b base) report(ctx context.Context, disc *discovery.Discovery, jobs func(ctrl.Manager) error) error {
	return errors.Join(
		AddDiscovery(ctx, b.manager, disc),
		jobs(b.manager),
		b.manager.AddHealthzCheck("alive", func(*http.Request) error { return nil }),
		b.manager.AddReadyzCheck("scanned", func(*http.Request) error {
			if _, ok := disc.Snapshot(); !ok {
				return errors.New("the first scan has not ended")
			}
			return nil
		}),
	)
}
