package template

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/fieldset"
	"github.com/nodefirmware/node-firmware-operator/internal/match"
	"github.com/nodefirmware/node-firmware-operator/internal/status"
)

// reconcileTemplate writes a template's status when it is out of date, at the pace of the template.
func (r *Reconciler) reconcileTemplate(ctx context.Context, k key) (reconcile.Result, error) {
	pace := r.paceOf(k.name)
	if wait := pace.wait(r.now(), r.interval, true); wait > 0 { // too early whatever the status is
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	o := &v1alpha1.FirmwareTemplate{}
	if err := r.reader.Get(ctx, client.ObjectKey{Name: k.name}, o); err != nil {
		if apierrors.IsNotFound(err) {
			r.forget(k)
			return reconcile.Result{}, nil
		}
		return reconcile.Result{}, fmt.Errorf("read firmware template %s: %w", k.name, err)
	}
	r.mu.Lock()
	tally, ok := r.index.Tally(k.name)
	r.mu.Unlock()
	if !ok || tally.UID != string(o.UID) || tally.Generation != o.Generation {
		return r.rest(k), nil // it is being deleted, or its event has not reached the index yet
	}
	if r.behind(k, o.ResourceVersion) {
		return reconcile.Result{RequeueAfter: again}, nil
	}
	next := r.statusOf(o, tally)
	if equality.Semantic.DeepEqual(o.Status, next) {
		return r.rest(k), nil
	}
	if wait := pace.wait(r.now(), r.interval, turns(o.Status.Conditions, next.Conditions)); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	version, err := r.writer.ApplyTemplateStatus(ctx, o, next)
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return reconcile.Result{RequeueAfter: again}, nil
	case err != nil:
		return reconcile.Result{}, err
	}
	r.wrote(k, version)
	r.mu.Lock()
	r.paces[k.name] = r.paces[k.name].after(r.now(), r.interval)
	r.mu.Unlock()
	r.reportTemplate(o, next)
	return r.rest(k), nil
}

func (r *Reconciler) paceOf(name string) pace {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.paces[name]
}

// turns reports whether a condition comes, goes, or has another status or reason.
func turns(old, next []metav1.Condition) bool {
	return len(old) != len(next) || slices.ContainsFunc(next, func(c metav1.Condition) bool { return turned(old, c) })
}

func (r *Reconciler) statusOf(o *v1alpha1.FirmwareTemplate, t match.Tally) v1alpha1.TemplateStatus {
	return v1alpha1.TemplateStatus{
		ObservedGeneration: t.Generation,
		Conditions:         status.Template(o.Name, t, o.Status.Conditions, r.now()),
		Nodes:              v1alpha1.TemplateNodes{Selected: t.Nodes, UpToDate: t.NodesApplied, OutOfDate: t.NodesNotApplied},
		Devices: v1alpha1.TemplateDevices{
			Matched: t.Matched, UpToDate: t.Applied, OutOfDate: t.NotApplied, Failed: t.Failed, Blocked: t.Blocked, Conflicting: t.Conflicting,
		},
		AssignedDevices: t.Devices,
	}
}

// reportTemplate emits one Warning when a template gets into a conflict or has an invalid spec.
func (r *Reconciler) reportTemplate(o *v1alpha1.FirmwareTemplate, next v1alpha1.TemplateStatus) {
	for _, kind := range []string{v1alpha1.ConditionConflict, v1alpha1.ConditionStalled} {
		now := meta.FindStatusCondition(next.Conditions, kind)
		if now == nil || !turned(o.Status.Conditions, *now) {
			continue
		}
		if kind == v1alpha1.ConditionStalled && now.Reason != v1alpha1.ReasonInvalidSpec {
			continue
		}
		r.recorder.Eventf(o, nil, corev1.EventTypeWarning, now.Reason, "Assign", "%s", now.Message)
	}
}

// Writer writes what was decided. Each method changes only what the operator owns, never creates an object, and returns
// the new resource version. The error is a conflict or not-found of the API when the object is not the one that the
// decision is about.
type Writer interface {
	// ApplyFirmware sets spec.origin and spec.firmware of a device, or removes them when nothing is assigned. It refuses a device with
	// another uid.
	ApplyFirmware(ctx context.Context, d *v1alpha1.NodeDevice, next *match.Assigned) (version string, err error)
	// ApplyConditions sets the operator's conditions of a device to those of the given list. It refuses a device in
	// another version than that given.
	ApplyConditions(ctx context.Context, d *v1alpha1.NodeDevice, version string, all []metav1.Condition) (next string, err error)
	// ApplyPins sets the condition of a NodeFirmware about its pins to that of the given list.
	ApplyPins(ctx context.Context, n *v1alpha1.NodeFirmware, all []metav1.Condition) (version string, err error)
	// ApplyTemplateStatus sets the status of a template. It refuses a template in another version.
	ApplyTemplateStatus(ctx context.Context, t *v1alpha1.FirmwareTemplate, s v1alpha1.TemplateStatus) (version string, err error)
}

// Applier is the Writer that uses server-side apply.
type Applier struct{ Client client.Client }

// ApplyFirmware is the Writer's.
func (a *Applier) ApplyFirmware(ctx context.Context, d *v1alpha1.NodeDevice, next *match.Assigned) (string, error) {
	if next == nil {
		return fieldset.ApplyDesired(ctx, a.Client, d, nil, nil)
	}
	return fieldset.ApplyDesired(ctx, a.Client, d, next.Origin, &next.DesiredFirmware)
}

// ApplyConditions is the Writer's.
func (a *Applier) ApplyConditions(ctx context.Context, d *v1alpha1.NodeDevice, version string, all []metav1.Condition) (string, error) {
	return fieldset.ApplyAssignment(ctx, a.Client, d, version, all)
}

// ApplyPins is the Writer's.
func (a *Applier) ApplyPins(ctx context.Context, n *v1alpha1.NodeFirmware, all []metav1.Condition) (string, error) {
	return fieldset.ApplyPins(ctx, a.Client, n.Name, all)
}

// ApplyTemplateStatus is the Writer's.
func (a *Applier) ApplyTemplateStatus(ctx context.Context, t *v1alpha1.FirmwareTemplate, s v1alpha1.TemplateStatus) (string, error) {
	return fieldset.ApplyTemplate(ctx, a.Client, t, s)
}

// growth is how many times longer each wait is than the one before, and slowest how many times StatusInterval the time between two writes
// of one template's status may become.
const growth, slowest = 3, 60

// pace is how often the status of one template is written. The first change after a rest is written at once. While a status
// goes on to change as soon as it may be written, the time between two writes triples from StatusInterval to sixty times that:
// the counters of a template whose 5,000 nodes begin a job cost a few writes and not one for each node. What changes a status
// or a reason of a condition waits no longer than StatusInterval.
type pace struct {
	written  time.Time
	interval time.Duration
}

// wait is how long the next write has to wait; 0 or less is now.
func (p pace) wait(now time.Time, least time.Duration, turns bool) time.Duration {
	if p.written.IsZero() {
		return 0
	}
	interval := p.interval
	if turns {
		interval = least
	}
	return interval - now.Sub(p.written)
}

// after is the pace after a write.
func (p pace) after(now time.Time, least time.Duration) pace {
	next := pace{written: now, interval: least}
	if !p.written.IsZero() && now.Sub(p.written) < 2*p.interval {
		next.interval = min(growth*p.interval, slowest*least)
	}
	return next
}

// statusQueue hands the templates whose status may be out of date to the controller of the statuses. It holds them back until
// that controller has started and the index is filled: a status that was counted before would be wrong.
type statusQueue struct {
	mu       sync.Mutex
	queue    queue
	isFilled bool
	held     map[key]struct{}
}

func (s *statusQueue) addAfter(k key, wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.queue == nil || !s.isFilled:
		s.held[k] = struct{}{}
	case wait > 0:
		s.queue.AddAfter(k, wait)
	default:
		s.queue.Add(k)
	}
}

// open says which queue is that of the controller.
func (s *statusQueue) open(q queue) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue = q
	s.hand()
}

// release says that the index is filled.
func (s *statusQueue) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.isFilled = true
	s.hand()
}

func (s *statusQueue) hand() {
	if s.queue == nil || !s.isFilled {
		return
	}
	for k := range s.held {
		s.queue.Add(k)
	}
	clear(s.held)
}
