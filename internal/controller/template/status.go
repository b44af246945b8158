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

// templates are those of one kind.
type templates[T client.Object] struct {
	kind v1alpha1.OriginKind
	what string
	// statusOf is the status in an object.
	statusOf func(T) *v1alpha1.TemplateStatus
}

var (
	firmwareTemplates = templates[*v1alpha1.FirmwareTemplate]{
		v1alpha1.OriginTemplate, "firmware template", func(t *v1alpha1.FirmwareTemplate) *v1alpha1.TemplateStatus { return &t.Status },
	}
	configurationTemplates = templates[*v1alpha1.ConfigurationTemplate]{
		v1alpha1.OriginConfiguration, "configuration template", func(t *v1alpha1.ConfigurationTemplate) *v1alpha1.TemplateStatus { return &t.Status },
	}
)

// reconcileTemplate writes a template's status when it is out of date, at the pace of the template. O is what it is read into.
func reconcileTemplate[T client.Object](ctx context.Context, r *Reconciler, k key, o T, of templates[T]) (reconcile.Result, error) {
	pace := r.paceOf(k)
	if wait := pace.wait(r.now(), r.interval, true); wait > 0 { // too early whatever the status is
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	if err := r.reader.Get(ctx, client.ObjectKey{Name: k.name}, o); err != nil {
		if apierrors.IsNotFound(err) {
			r.forget(k)
			return reconcile.Result{}, nil
		}
		return reconcile.Result{}, fmt.Errorf("read %s %s: %w", of.what, k.name, err)
	}
	r.mu.Lock()
	tally, ok := r.index.Tally(match.Ref{Kind: of.kind, Name: k.name})
	r.mu.Unlock()
	if !ok || tally.UID != string(o.GetUID()) || tally.Generation != o.GetGeneration() {
		return r.rest(k), nil // it is being deleted, or its event has not reached the index yet
	}
	if r.behind(k, o.GetResourceVersion()) {
		return reconcile.Result{RequeueAfter: again}, nil
	}
	old := *of.statusOf(o)
	next := r.statusOf(k.name, old, tally)
	if equality.Semantic.DeepEqual(old, next) {
		return r.rest(k), nil
	}
	if wait := pace.wait(r.now(), r.interval, turns(old.Conditions, next.Conditions)); wait > 0 {
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
	r.paces[k] = r.paces[k].after(r.now(), r.interval)
	r.mu.Unlock()
	r.reportTemplate(o, old, next)
	return r.rest(k), nil
}

func (r *Reconciler) paceOf(k key) pace {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.paces[k]
}

// turns reports whether a condition comes, goes, or has another status or reason.
func turns(old, next []metav1.Condition) bool {
	return len(old) != len(next) || slices.ContainsFunc(next, func(c metav1.Condition) bool { return turned(old, c) })
}

func (r *Reconciler) statusOf(name string, old v1alpha1.TemplateStatus, t match.Tally) v1alpha1.TemplateStatus {
	return v1alpha1.TemplateStatus{
		ObservedGeneration: t.Generation,
		Conditions:         status.Template(name, t, old.Conditions, r.now()),
		Nodes:              v1alpha1.TemplateNodes{Selected: t.Nodes, UpToDate: t.NodesApplied, OutOfDate: t.NodesNotApplied, Baselines: t.Baselines},
		Devices: v1alpha1.TemplateDevices{
			Matched: t.Matched, UpToDate: t.Applied, OutOfDate: t.NotApplied, Failed: t.Failed, Blocked: t.Blocked, Conflicting: t.Conflicting,
		},
		AssignedDevices: t.Devices,
	}
}

// reportTemplate emits one Warning when a template gets into a conflict or has an invalid spec.
func (r *Reconciler) reportTemplate(o client.Object, old, next v1alpha1.TemplateStatus) {
	for _, kind := range []string{v1alpha1.ConditionConflict, v1alpha1.ConditionStalled} {
		now := meta.FindStatusCondition(next.Conditions, kind)
		if now == nil || !turned(old.Conditions, *now) {
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
	// ApplyDesired sets spec.origin, spec.firmware and spec.configuration of a device, or removes what is not assigned. It refuses a device
	// with another uid.
	ApplyDesired(ctx context.Context, d *v1alpha1.NodeDevice, next match.Decision) (version string, err error)
	// ApplyConditions sets the operator's conditions of a device to those of the given list. It refuses a device in
	// another version than that given.
	ApplyConditions(ctx context.Context, d *v1alpha1.NodeDevice, version string, all []metav1.Condition) (next string, err error)
	// ApplyPins sets the condition of a NodeFirmware about its pins to that of the given list.
	ApplyPins(ctx context.Context, n *v1alpha1.NodeFirmware, all []metav1.Condition) (version string, err error)
	// ApplyTemplateStatus sets the status of a template. It refuses a template in another version.
	ApplyTemplateStatus(ctx context.Context, t client.Object, s v1alpha1.TemplateStatus) (version string, err error)
}

// Applier is the Writer that uses server-side apply.
type Applier struct{ Client client.Client }

// ApplyDesired is the Writer's.
func (a *Applier) ApplyDesired(ctx context.Context, d *v1alpha1.NodeDevice, next match.Decision) (string, error) {
	return fieldset.ApplyDesired(ctx, a.Client, d, v1alpha1.NodeDeviceSpec{
		Origin: next.Origin(), Firmware: next.Firmware.Desired(), Configuration: next.Configuration.Desired(),
	})
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
func (a *Applier) ApplyTemplateStatus(ctx context.Context, t client.Object, s v1alpha1.TemplateStatus) (string, error) {
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
