package nodecondition

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
	"github.com/nodefirmware/node-firmware-operator/internal/config"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/internal/index"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/internal/watch"
	"github.com/nodefirmware/node-firmware-operator/internal/fieldset"
	"github.com/nodefirmware/node-firmware-operator/internal/status"
)

const (
	// settle is how long after a report the Node is looked at, so that reports in a row are one write.
	settle = time.Second
	// workers bounds the writes in flight.
	workers = 4
)

// Reconciler is keyed by the name of a Node and of its NodeFirmware. Nothing is remembered and nothing is polled: what the Node should
// say follows from the objects in each pass.
type Reconciler struct {
	client client.Client
	now    func() time.Time
	// kinds are what is to be said, as in config.Operator; what is not is removed.
	kinds []string
}

// New returns a reconciler.
func New(c client.Client, now func() time.Time, kinds []string) *Reconciler {
	return &Reconciler{client: c, now: now, kinds: kinds}
}

// SetupWithManager adds the controller to the manager.
func SetupWithManager(mgr manager.Manager, kinds []string) error {
	b := ctrl.NewControllerManagedBy(mgr).Named("nodecondition").
		Watches(&v1alpha1.NodeFirmware{}, watch.Delayed(settle, toItself), builder.WithPredicates(firmwareChanged)).
		Watches(&corev1.Node{}, &handler.EnqueueRequestForObject{}, builder.WithPredicates(nodeChanged)).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers})
	if slices.Contains(kinds, config.NodeConditionsLifecycle) {
		b = b.Watches(&v1alpha1.FirmwareJob{}, watch.Delayed(settle, watch.ToNode), builder.WithPredicates(jobChanged))
	}
	return b.Complete(New(mgr.GetClient(), time.Now, kinds))
}

func toItself(_ context.Context, o client.Object) []reconcile.Request {
	return watch.Requests(o.GetName())
}

// firmwareChanged passes what the daemon reports of its node, whether it does, and how far a drain is; jobChanged what says which job has the
// node, and whether it is in maintenance; nodeChanged cordons, and writes to this reconciler's part.
var (
	firmwareChanged = watch.Changed(func(a, b *v1alpha1.NodeFirmware) bool {
		x, y := a.Status, b.Status
		return !slices.EqualFunc(x.Conditions, y.Conditions, sameWords) || !equality.Semantic.DeepEqual(x.MaintenanceRequest, y.MaintenanceRequest) ||
			!equality.Semantic.DeepEqual(x.Maintenance, y.Maintenance)
	})
	jobChanged = watch.Changed(func(a, b *v1alpha1.FirmwareJob) bool {
		ready := func(j *v1alpha1.FirmwareJob) *metav1.Condition {
			return meta.FindStatusCondition(j.Status.Conditions, v1alpha1.ConditionMaintenanceReady)
		}
		return a.HasPlace() != b.HasPlace() || a.Ended() != b.Ended() || !ptr.Equal(ready(a), ready(b)) || takesNode(a) != takesNode(b)
	})
	nodeChanged = watch.Changed(func(a, b *corev1.Node) bool {
		return a.Spec.Unschedulable != b.Spec.Unschedulable || !equality.Semantic.DeepEqual(ours(a), ours(b))
	})
)

func sameWords(a, b metav1.Condition) bool {
	return a.Type == b.Type && a.Status == b.Status && a.Reason == b.Reason && a.Message == b.Message
}

// ours are the conditions of the Node that this reconciler writes.
func ours(n *corev1.Node) []corev1.NodeCondition {
	var out []corev1.NodeCondition
	for _, c := range n.Status.Conditions {
		if status.IsOurs(c) {
			out = append(out, c)
		}
	}
	return out
}

// Reconcile brings the conditions of one Node up to date.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	f, err := r.gather(ctx, req.Name)
	if err != nil || f.node == nil {
		return reconcile.Result{}, err
	}
	want := decide(f, r.now())
	if equality.Semantic.DeepEqual(want, ours(f.node)) {
		return reconcile.Result{}, nil
	}
	return reconcile.Result{}, client.IgnoreNotFound(fieldset.ApplyNodeConditions(ctx, r.client, req.Name, want))
}

func (r *Reconciler) gather(ctx context.Context, name string) (facts, error) {
	f := facts{kinds: r.kinds}
	var n corev1.Node
	switch err := r.client.Get(ctx, client.ObjectKey{Name: name}, &n); {
	case apierrors.IsNotFound(err):
		return f, nil
	case err != nil:
		return f, fmt.Errorf("get node %s: %w", name, err)
	}
	f.node = &n
	var nfw v1alpha1.NodeFirmware
	switch err := r.client.Get(ctx, client.ObjectKey{Name: name}, &nfw); {
	case err == nil:
		f.firmware = &nfw
	case !apierrors.IsNotFound(err):
		return f, fmt.Errorf("get node firmware %s: %w", name, err)
	}
	if slices.Contains(r.kinds, config.NodeConditionsCompliance) {
		var devices v1alpha1.NodeDeviceList
		if err := r.client.List(ctx, &devices, client.MatchingFields{index.NodeName: name}); err != nil {
			return f, fmt.Errorf("list devices of node %s: %w", name, err)
		}
		f.devices = devices.Items
	}
	if !slices.Contains(r.kinds, config.NodeConditionsLifecycle) {
		return f, nil
	}
	var jobs v1alpha1.FirmwareJobList
	if err := r.client.List(ctx, &jobs, client.MatchingFields{index.NodeName: name}); err != nil {
		return f, fmt.Errorf("list jobs of node %s: %w", name, err)
	}
	for i := range jobs.Items {
		if jobs.Items[i].HasPlace() {
			f.job = &jobs.Items[i]
		}
	}
	return f, nil
}
