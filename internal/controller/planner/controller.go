package planner

import (
	"context"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/internal/seen"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/internal/watch"
	"github.com/nodefirmware/node-firmware-operator/internal/due"
	"github.com/nodefirmware/node-firmware-operator/internal/match"
	"github.com/nodefirmware/node-firmware-operator/internal/queue"
	"github.com/nodefirmware/node-firmware-operator/internal/schedule"
)

// DefaultQuietPeriod is how long the due updates of a node must not change before a job is queued.
const DefaultQuietPeriod = 60 * time.Second

const (
	// workers is how many nodes are planned at once, each by one worker.
	workers = 16
	// coalesce is how long the changes of a node's devices are gathered: several come when a template assigns firmware, and
	// when the daemon reports a scan. A queued job that is no longer due is deleted that much
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
	mark        func(*v1alpha1.FirmwareJob, []v1alpha1.NodeDevice)
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

// Marking has each new job say what it comes from, given the devices of its node, before it is queued; nil for nothing.
func (r *Reconciler) Marking(mark func(*v1alpha1.FirmwareJob, []v1alpha1.NodeDevice)) *Reconciler {
	r.mark = mark
	return r
}

// SetupWithManager adds the controller to the manager. Each change that can change the plan of a node enqueues that node.
func (r *Reconciler) SetupWithManager(mgr manager.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named("planner").
		Watches(&corev1.Node{}, &handler.EnqueueRequestForObject{}, builder.WithPredicates(nodeChanged)).
		Watches(&v1alpha1.NodeFirmware{}, &handler.EnqueueRequestForObject{}, builder.WithPredicates(firmwareChanged)).
		Watches(&v1alpha1.NodeDevice{}, watch.Delayed(coalesce, watch.ToNode), builder.WithPredicates(deviceChanged)).
		Watches(&v1alpha1.FirmwareJob{}, handler.EnqueueRequestsFromMapFunc(watch.ToNode), builder.WithPredicates(jobChanged)).
		Watches(&v1alpha1.RolloutPolicy{}, handler.EnqueueRequestsFromMapFunc(r.toEveryNode), builder.WithPredicates(policyChanged)).
		Watches(&v1alpha1.FirmwareQuarantine{}, handler.EnqueueRequestsFromMapFunc(r.toTakers), builder.WithPredicates(watch.Quarantines)).
		WatchesRawSource(source.Func(func(_ context.Context, q workQueue) error {
			if r.queues != nil {
				r.queues.OnWake(func(node string) { q.Add(reconcile.Request{NamespacedName: client.ObjectKey{Name: node}}) })
			}
			return nil
		})).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(r)
}

type workQueue = workqueue.TypedRateLimitingInterface[reconcile.Request]

func (r *Reconciler) toEveryNode(ctx context.Context, _ client.Object) []reconcile.Request {
	var nodes corev1.NodeList
	if err := r.client.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
		return nil
	}
	names := make([]string, len(nodes.Items))
	for i := range nodes.Items {
		names[i] = nodes.Items[i].Name
	}
	return watch.Requests(names...)
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
	var nodes []string
	for i := range devices.Items {
		d := &devices.Items[i].Spec
		if slices.Contains(d.Firmware.Images(), q.Spec.Digest) || d.Configuration.Digest() == q.Spec.Digest {
			nodes = append(nodes, d.NodeName)
		}
	}
	return watch.Requests(nodes...)
}

// Reconcile plans the jobs of the node of that name.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (ctrl.Result, error) {
	f, err := r.gather(ctx, req.Name)
	if err != nil {
		return ctrl.Result{}, err
	}
	return r.act(ctx, f, due.Decide(f))
}

// nodeChanged passes creations, deletions, and labels, by which policies choose.
var nodeChanged = watch.Changed(func(a, b *corev1.Node) bool { return !maps.Equal(a.Labels, b.Labels) })

// policyChanged passes what changes for which nodes something is required, nothing is queued, a full queue refuses none, or a pin waits.
var policyChanged = watch.Changed(func(a, b *v1alpha1.RolloutPolicy) bool {
	aborted := func(p *v1alpha1.RolloutPolicy) bool { return p.Spec.State == v1alpha1.RolloutAborted }
	return aborted(a) != aborted(b) || !slices.Equal(a.Spec.Require, b.Spec.Require) ||
		!equality.Semantic.DeepEqual(a.Spec.NodeSelector, b.Spec.NodeSelector) ||
		!equality.Semantic.DeepEqual(a.Spec.Waves, b.Spec.Waves) || !slices.Equal(schedule.HaltsOf(a), schedule.HaltsOf(b))
})

// firmwareChanged passes changes of the spec, where retries are requested, and of what holds the node.
var firmwareChanged = watch.Changed(func(a, b *v1alpha1.NodeFirmware) bool {
	return a.Generation != b.Generation || a.Status.HeldBy != b.Status.HeldBy || a.Status.Requests.Retry != b.Status.Requests.Retry
})

// deviceChanged passes what a decision depends on: the desired and the present firmware, the arrays of a drive, the failures, and
// the conditions that findings has.
var deviceChanged = watch.Changed(func(a, b *v1alpha1.NodeDevice) bool {
	return a.Generation != b.Generation || a.Status.ObservedGeneration != b.Status.ObservedGeneration ||
		a.Status.UniqueID != b.Status.UniqueID || !slices.Equal(a.Status.Arrays, b.Status.Arrays) ||
		!equality.Semantic.DeepEqual(a.Status.Firmware, b.Status.Firmware) ||
		!equality.Semantic.DeepEqual(a.Status.Failure, b.Status.Failure) || a.Status.ModelKey() != b.Status.ModelKey() ||
		findingsOf(a) != findingsOf(b)
})

// jobChanged passes what a decision depends on; progress does not.
var jobChanged = watch.Changed(func(a, b *v1alpha1.FirmwareJob) bool {
	return a.Ended() != b.Ended() || a.Held() != b.Held() || a.Admitted() != b.Admitted() ||
		!slices.Equal(a.Status.Blamed, b.Status.Blamed)
})

// findings is the part of a device's conditions that a decision depends on.
type findings struct{ blocked, conflict, unread bool }

func findingsOf(d *v1alpha1.NodeDevice) findings {
	return findings{
		blocked:  meta.IsStatusConditionTrue(d.Status.Conditions, v1alpha1.ConditionBlocked),
		conflict: meta.IsStatusConditionTrue(d.Status.Conditions, v1alpha1.ConditionConflict),
		unread:   match.Unread(d),
	}
}
