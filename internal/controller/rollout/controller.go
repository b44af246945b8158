package rollout

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/internal/watch"
	"github.com/nodefirmware/node-firmware-operator/internal/desired"
	"github.com/nodefirmware/node-firmware-operator/internal/match"
	"github.com/nodefirmware/node-firmware-operator/internal/neighbour"
	"github.com/nodefirmware/node-firmware-operator/internal/quarantine"
	"github.com/nodefirmware/node-firmware-operator/internal/queue"
	"github.com/nodefirmware/node-firmware-operator/internal/schedule"
)

// Events are gathered before a pass, so that a fleet that changes at once costs few passes and few writes of the ledgers: for coalesce,
// and where passes take longer, as where the API server is busy, for rests times the last one, but for no longer than longestRest.
const (
	coalesce    = 100 * time.Millisecond
	rests       = 5
	longestRest = time.Second
)

// firstRetry and lastRetry are the waits before a pass that follows one with an error. They stay short: one object that cannot be
// written must not keep the other policies from the opening of a window, which no event announces.
const firstRetry, lastRetry = 5 * time.Millisecond, 10 * time.Second

// pass is the one key of the queue: every pass looks at all policies, because a node has at most one job at a time,
// whichever policies choose it.
var pass = reconcile.Request{NamespacedName: types.NamespacedName{Name: "rollout"}}

// Reconciler admits queued jobs within the budgets of the rollout policies.
//
// A pass reads the ledgers, a handful of objects, from the API server, and nodes and jobs from the cache without
// copying them; with 5,000 nodes and 5,000 queued jobs it takes some 30 ms. It happens only after an event that can
// change a decision. It writes a policy only when its status changes, and itself writes to no job: two controllers beside it tell the
// jobs that they are admitted, and why they wait.
type Reconciler struct {
	client   client.Client
	direct   client.Reader
	recorder events.EventRecorder
	now      func() time.Time
	ownNode  string
	mu       sync.Mutex // of written and working
	written  map[types.UID]admitted
	// working are the nodes with a job that had not ended when the last pass looked; nil before the first one.
	working map[string]bool
	// reporters are the jobs that reported bad images, also those that are gone before a quarantine lists them.
	reporters quarantine.Reporters
	calendars calendars
	durations schedule.Durations
	// expected is how long a job takes about which too little is known, and paces are how fast the jobs of the policies end.
	expected time.Duration
	paces    map[types.UID]pace
	queues   *queue.Queues
	unheard  unheard
	lost     lost
	// drained says by whom nodes are drained, as in config.Operator.
	drained string
	// namespace is where NodeMaintenances are shared, and cordoned are the nodes that the last pass found cordoned by somebody else.
	namespace string
	cordoned  map[string]bool
	// labels are the last known ones of the nodes in the ledgers.
	labels map[string]map[string]string
	// admit and explain tell jobs that they may run, and why they wait.
	admit, explain *teller
	// passes is the queue of the passes; nil until the controller runs. Pause is how long events are gathered before one.
	passes atomic.Pointer[workQueue]
	pause  atomic.Int64
}

// New returns a reconciler. It reads ledgers, and what their entries depend on, through direct, which must not be a
// cache. The client's cache needs the indexes of package index. The jobs of ownNode, the node the operator runs on, go
// last; it may be empty.
func New(c client.Client, direct client.Reader, recorder events.EventRecorder, now func() time.Time, ownNode string) *Reconciler {
	r := &Reconciler{client: c, direct: direct, recorder: recorder, now: now, ownNode: ownNode, written: map[types.UID]admitted{},
		calendars: calendars{}, expected: schedule.DefaultExpected, paces: map[types.UID]pace{}}
	r.admit, r.explain = newTeller(r.writeAdmitted, r.soon), newTeller(r.writeAdmitted, r.soon)
	return r
}

// Expecting says how long a job takes about which too little is known.
func (r *Reconciler) Expecting(d time.Duration) *Reconciler {
	r.expected = d
	return r
}

// Draining says by whom nodes are drained, as in config.Operator. It returns r.
func (r *Reconciler) Draining(by string) *Reconciler {
	r.drained = by
	return r
}

// Within tells the room after each pass how many nodes wait.
func (r *Reconciler) Within(queues *queue.Queues) *Reconciler {
	r.queues = queues
	return r
}

// SetupWithManager starts a pass on each change that can change a decision, and one when the manager starts.
func (r *Reconciler) SetupWithManager(mgr manager.Manager) error {
	changed := r.onChange()
	err := ctrl.NewControllerManagedBy(mgr).Named("rollout").
		Watches(&v1alpha1.RolloutPolicy{}, changed, builder.WithPredicates(policyChanged)).
		Watches(&v1alpha1.FirmwareJob{}, changed, builder.WithPredicates(jobChanged)).
		Watches(&corev1.Node{}, changed, builder.WithPredicates(nodeChanged)).
		Watches(&v1alpha1.FirmwareTemplate{}, changed, builder.WithPredicates(templateChanged)).
		Watches(&v1alpha1.FirmwareSource{}, changed, builder.WithPredicates(sourceChanged)).
		Watches(&v1alpha1.FirmwareQuarantine{}, changed, builder.WithPredicates(watch.Quarantines)).
		Watches(&v1alpha1.NodeDevice{}, changed, builder.WithPredicates(deviceChanged, predicate.NewPredicateFuncs(r.works))).
		Watches(&v1alpha1.NodeFirmware{}, changed, builder.WithPredicates(firmwareChanged)).
		WatchesRawSource(source.Func(func(_ context.Context, q workQueue) error {
			r.passes.Store(&q)
			q.Add(pass)
			if r.queues != nil {
				r.queues.OnChange(r.soon)
			}
			return nil
		})).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: 1,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, lastRetry),
		}).
		Complete(r)
	return errors.Join(err, r.admit.setup(mgr, "admission", admitters), r.explain.setup(mgr, "waiting", explainers))
}

// Reconcile is one pass over all policies.
func (r *Reconciler) Reconcile(ctx context.Context, _ reconcile.Request) (ctrl.Result, error) {
	began := time.Now()
	defer func() { r.pause.Store(int64(min(max(coalesce, rests*time.Since(began)), longestRest))) }()
	f, err := r.gather(ctx)
	if err != nil {
		return ctrl.Result{}, err
	}
	result, err := r.act(ctx, f, schedule.Decide(f.schedule))
	if err != nil {
		return result, err
	}
	if r.unheard.waits() {
		sooner(&result, listenAgain)
	}
	if next := r.lost.next(f.schedule.Now); next > 0 {
		sooner(&result, next)
	}
	if f.unclear != nil {
		return ctrl.Result{}, f.unclear // with which the next pass comes soon
	}
	return result, nil
}

// sooner asks for another pass after d at the latest.
func sooner(result *ctrl.Result, d time.Duration) {
	if result.RequeueAfter == 0 || result.RequeueAfter > d {
		result.RequeueAfter = d
	}
}

type workQueue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// works reports whether the node of a device has a job. The devices of others decide nothing: a job that is queued later starts a pass
// of its own, which looks at them then.
func (r *Reconciler) works(o client.Object) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	d, ok := o.(*v1alpha1.NodeDevice)
	return !ok || r.working == nil || r.working[d.Spec.NodeName]
}

// noteWorking remembers which nodes have a job.
func (r *Reconciler) noteWorking(f facts) {
	working := make(map[string]bool, len(f.jobs))
	for _, j := range f.jobs {
		if schedule.StateOf(j) != schedule.Finished {
			working[j.Spec.NodeName] = true
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.working = working
}

// soon asks for another pass.
func (r *Reconciler) soon() {
	if q := r.passes.Load(); q != nil {
		(*q).AddAfter(pass, again)
	}
}

func (r *Reconciler) onChange() handler.Funcs {
	add := func(q workQueue) { q.AddAfter(pass, max(coalesce, time.Duration(r.pause.Load()))) }
	return handler.Funcs{
		CreateFunc:  func(_ context.Context, _ event.CreateEvent, q workQueue) { add(q) },
		UpdateFunc:  func(_ context.Context, _ event.UpdateEvent, q workQueue) { add(q) },
		DeleteFunc:  func(_ context.Context, _ event.DeleteEvent, q workQueue) { add(q) },
		GenericFunc: func(_ context.Context, _ event.GenericEvent, q workQueue) { add(q) },
	}
}

// policyChanged passes what may change a decision: the spec, or a ledger somebody changed. Counters do not.
var policyChanged = watch.Changed(func(a, b *v1alpha1.RolloutPolicy) bool {
	return a.Generation != b.Generation || !slices.EqualFunc(a.Status.Admitted, b.Status.Admitted,
		func(x, y v1alpha1.AdmittedNode) bool { return schedule.EntryOf(x) == schedule.EntryOf(y) })
})

// jobChanged passes what may change a decision; progress does not.
var jobChanged = watch.Changed(func(a, b *v1alpha1.FirmwareJob) bool {
	return schedule.StateOf(a) != schedule.StateOf(b) || !ptr.Equal(a.Spec.Priority, b.Spec.Priority) || !slices.Equal(a.Status.Blamed, b.Status.Blamed)
})

// templateChanged passes what may change the order of the queue.
var templateChanged = watch.Changed(func(a, b *v1alpha1.FirmwareTemplate) bool { return a.Spec.Priority != b.Spec.Priority })

// sourceChanged passes the images, one of which a job may need to roll back to.
var sourceChanged = watch.Changed(func(a, b *v1alpha1.FirmwareSource) bool {
	return !equality.Semantic.DeepEqual(a.Status.Images, b.Status.Images)
})

// deviceChanged passes what may keep a job from being admitted: the model, whether a job left the device unhealthy, and what
// says whether a rollback image is for the device.
var deviceChanged = watch.Changed(func(a, b *v1alpha1.NodeDevice) bool {
	return a.Status.ModelKey() != b.Status.ModelKey() || !equality.Semantic.DeepEqual(a.Status.Failure, b.Status.Failure) ||
		!reflect.DeepEqual(match.DeviceOf(a), match.DeviceOf(b)) || running(a) != running(b) || a.Spec.SourceName() != b.Spec.SourceName()
})

// running is the version that the device runs; empty where it was not read.
func running(d *v1alpha1.NodeDevice) string {
	if d.Status.Firmware == nil {
		return ""
	}
	return d.Status.Firmware.Running
}

// firmwareChanged passes what may let such a job be admitted: the first scan, and a request to retry. It also passes whether
// the node is at work, which frees the place of a job that is gone.
var firmwareChanged = watch.Changed(func(a, b *v1alpha1.NodeFirmware) bool {
	return isScanned(a) != isScanned(b) || desired.Retry(a) != desired.Retry(b) ||
		runs(a) != runs(b) || heldBy(a) != heldBy(b)
})

// nodeChanged passes what may change a decision; heartbeats do not.
var nodeChanged = watch.Changed(func(a, b *corev1.Node) bool {
	return isReady(a) != isReady(b) || a.Spec.Unschedulable != b.Spec.Unschedulable || !maps.Equal(a.Labels, b.Labels) ||
		neighbour.Has(a) != neighbour.Has(b) || isTaken(a) != isTaken(b)
})
