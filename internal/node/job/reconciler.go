package job

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
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
	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/internal/node/maintenance"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
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
	Client      client.Client
	NodeName    string
	Journal     *journal.Journal
	Engine      *Engine
	Maintenance maintenance.Window
	Results     Results
	Recorder    events.EventRecorder
	// Catalog holds the steps of this host.
	Catalog plan.Catalog
	// Only names the one job that may be begun, where this process is there for no other; empty for any. What the journal
	// holds is finished in any case.
	Only string
	// Now is the clock; nil for time.Now.
	Now func() time.Time

	mu     sync.Mutex
	last   time.Time
	events chan event.GenericEvent
}

// progressInterval is how often mere progress of a step is reported at most.
const progressInterval = 2 * time.Second

// eventBacklog is far more than there are notifications while one of them waits to be taken; beyond it one is dropped,
// and the next transition brings what it had to tell.
const eventBacklog = 1024

// Notify makes the reconciler report a job: transitions at once, progress every two seconds. It does not block.
func (r *Reconciler) Notify(s Snapshot) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	if !s.Transition && now.Sub(r.last) < progressInterval {
		return
	}
	r.last = now
	if s.Job.Record.Outcome != "" {
		r.enqueue(&v1alpha1.NodeFirmware{}) // a job that ended makes room for those that wait
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

// requests says which jobs a NodeFirmware or a notification concerns. A job that is in the journal alone counts too:
// somebody may have deleted its object while it holds the node.
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
	v := decide(f)
	if v == submit && r.Only != "" && r.Only != req.Name {
		v = queue
	}
	if err := r.act(ctx, f, v); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{}, r.report(ctx, f.object, f.known, v)
}

// state is what is known of one job.
type state struct {
	// object is nil when there is none (any more).
	object *v1alpha1.FirmwareJob
	// known is the job in the journal, nil when the daemon never took it up.
	known *journal.Job
	// busy names the job that runs now; empty when none does.
	busy string
	// released is when a person asked to return the node to service; zero when nobody did.
	released time.Time
	// devices of the node by name, for a job that is not known yet.
	devices map[string]v1alpha1.NodeDevice
	// retry is when a person asked to try again what had failed; zero when nobody did.
	retry time.Time
	now   time.Time
}

func (r *Reconciler) gather(ctx context.Context, name string) (state, error) {
	f := state{now: r.now(), devices: map[string]v1alpha1.NodeDevice{}}
	view, err := r.Journal.View()
	if err != nil {
		return f, err
	}
	object := &v1alpha1.FirmwareJob{}
	switch err := r.Client.Get(ctx, client.ObjectKey{Name: name}, object); {
	case err == nil && object.Spec.NodeName == r.NodeName:
		f.object, f.known = object, view.Job(string(object.UID))
	case err == nil:
		return f, nil
	case !apierrors.IsNotFound(err):
		return f, fmt.Errorf("get job %s: %w", name, err)
	default:
		if held := view.Held(); held != nil && held.Name == name {
			f.known = held
		}
	}
	if active := view.Active(); active != nil && active.Record.Outcome == "" {
		f.busy = active.Name
	}
	if err := r.gatherRequests(ctx, &f); err != nil {
		return f, err
	}
	if held := view.Held(); f.known == nil && held != nil && held.Name == name && releasedAfter(f.released, held.FailedAt) {
		f.known = held // its object was deleted, and another that waits has the name
	}
	if f.object != nil && f.known == nil {
		err = r.gatherDevices(ctx, f)
	}
	return f, err
}

// gatherRequests reads what a person asked of the node.
func (r *Reconciler) gatherRequests(ctx context.Context, f *state) error {
	var node v1alpha1.NodeFirmware
	switch err := r.Client.Get(ctx, client.ObjectKey{Name: r.NodeName}, &node); {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("get node firmware %s: %w", r.NodeName, err)
	}
	if at := node.Spec.ReleaseRequestedAt; at != nil {
		f.released = at.Time
	}
	if at := node.Spec.RetryRequestedAt; at != nil {
		f.retry = at.Time
	}
	return nil
}

// gatherDevices reads the devices of the node.
func (r *Reconciler) gatherDevices(ctx context.Context, f state) error {
	var devices v1alpha1.NodeDeviceList
	if err := r.Client.List(ctx, &devices); err != nil {
		return fmt.Errorf("list devices of the node: %w", err)
	}
	for _, d := range devices.Items {
		if d.Spec.NodeName == r.NodeName {
			f.devices[d.Name] = d
		}
	}
	return nil
}

// verdict is what to do about one job.
type verdict int

const (
	leave verdict = iota
	// queue: tell that it waits.
	queue
	scan
	submit
	callOff
	cancel
	release
	follow
)

// decide is pure.
func decide(f state) verdict {
	switch {
	case f.known != nil && f.known.Held() && releasedAfter(f.released, f.known.FailedAt):
		return release
	case f.object == nil:
		return leave
	case f.known != nil && f.known.Record.Outcome == "" && f.object.Spec.Cancel != nil && f.known.Cancel == nil:
		return cancel
	case f.known != nil:
		return follow
	case ended(f.object):
		return leave
	case f.object.Spec.Type == v1alpha1.JobTypeScan && f.busy == "":
		return scan
	case f.object.Spec.Type == v1alpha1.JobTypeScan:
		return queue
	case f.object.Spec.Cancel != nil:
		return callOff
	case meta.IsStatusConditionTrue(f.object.Status.Conditions, v1alpha1.ConditionAdmitted) && f.busy == "":
		return submit
	}
	return queue
}

// releasedAfter compares in seconds, which is what the API can say.
func releasedAfter(requested time.Time, failed *time.Time) bool {
	return failed != nil && !requested.IsZero() && !requested.Before(failed.Truncate(time.Second))
}

func ended(job *v1alpha1.FirmwareJob) bool {
	return meta.IsStatusConditionTrue(job.Status.Conditions, v1alpha1.ConditionComplete) ||
		meta.IsStatusConditionTrue(job.Status.Conditions, v1alpha1.ConditionFailed)
}

func (r *Reconciler) act(ctx context.Context, f state, v verdict) error {
	switch v {
	case scan:
		if err := r.Results.Refresh(ctx); err != nil {
			return fmt.Errorf("scan for job %s: %w", f.object.Name, err)
		}
	case submit:
		err := r.Engine.Submit(r.newJob(f))
		if errors.Is(err, ErrBusy) {
			return nil // it ends, and that brings this job back
		}
		r.mu.Lock()
		r.enqueue(&v1alpha1.NodeFirmware{}) // the job that held the node, if one did, has been superseded
		r.mu.Unlock()
		return err
	case callOff:
		return r.Engine.CallOff(r.newJob(f), cancelReason(f.object))
	case cancel:
		r.Engine.Cancel(f.known.UID, cancelReason(f.object))
	case release:
		return r.Engine.Release(f.known.UID)
	}
	return nil
}

func cancelReason(job *v1alpha1.FirmwareJob) string {
	if job.Spec.Cancel.Reason == "" {
		return "no reason given"
	}
	return job.Spec.Cancel.Reason
}

// report writes the status of the job once, if it differs from what the API server has.
func (r *Reconciler) report(ctx context.Context, object *v1alpha1.FirmwareJob, job *journal.Job, v verdict) error {
	if object == nil {
		return r.reportDeleted(ctx, job)
	}
	if v == leave {
		return nil
	}
	view, err := r.Journal.View()
	if err != nil {
		return err
	}
	known := view.Job(string(object.UID))
	if known == nil {
		return r.write(ctx, object, r.unknownStatus(object, view, v))
	}
	s, ok := r.Engine.Snapshot(known.UID)
	if !ok || known.Record.Outcome != "" {
		s = Snapshot{Job: *known}
	}
	finished := s.Job.Record.Outcome != ""
	if finished && !s.Job.Reported {
		if err := r.beforeEnd(ctx, s.Job); err != nil {
			return err
		}
	}
	if err := r.write(ctx, object, Status(s, r.NodeName, object.Status, object.Generation, r.now())); err != nil {
		return err
	}
	if !finished || s.Job.Reported {
		return nil
	}
	s.Job.Reported = true
	return r.Journal.Save(s.Job)
}

// unknownStatus is the status of a job that is not in the journal.
func (r *Reconciler) unknownStatus(object *v1alpha1.FirmwareJob, view journal.View, v verdict) v1alpha1.FirmwareJobStatus {
	now := r.now()
	if v == scan {
		return scanned(object, r.NodeName, now)
	}
	why := "The job waits for its admission."
	if active := view.Active(); active != nil && active.Record.Outcome == "" {
		why = fmt.Sprintf("The job waits until job %s has ended.", active.Name)
	}
	return QueuedStatus(why, r.NodeName, object.Status, object.Generation, now)
}

// scanned is the status of a Scan job that is complete.
func scanned(object *v1alpha1.FirmwareJob, node string, now time.Time) v1alpha1.FirmwareJobStatus {
	done := journal.Job{Name: object.Name, Accepted: now, Finished: &now, Record: step.Record{Outcome: step.Complete}}
	return Status(Snapshot{Job: done}, node, object.Status, object.Generation, now)
}

func (r *Reconciler) write(ctx context.Context, object *v1alpha1.FirmwareJob, want v1alpha1.FirmwareJobStatus) error {
	if sameStatus(object.Status, want) {
		return nil
	}
	err := r.Client.Status().Apply(ctx, applyStatus(object, want), client.FieldOwner(v1alpha1.FieldOwnerDaemon), client.ForceOwnership)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("report job %s: %w", object.Name, err)
	}
	tell(r.Recorder, object, want)
	return nil
}

// reportDeleted makes the consequences of a job visible that holds the node though its object is gone: the maintenance says
// that it failed, and the devices why.
func (r *Reconciler) reportDeleted(ctx context.Context, job *journal.Job) error {
	if job == nil || !job.Held() || job.Reported {
		return nil
	}
	if err := r.beforeEnd(ctx, *job); err != nil {
		return err
	}
	done := *job
	done.Reported = true
	return r.Journal.Save(done)
}

// beforeEnd makes the consequences of a job visible before its end is: who sees a finished job plans the next one from
// what the devices say.
func (r *Reconciler) beforeEnd(ctx context.Context, job journal.Job) error {
	if job.Held() {
		if err := r.Maintenance.Fail(ctx, job.Record.Failure.Message); err != nil {
			return err
		}
	}
	if err := r.Results.Refresh(ctx); err != nil {
		return fmt.Errorf("publish results of job %s: %w", job.Name, err)
	}
	return nil
}

func sameStatus(old, want v1alpha1.FirmwareJobStatus) bool {
	old, want = *old.DeepCopy(), *want.DeepCopy()
	old.Conditions, want.Conditions = ordered(old.Conditions), ordered(want.Conditions)
	return equality.Semantic.DeepEqual(old, want)
}
