package planner

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/internal/index"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/internal/seen"
	"github.com/nodefirmware/node-firmware-operator/internal/queue"
)

// DefaultQuietPeriod is how long the due updates of a node must not change before a job is queued.
const DefaultQuietPeriod = 60 * time.Second

const (
	// workers is how many nodes are planned at once, each by one worker.
	workers = 16
	// coalesce is how long the changes of a node's devices are gathered. A queued job that is no longer due is deleted that much
	// later; the daemon refuses one that was admitted meanwhile.
	coalesce = 250 * time.Millisecond
)

// Reconciler queues the update jobs. Each Reconcile plans one node: it reads the node's own objects, the policies and
// sources, which are few, and the jobs with bad images, all from the cache.
type Reconciler struct {
	client      client.Client
	recorder    events.EventRecorder
	now         func() time.Time
	quietPeriod time.Duration
	due         seen.Seen[string] // by the fingerprint of the work
	failed      seen.Seen[types.UID]
	queues      *queue.Queues
}

// New returns a reconciler that queues a job once the due updates of a node have not changed for the quiet period. The
// period is counted by this process: a new leader waits once more. The client's cache needs the indexes of package index.
func New(c client.Client, recorder events.EventRecorder, now func() time.Time, quietPeriod time.Duration) *Reconciler {
	return &Reconciler{client: c, recorder: recorder, now: now, quietPeriod: quietPeriod}
}

// Within bounds what is queued by the room that the policies with a limit have. Without it no limit applies.
func (r *Reconciler) Within(queues *queue.Queues) *Reconciler {
	r.queues = queues
	return r
}

// SetupWithManager adds the controller to the manager. Each change that can change the plan of a node enqueues that node.
func (r *Reconciler) SetupWithManager(mgr manager.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named("planner").
		Watches(&corev1.Node{}, &handler.EnqueueRequestForObject{}, builder.WithPredicates(nodeChanged)).
		Watches(&v1alpha1.NodeFirmware{}, &handler.EnqueueRequestForObject{}, builder.WithPredicates(firmwareChanged)).
		Watches(&v1alpha1.NodeDevice{}, gathered, builder.WithPredicates(deviceChanged)).
		Watches(&v1alpha1.FirmwareJob{}, handler.EnqueueRequestsFromMapFunc(toNode), builder.WithPredicates(jobChanged)).
		Watches(&v1alpha1.RolloutPolicy{}, handler.EnqueueRequestsFromMapFunc(r.toEveryNode), builder.WithPredicates(policyChanged)).
		Watches(&v1alpha1.FirmwareQuarantine{}, handler.EnqueueRequestsFromMapFunc(r.toTakers), builder.WithPredicates(quarantineChanged)).
		WatchesRawSource(source.Func(func(_ context.Context, q workQueue) error {
			if r.queues != nil {
				r.queues.OnWake(func(node string) { q.Add(reconcile.Request{NamespacedName: client.ObjectKey{Name: node}}) })
			}
			return nil
		})).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(r)
}

// gathered enqueues the node of a device when its other devices have had time to change too, as they do when a template
// assigns firmware and when the daemon reports a scan.
var gathered = handler.Funcs{
	CreateFunc:  func(_ context.Context, e event.CreateEvent, q workQueue) { enqueueNode(e.Object, q) },
	UpdateFunc:  func(_ context.Context, e event.UpdateEvent, q workQueue) { enqueueNode(e.ObjectNew, q) },
	DeleteFunc:  func(_ context.Context, e event.DeleteEvent, q workQueue) { enqueueNode(e.Object, q) },
	GenericFunc: func(_ context.Context, e event.GenericEvent, q workQueue) { enqueueNode(e.Object, q) },
}

type workQueue = workqueue.TypedRateLimitingInterface[reconcile.Request]

func enqueueNode(device client.Object, q workQueue) {
	for _, node := range toNode(context.Background(), device) {
		q.AddAfter(node, coalesce)
	}
}

func toNode(_ context.Context, o client.Object) []reconcile.Request {
	var out []reconcile.Request
	for _, node := range index.ByNode(o) {
		out = append(out, reconcile.Request{NamespacedName: client.ObjectKey{Name: node}})
	}
	return out
}

func (r *Reconciler) toEveryNode(ctx context.Context, _ client.Object) []reconcile.Request {
	var nodes corev1.NodeList
	if err := r.client.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
		return nil
	}
	var out []reconcile.Request
	for i := range nodes.Items {
		out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&nodes.Items[i])})
	}
	return out
}

// toTakers maps a quarantine to the nodes with a device that is to get its image.
func (r *Reconciler) toTakers(ctx context.Context, o client.Object) []reconcile.Request {
	q, ok := o.(*v1alpha1.FirmwareQuarantine)
	if !ok {
		return nil
	}
	var devices v1alpha1.NodeDeviceList
	if err := r.client.List(ctx, &devices, client.UnsafeDisableDeepCopy); err != nil {
		return nil
	}
	var out []reconcile.Request
	for i := range devices.Items {
		if slices.Contains(desiredImages(&devices.Items[i]), q.Spec.Digest) {
			out = append(out, reconcile.Request{NamespacedName: client.ObjectKey{Name: devices.Items[i].Spec.NodeName}})
		}
	}
	return out
}

// Reconcile plans the jobs of the node of that name.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (ctrl.Result, error) {
	f, err := r.gather(ctx, req.Name)
	if err != nil {
		return ctrl.Result{}, err
	}
	return r.act(ctx, f, decide(f))
}
