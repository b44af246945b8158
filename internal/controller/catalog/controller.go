package catalog

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/internal/access"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/internal/watch"
	"github.com/nodefirmware/node-firmware-operator/pkg/catalog"
)

// Options of the controller.
type Options struct {
	// Now is the clock; nil is time.Now.
	Now func() time.Time
	// Network opens what providers offer; nil for an operator that opens no connections for catalogs.
	Network Network
	// Access reads what providers name in secretRef and caRef.
	Access access.Reader
	// Bounds of the discoveries.
	Bounds Bounds
	// Limits of what is read of one provider.
	Limits catalog.Limits
	// Events receives one event for each change of the reason of Ready, and for tags that were moved; nil for nowhere.
	Events events.EventRecorder
}

// settle is how long after an event of a node, device or source a catalog is looked at, so that the reports of a fleet are one look.
const settle = 30 * time.Second

// Reconciler is keyed by the name of a catalog, which stands for a machine model.
type Reconciler struct {
	client      client.Client
	now         func() time.Time
	discoveries *Discoveries
	network     Network
	access      access.Reader
	limits      catalog.Limits
	events      events.EventRecorder
}

// New returns a reconciler. The client's cache needs the indexes of package index.
func New(c client.Client, o Options) *Reconciler {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Reconciler{client: c, now: o.Now, discoveries: NewDiscoveries(o.Bounds, o.Now), network: o.Network, access: o.Access, limits: o.Limits, events: o.Events}
}

// Discoveries is the queue, which the caller must run.
func (r *Reconciler) Discoveries() *Discoveries { return r.discoveries }

// SetupWithManager adds the controller and its queue to the manager.
func SetupWithManager(mgr manager.Manager, o Options) error {
	r := New(mgr.GetClient(), o)
	ended := make(chan event.TypedGenericEvent[string], 1024)
	r.discoveries.Ended = func(name string) { ended <- event.TypedGenericEvent[string]{Object: name} }
	err := ctrl.NewControllerManagedBy(mgr).Named("catalog").
		For(&v1alpha1.FirmwareCatalog{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&v1alpha1.FirmwareCatalog{}, handler.EnqueueRequestsFromMapFunc(r.heirs), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&v1alpha1.NodeFirmware{}, watch.Delayed(settle, func(_ context.Context, o client.Object) []reconcile.Request {
			if n, ok := o.(*v1alpha1.NodeFirmware); ok {
				return watch.Requests(nameOf(n))
			}
			return nil
		}), builder.WithPredicates(machineChanged)).
		Watches(&v1alpha1.NodeDevice{}, watch.Delayed(settle, r.ofDevice), builder.WithPredicates(deviceChanged)).
		Watches(&v1alpha1.FirmwareSource{}, watch.Delayed(settle, r.all), builder.WithPredicates(imagesChanged)).
		Watches(&v1alpha1.FirmwareQuarantine{}, watch.Delayed(settle, r.all), builder.WithPredicates(scopeChanged)).
		WatchesRawSource(source.TypedChannel(ended, handler.TypedFuncs[string, reconcile.Request]{
			GenericFunc: func(_ context.Context, e event.TypedGenericEvent[string], q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
				q.Add(watch.Requests(e.Object)[0])
			},
		})).
		Complete(r)
	if err != nil {
		return err
	}
	return mgr.Add(r.discoveries)
}

// ofDevice is the catalog of the node of a device.
func (r *Reconciler) ofDevice(ctx context.Context, o client.Object) []reconcile.Request {
	d, ok := o.(*v1alpha1.NodeDevice)
	var n v1alpha1.NodeFirmware
	if !ok || r.client.Get(ctx, client.ObjectKey{Name: d.Spec.NodeName}, &n, client.UnsafeDisableDeepCopy) != nil {
		return nil // the event of the NodeFirmware comes later
	}
	return watch.Requests(nameOf(&n))
}

// all are the catalogs that exist.
func (r *Reconciler) all(ctx context.Context, _ client.Object) []reconcile.Request {
	var list v1alpha1.FirmwareCatalogList
	if err := r.client.List(ctx, &list); err != nil {
		return nil
	}
	names := make([]string, len(list.Items))
	for i := range list.Items {
		names[i] = list.Items[i].Name
	}
	return watch.Requests(names...)
}

// heirs are the catalogs that the catalog default gives what they leave out.
func (r *Reconciler) heirs(ctx context.Context, o client.Object) []reconcile.Request {
	if o.GetName() != v1alpha1.DefaultCatalog {
		return nil
	}
	return r.all(ctx, o)
}

// Reconcile brings one catalog up to date.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	f, err := r.gather(ctx, req.Name)
	if err != nil {
		return reconcile.Result{}, err
	}
	d := decide(f)
	if err := r.act(ctx, f, &d); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: d.next}, nil
}

// machineChanged passes what changes the model of a node.
var machineChanged = watch.Changed(func(a, b *v1alpha1.NodeFirmware) bool { return nameOf(a) != nameOf(b) })

// deviceChanged passes what changes the kind of a device or what it runs.
var deviceChanged = watch.Changed(func(a, b *v1alpha1.NodeDevice) bool { return !slices.Equal(toldBy(a), toldBy(b)) })

func toldBy(d *v1alpha1.NodeDevice) []string {
	s := &d.Status
	out := []string{string(s.Class), s.Vendor, s.PCIID, s.SubsystemID, s.Model, s.BoardID}
	if f := s.Firmware; f != nil {
		out = append(out, f.Running, string(f.VersionFormat))
	}
	return out
}

// imagesChanged passes what changes the images that a source offers, and how they are reached.
var imagesChanged = watch.Changed(func(a, b *v1alpha1.FirmwareSource) bool {
	return !equality.Semantic.DeepEqual(a.Status.Images, b.Status.Images) || !equality.Semantic.DeepEqual(a.Spec.UpgradePaths, b.Spec.UpgradePaths)
})

// scopeChanged passes what changes whether an image is quarantined on every node.
var scopeChanged = watch.Changed(func(a, b *v1alpha1.FirmwareQuarantine) bool {
	return a.Status.Scope != b.Status.Scope || a.Spec.State != b.Spec.State
})
