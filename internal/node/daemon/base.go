package daemon

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/node/confinement"
	"github.com/nodefirmware/node-firmware-operator/internal/node/discovery"
	"github.com/nodefirmware/node-firmware-operator/internal/node/hotplug"
	"github.com/nodefirmware/node-firmware-operator/internal/node/steps"
	"github.com/nodefirmware/node-firmware-operator/internal/trace"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/text"
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
		Node: o.Config.NodeName, Steps: steps.Enabled(b.catalog), Tools: b.tools, Interval: o.Config.ScanInterval, Host: b.hardware.Host, Settings: b.hardware.Host,
		MayConfigure: func(class inventory.Class) bool { return b.catalog.Runs(plan.Configure, class) },
		Look:         b.hardware.Look, Journal: book, Writes: b.hardware.Runner, Client: b.manager.GetClient(), Reader: b.manager.GetAPIReader(),
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
	own := ownEvents{EventRecorder: b.manager.GetEventRecorder(v1alpha1.FieldOwnerDaemon), reader: b.manager.GetClient(), node: o.Config.NodeName}
	return trace.Events{EventRecorder: own}
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

// ownEvents emits the events that the admission policy allows this node: about jobs that bear the name the operator gives the
// jobs of the node. An event about a job that a person named is emitted about the node's NodeFirmware instead.
type ownEvents struct {
	events.EventRecorder
	// reader reads from the cache.
	reader client.Reader
	node   string
}

// Eventf implements events.EventRecorder.
func (e ownEvents) Eventf(regarding, related runtime.Object, kind, reason, action, note string, args ...any) {
	if job, ok := regarding.(*v1alpha1.FirmwareJob); ok && !namedByOperator(e.node, job.Name) {
		firmware := &v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: e.node}}
		// The cache may not be filled yet. Without a uid the event is kept all the same, and "kubectl describe" does not show it.
		ctx, cancel := context.WithTimeout(context.Background(), cachePatience)
		_ = e.reader.Get(ctx, client.ObjectKeyFromObject(firmware), firmware)
		cancel()
		regarding, related, note, args = firmware, job, "%s", []any{text.Clip("Firmware job "+job.Name+": "+fmt.Sprintf(note, args...), maxNote)}
	}
	e.EventRecorder.Eventf(regarding, related, kind, reason, action, note, args...)
}

const (
	// hashDigits are at the end of the name of each job the operator makes.
	hashDigits = 8
	// comparedNode is how much of the name of a node is compared: a longer one may be cut in the names of jobs.
	comparedNode = 200
	// maxNote bounds the note of an event, as the API server does; it refuses a longer one.
	maxNote = 1024
	// cachePatience is short because who emits an event does not wait.
	cachePatience = 100 * time.Millisecond
)

// namedByOperator reports what deploy/policy/daemon-events.yaml asks of the name of a job.
func namedByOperator(node, job string) bool {
	if len(node) > comparedNode {
		return strings.HasPrefix(job, node[:comparedNode])
	}
	return strings.HasPrefix(job, node+"-") && len(job) == len(node)+1+hashDigits
}

// AddDiscovery lets the manager run the publisher of a discovery and notify it of changed objects. Scans run outside
// the manager, because they need no API server.
func AddDiscovery(ctx context.Context, m ctrl.Manager, d *discovery.Discovery) error {
	if err := watchObjects(ctx, m.GetCache(), d); err != nil {
		return err
	}
	if err := m.Add(manager.RunnableFunc(d.RunPublisher)); err != nil {
		return fmt.Errorf("add publisher: %w", err)
	}
	return nil
}

// watchObjects notifies the discovery when an object of this node changes. A Node's heartbeats are ignored: only the
// existence of the Node matters.
func watchObjects(ctx context.Context, c cache.Cache, d *discovery.Discovery) error {
	changed := toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { d.Changed() },
		UpdateFunc: func(any, any) { d.Changed() },
		DeleteFunc: func(any) { d.Changed() },
	}
	settings := toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { follow(d, obj); d.Changed() },
		UpdateFunc: func(_, obj any) { follow(d, obj); d.Changed() },
		DeleteFunc: func(any) { d.Changed() },
	}
	for _, watch := range []struct {
		kind    client.Object
		handler toolscache.ResourceEventHandler
	}{
		{&v1alpha1.NodeDevice{}, changed},
		{&v1alpha1.NodeFirmware{}, settings},
		{&corev1.Node{}, toolscache.ResourceEventHandlerFuncs{AddFunc: func(any) { d.Changed() }}},
	} {
		informer, err := c.GetInformer(ctx, watch.kind, cache.BlockUntilSynced(false))
		if err != nil {
			return fmt.Errorf("watch %T: %w", watch.kind, err)
		}
		if _, err := informer.AddEventHandler(watch.handler); err != nil {
			return fmt.Errorf("watch %T: %w", watch.kind, err)
		}
	}
	return nil
}

func follow(d *discovery.Discovery, obj any) {
	if nfw, ok := obj.(*v1alpha1.NodeFirmware); ok {
		d.Follow(nfw)
	}
}
