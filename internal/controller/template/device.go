package template

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/match"
	"github.com/nodefirmware/node-firmware-operator/internal/status"
)

// again is the wait before an object that changed meanwhile is reconciled again. Its event usually comes first.
const again = time.Second

// assignment is one device, the decision for it, and the conditions that follow.
type assignment struct {
	object   *v1alpha1.NodeDevice
	decision match.Decision
	// conditions as they should be; changed is true when the operator's own differ from those of the object.
	conditions []metav1.Condition
	changed    bool
}

func (r *Reconciler) reconcileDevice(ctx context.Context, k key) (reconcile.Result, error) {
	a, result, err := r.gather(ctx, k)
	if a == nil || err != nil {
		return result, err
	}
	switch err := r.act(ctx, k, a); {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err): // gone, or another device of that name
		return reconcile.Result{RequeueAfter: again}, nil
	case err != nil:
		return reconcile.Result{}, err
	}
	r.report(a)
	return r.rest(k), nil
}

// gather reads the device and the decision. It returns nil when there is nothing to act on.
func (r *Reconciler) gather(ctx context.Context, k key) (*assignment, reconcile.Result, error) {
	o := &v1alpha1.NodeDevice{}
	if err := r.reader.Get(ctx, client.ObjectKey{Name: k.name}, o, client.UnsafeDisableDeepCopy); err != nil {
		if apierrors.IsNotFound(err) {
			r.forget(k)
			return nil, reconcile.Result{}, nil
		}
		return nil, reconcile.Result{}, fmt.Errorf("read node device %s: %w", k.name, err)
	}
	r.mu.Lock()
	decision, known := r.index.Decision(k.name)
	r.mu.Unlock()
	if !known || o.DeletionTimestamp != nil || decision.UID != string(o.UID) {
		return nil, r.rest(k), nil
	}
	if r.behind(k, o.ResourceVersion) {
		return nil, reconcile.Result{RequeueAfter: again}, nil
	}
	a := &assignment{object: o, decision: decision}
	a.conditions = status.Assignment(decision, o.Status.Conditions, o.Generation, r.now())
	a.changed = !sameConditions(o.Status.Conditions, a.conditions, status.AssignmentConditions)
	return a, reconcile.Result{}, nil
}

// act writes what differs. A condition that keeps the planner from queueing a job is written before the assignment it is
// about, and removed after it.
func (r *Reconciler) act(ctx context.Context, k key, a *assignment) error {
	first := a.decision.Conflict != nil || a.decision.Blocked != nil
	version := a.object.ResourceVersion
	var err error
	if a.changed && first {
		if version, err = r.writer.ApplyConditions(ctx, a.object, version, a.conditions); err != nil {
			return err
		}
		r.wrote(k, version)
	}
	if !a.decision.Done(a.object) {
		if version, err = r.writer.ApplyDesired(ctx, a.object, a.decision); err != nil {
			return err
		}
		r.wrote(k, version)
	}
	if a.changed && !first {
		if version, err = r.writer.ApplyConditions(ctx, a.object, version, a.conditions); err != nil {
			return err
		}
		r.wrote(k, version)
	}
	return nil
}

// report emits one Warning for each condition that became true or changed its reason.
func (r *Reconciler) report(a *assignment) {
	for _, kind := range status.AssignmentConditions {
		now := meta.FindStatusCondition(a.conditions, kind)
		if now == nil || !turned(a.object.Status.Conditions, *now) {
			continue
		}
		r.recorder.Eventf(a.object, nil, corev1.EventTypeWarning, now.Reason, "Assign", "%s", now.Message)
		if len(a.decision.Conflict) > 0 && a.decision.Conflict[0].Kind == v1alpha1.OriginPin {
			r.warnPins(a, now.Reason)
		}
	}
}

// warnPins emits the event on the NodeFirmware too, because its pins conflict and no condition of it says so.
func (r *Reconciler) warnPins(a *assignment, reason string) {
	pins := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: a.object.Spec.NodeName}}
	pins.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("NodeFirmware"))
	r.recorder.Eventf(pins, a.object, corev1.EventTypeWarning, reason, "Assign", "Device %s: %s",
		a.object.Name, status.AssignmentConflict(a.decision.Conflict))
}

// turned reports whether a condition is new or changed its status or reason.
func turned(old []metav1.Condition, now metav1.Condition) bool {
	was := meta.FindStatusCondition(old, now.Type)
	return was == nil || was.Status != now.Status || was.Reason != now.Reason
}

// sameConditions compares status, reason and message of the conditions of the given types. The generation they were
// observed at does not count: it changes with our own writes.
func sameConditions(a, b []metav1.Condition, types []string) bool {
	return !slices.ContainsFunc(types, func(kind string) bool {
		x, y := meta.FindStatusCondition(a, kind), meta.FindStatusCondition(b, kind)
		if x == nil || y == nil {
			return x != y
		}
		return x.Status != y.Status || x.Reason != y.Reason || x.Message != y.Message
	})
}

// behind reports whether the cache still shows an object as it was before our own last write.
func (r *Reconciler) behind(k key, version string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	own, ok := r.versions[k]
	if !ok {
		return false
	}
	if order, err := resourceversion.CompareResourceVersion(version, own); err == nil && order < 0 {
		return true
	}
	delete(r.versions, k)
	return false
}

func (r *Reconciler) wrote(k key, version string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.versions[k] = version
}

func (r *Reconciler) forget(k key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.versions, k)
	if k.isTemplate() {
		delete(r.paces, k)
	}
}

// settle is how long after an event it is said which pins match nothing: the daemon reports the devices of its node one by one.
const settle = time.Second

// reconcilePins says on a NodeFirmware which of its pins match nothing.
func (r *Reconciler) reconcilePins(ctx context.Context, k key) (reconcile.Result, error) {
	o := &v1alpha1.NodeFirmware{}
	if err := r.reader.Get(ctx, client.ObjectKey{Name: k.name}, o, client.UnsafeDisableDeepCopy); err != nil {
		if apierrors.IsNotFound(err) {
			r.forget(k)
			return reconcile.Result{}, nil
		}
		return reconcile.Result{}, fmt.Errorf("read node firmware %s: %w", k.name, err)
	}
	r.mu.Lock()
	now, known := r.index.Pins(k.name)
	r.mu.Unlock()
	if !known || o.DeletionTimestamp != nil || now.UID != string(o.UID) || now.Generation != o.Generation {
		return r.rest(k), nil // its event has not reached the index yet
	}
	if r.behind(k, o.ResourceVersion) {
		return reconcile.Result{RequeueAfter: again}, nil
	}
	next := status.Pins(o.Name, now.Unmatched, o.Status.Conditions, o.Generation, r.now())
	said := meta.FindStatusCondition(next, v1alpha1.ConditionPinsUnmatched)
	if ptr.Equal(said, meta.FindStatusCondition(o.Status.Conditions, v1alpha1.ConditionPinsUnmatched)) {
		return r.rest(k), nil
	}
	version, err := r.writer.ApplyPins(ctx, o, next)
	switch {
	case apierrors.IsNotFound(err):
		return reconcile.Result{RequeueAfter: again}, nil
	case err != nil:
		return reconcile.Result{}, err
	}
	r.wrote(k, version)
	if said != nil && turned(o.Status.Conditions, *said) {
		r.recorder.Eventf(o, nil, corev1.EventTypeWarning, said.Reason, "Assign", "%s", said.Message)
	}
	for _, p := range now.Unmatched {
		for _, is := range p.Elsewhere {
			there := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: is.Node}}
			there.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("NodeFirmware"))
			r.recorder.Eventf(there, o, corev1.EventTypeWarning, v1alpha1.ReasonNoMatch, "Assign", "%s", status.PinElsewhere(o.Name, p.Name, is))
		}
	}
	return r.rest(k), nil
}
