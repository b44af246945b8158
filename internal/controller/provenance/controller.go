package provenance

import (
	"context"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/internal/watch"
	"github.com/nodefirmware/node-firmware-operator/internal/fieldset"
	"github.com/nodefirmware/node-firmware-operator/internal/status"
)

const (
	// settle is how long after an event the node is looked at, so that the reports of its devices, and the edits of a person who saves
	// twice, are one write.
	settle = time.Second
	// workers is the number of nodes looked at side by side, and with it the bound of the writes in flight when an edit concerns the
	// whole fleet.
	workers = 4
)

// Reconciler is keyed by the name of a node. Nothing is polled: a node is looked at when its devices, its NodeFirmware, or a
// template or source that its devices refer to have changed.
type Reconciler struct {
	client client.Client
	now    func() time.Time
	users  *users
}

// New returns a reconciler. The client's cache needs the indexes of package index.
func New(c client.Client, now func() time.Time) *Reconciler {
	return &Reconciler{client: c, now: now, users: newUsers()}
}

// SetupWithManager adds the controller to the manager.
func SetupWithManager(mgr manager.Manager) error {
	r := New(mgr.GetClient(), time.Now)
	return ctrl.NewControllerManagedBy(mgr).Named("provenance").
		Watches(&v1alpha1.NodeFirmware{}, watch.Delayed(settle, toItself), builder.WithPredicates(firmwareChanged)).
		Watches(&v1alpha1.NodeDevice{}, watch.Delayed(settle, watch.ToNode), builder.WithPredicates(deviceChanged)).
		Watches(&v1alpha1.FirmwareTemplate{}, watch.Delayed(settle, r.toUsers(v1alpha1.OriginTemplate)), builder.WithPredicates(templateChanged)).
		Watches(&v1alpha1.ConfigurationTemplate{}, watch.Delayed(settle, r.toUsers(v1alpha1.OriginConfiguration)), builder.WithPredicates(configurationChanged)).
		Watches(&v1alpha1.FirmwareSource{}, watch.Delayed(settle, r.toUsers(v1alpha1.OriginSource)), builder.WithPredicates(sourceChanged)).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(r)
}

func toItself(_ context.Context, o client.Object) []reconcile.Request {
	return watch.Requests(o.GetName())
}

func (r *Reconciler) toUsers(kind v1alpha1.OriginKind) handler.MapFunc {
	return func(_ context.Context, o client.Object) []reconcile.Request {
		return watch.Requests(r.users.of(id{kind, o.GetName()})...)
	}
}

// Reconcile brings the label and the list of one node up to date.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	f, err := r.gather(ctx, req.Name)
	if err != nil {
		return reconcile.Result{}, err
	}
	if f.firmware == nil {
		return reconcile.Result{}, nil
	}
	return reconcile.Result{}, r.act(ctx, f, decide(f))
}

// deviceChanged passes what a device recorded and what is desired.
var deviceChanged = watch.Changed(func(a, b *v1alpha1.NodeDevice) bool {
	return a.Generation != b.Generation || a.Spec.NodeName != b.Spec.NodeName || !equality.Semantic.DeepEqual(a.Status.Applied, b.Status.Applied)
})

// firmwareChanged passes a change of the spec, and writes of others to this reconciler's part.
var firmwareChanged = watch.Changed(func(a, b *v1alpha1.NodeFirmware) bool {
	return a.Generation != b.Generation || isLabelled(a) != isLabelled(b) || !slices.Equal(a.Status.Obsolete, b.Status.Obsolete) ||
		!ptr.Equal(current(a.Status.Conditions), current(b.Status.Conditions))
})

// templateChanged, configurationChanged and sourceChanged pass what makes another object of a template or source, in the sense of this
// package.
var (
	templateChanged = watch.Changed(func(a, b *v1alpha1.FirmwareTemplate) bool {
		return rulesChanged(templateObject(a), templateObject(b)) || (a.DeletionTimestamp == nil) != (b.DeletionTimestamp == nil)
	})
	configurationChanged = watch.Changed(func(a, b *v1alpha1.ConfigurationTemplate) bool {
		return rulesChanged(configurationObject(a), configurationObject(b)) || (a.DeletionTimestamp == nil) != (b.DeletionTimestamp == nil)
	})
	sourceChanged = watch.Changed(func(a, b *v1alpha1.FirmwareSource) bool {
		x, y := sourceObject(a), sourceObject(b)
		return x.uid != y.uid || !slices.EqualFunc(x.images, y.images, sameDigest) || (a.DeletionTimestamp == nil) != (b.DeletionTimestamp == nil)
	})
)

func rulesChanged(a, b object) bool { return a.uid != b.uid || !maps.Equal(a.hashes, b.hashes) }

func sameDigest(a, b v1alpha1.StoredImage) bool { return a.Digest == b.Digest }

// act writes what differs. Who sees the label finds the list, and who sees that the condition is True finds no label.
func (r *Reconciler) act(ctx context.Context, f facts, obsolete []v1alpha1.ObsoleteReference) error {
	n := f.firmware
	next := v1alpha1.NodeFirmwareStatus{
		Obsolete:   obsolete[:min(len(obsolete), maxListed)],
		Conditions: status.Provenance(obsolete, n.Status.Conditions, n.Generation, f.now),
	}
	if len(obsolete) == 0 && isLabelled(n) {
		if err := fieldset.RemoveObsoleteLabel(ctx, r.client, n.Name); err != nil {
			return client.IgnoreNotFound(err)
		}
	}
	if !says(&n.Status, next) {
		if err := fieldset.ApplyProvenance(ctx, r.client, n.Name, next); err != nil {
			return client.IgnoreNotFound(err)
		}
	}
	if len(obsolete) > 0 && !isLabelled(n) {
		return client.IgnoreNotFound(fieldset.SetObsoleteLabel(ctx, r.client, n.Name))
	}
	return nil
}

// says reports whether a status says the same about obsolete references, at the same generation: kubectl waits for that.
func says(s *v1alpha1.NodeFirmwareStatus, next v1alpha1.NodeFirmwareStatus) bool {
	return slices.Equal(s.Obsolete, next.Obsolete) && ptr.Equal(current(s.Conditions), current(next.Conditions))
}

func current(conditions []metav1.Condition) *metav1.Condition {
	return meta.FindStatusCondition(conditions, v1alpha1.ConditionCurrent)
}

func isLabelled(n *v1alpha1.NodeFirmware) bool { return n.Labels[v1alpha1.ObsoleteLabel] == "true" }
