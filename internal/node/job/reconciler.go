package job

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/maintenance"
	"github.com/nodefirmware/node-firmware-operator/internal/node/archive"
	"github.com/nodefirmware/node-firmware-operator/internal/node/engine"
	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
)

// Results publishes what the hardware and the journal say: the status of the node's NodeDevices and NodeFirmware.
type Results interface {
	// Refresh reads the hardware and brings the API up to date.
	Refresh(ctx context.Context) error
}

// Reconciler hands the FirmwareJobs of one node to the Engine and reports how far they are. Make it before the Engine:
// its Notify is for Config.Notify.
type Reconciler struct {
	// Client reads from a cache that holds this node's FirmwareJobs, NodeDevices and its NodeFirmware.
	Client client.Client
	// Reader reads from the API server itself.
	Reader      client.Reader
	NodeName    string
	Journal     *journal.Journal
	Engine      *engine.Engine
	Maintenance maintenance.Window
	// Looked is told how the maintenance of a held node stands.
	Looked   *maintenance.Looked
	Results  Results
	Recorder events.EventRecorder
	// Archive lists what can be restored, device by device and the newest first.
	Archive interface {
		List() ([]archive.Entry, error)
	}
	// Host reads the devices of this host.
	Host engine.Host
	// Catalog holds the steps of this host.
	Catalog plan.Catalog
	// Only names the one job this process may begin; empty for any. Jobs in the journal are finished in any case.
	Only string
	// StartTimeout bounds the time from the start of a job to its first write; zero for no limit.
	StartTimeout time.Duration
	// Now is the clock; nil for time.Now.
	Now func() time.Time

	mu     sync.Mutex
	last   time.Time
	events chan event.GenericEvent
}

// progressInterval is how often mere progress of a step is reported at most, and erasingInterval that of drives that erase themselves, for hours.
const (
	progressInterval = 2 * time.Second
	erasingInterval  = 30 * time.Second
)

// eventBacklog is far more than there are notifications while one of them waits to be taken; beyond it one is dropped,
// and the next transition reports what it was about.
const eventBacklog = 1024

// Notify makes the reconciler report a job: transitions at once, progress every two seconds, and that of an erasure every 30. It does not block.
func (r *Reconciler) Notify(s engine.Snapshot) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now, interval := r.now(), progressInterval
	if current := s.Job.CurrentStep(); current != nil && current.Kind == plan.Erase {
		interval = erasingInterval
	}
	if !s.Transition && now.Sub(r.last) < interval {
		return
	}
	r.last = now
	if s.Job.Record.Outcome != "" {
		r.enqueue(&v1alpha1.NodeFirmware{}) // the end of a job lets the next one begin
		return
	}
	r.enqueue(&v1alpha1.FirmwareJob{ObjectMeta: metav1.ObjectMeta{Name: s.Job.Name}})
}

// enqueue must be called with the lock held.
func (r *Reconciler) enqueue(about client.Object) {
	select {
	case r.queue() <- event.GenericEvent{Object: about}:
	default:
	}
}

// queue must be called with the lock held.
func (r *Reconciler) queue() chan event.GenericEvent {
	if r.events == nil {
		r.events = make(chan event.GenericEvent, eventBacklog)
	}
	return r.events
}

func (r *Reconciler) now() time.Time {
	if r.Now != nil {
		return r.Now()
	}
	return time.Now()
}

// SetupWithManager starts the reconciler with the manager. The Engine is not started by it.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	r.mu.Lock()
	notifications := r.queue()
	r.mu.Unlock()
	concerned := handler.EnqueueRequestsFromMapFunc(r.requests)
	err := ctrl.NewControllerManagedBy(mgr).Named("firmwarejob").
		For(&v1alpha1.FirmwareJob{}).
		Watches(&v1alpha1.NodeFirmware{}, concerned, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WatchesRawSource(source.Channel(notifications, concerned)).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set up job controller: %w", err)
	}
	return nil
}

// requests are the jobs that a NodeFirmware or a notification concerns. A job that is in the journal alone counts too: its
// object may have been deleted while it holds the node.
func (r *Reconciler) requests(ctx context.Context, about client.Object) []reconcile.Request {
	if _, ok := about.(*v1alpha1.FirmwareJob); ok {
		return []reconcile.Request{{NamespacedName: client.ObjectKeyFromObject(about)}}
	}
	names := map[string]bool{}
	var jobs v1alpha1.FirmwareJobList
	if err := r.Client.List(ctx, &jobs); err == nil { // a cache that is not there yet brings every job by itself
		for _, j := range jobs.Items {
			names[j.Name] = true
		}
	}
	if view, err := r.Journal.View(); err == nil { // Reconcile reads it again and reports the error
		if held := view.Held(); held != nil {
			names[held.Name] = true
		}
	}
	var out []reconcile.Request
	for name := range names {
		out = append(out, reconcile.Request{NamespacedName: client.ObjectKey{Name: name}})
	}
	return out
}

// Reconcile takes one job a step further and reports it. It takes a request and not an object because a job outlives
// its object.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	f, err := r.gather(ctx, req.Name)
	if err != nil {
		return reconcile.Result{}, err
	}
	if err := r.noteHold(&f); err != nil {
		return reconcile.Result{}, err
	}
	v := decide(f)
	if err := r.act(ctx, f, v); err != nil {
		return reconcile.Result{}, err
	}
	r.Engine.Asked(req.Name)
	err = r.report(ctx, f.object, v)
	switch {
	case apierrors.IsConflict(err): // the job was written to meanwhile, or the cache is behind
		return reconcile.Result{RequeueAfter: reportAgain}, nil
	case err != nil:
		return reconcile.Result{}, err
	}
	if err := r.markReported(f, v); err != nil {
		return reconcile.Result{}, err
	}
	return r.hold(ctx, f, v)
}

// hold looks again and again whether the node of a failed job is still out of service, and takes it out again where its
// maintenance vanished. What it finds is reported by the next pass.
func (r *Reconciler) hold(ctx context.Context, f state, v verdict) (reconcile.Result, error) {
	if v == release || v == submit {
		r.Looked.Note(maintenance.State{}) // what was seen is nothing that the next job may say
	}
	if f.holds == nil || f.busy != "" || v == release || v == submit {
		return reconcile.Result{}, nil
	}
	if err := r.Maintenance.Fail(ctx, f.holds.Record.Failure.Message); err != nil {
		return reconcile.Result{}, err
	}
	is, err := r.Maintenance.State(ctx)
	if err == nil && r.Looked.Note(is) {
		return reconcile.Result{RequeueAfter: reportAgain}, nil
	}
	return reconcile.Result{RequeueAfter: holdAgain}, err
}

// holdAgain is the time between two looks at the maintenance of a held node.
const holdAgain = time.Minute

// reportAgain is the wait before a report is made again that was based on an old version of the job.
const reportAgain = 100 * time.Millisecond

// Observer stands in for the Reconciler where the jobs of the node are executed by other processes, one each. It reports of every
// job that has not begun what it waits for.
type Observer struct {
	// Client reads from a cache that holds this node's FirmwareJobs.
	Client   client.Client
	NodeName string
	// Turn is as in discovery.Config: a process that executes a job has it, and reports that job itself.
	Turn     func() (done func(), ok bool, err error)
	Recorder events.EventRecorder
	Now      func() time.Time
}

// turnRetry is the wait before the next attempt while another process executes a job.
const turnRetry = 15 * time.Second

// SetupWithManager starts the observer with the manager.
func (o *Observer) SetupWithManager(mgr ctrl.Manager) error {
	if err := ctrl.NewControllerManagedBy(mgr).Named("firmwarejob").For(&v1alpha1.FirmwareJob{}).Complete(o); err != nil {
		return fmt.Errorf("set up job observer: %w", err)
	}
	return nil
}

// Reconcile reports what a job waits for.
func (o *Observer) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	object := &v1alpha1.FirmwareJob{}
	if err := o.Client.Get(ctx, req.NamespacedName, object); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if object.Spec.NodeName != o.NodeName || object.Ended() || object.Status.StartTime != nil {
		return reconcile.Result{}, nil
	}
	done, ok, err := o.Turn()
	switch {
	case err != nil:
		return reconcile.Result{}, err
	case !ok:
		return reconcile.Result{RequeueAfter: turnRetry}, nil
	}
	defer done()
	return reconcile.Result{}, o.write(ctx, object, QueuedStatus(waitsFor(object), o.NodeName, object.Status, object.Generation, o.Now()))
}

func waitsFor(object *v1alpha1.FirmwareJob) string {
	if !object.MayBegin() {
		return "The job waits for its admission."
	}
	return "The job waits for the pod that executes it. The daemon of this node executes none (--update-strategy=pod); " +
		"if no pod comes, see that the operator runs with the same strategy."
}

// write reports a job unless it was changed meanwhile: the process that executes it may have begun, and the event of the
// change follows.
func (o *Observer) write(ctx context.Context, object *v1alpha1.FirmwareJob, want v1alpha1.FirmwareJobStatus) error {
	if err := write(ctx, o.Client, o.Recorder, object, want); !apierrors.IsConflict(err) {
		return err
	}
	return nil
}
