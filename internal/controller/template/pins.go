package template

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/status"
)

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
	next := status.Pins(o.Name, now.Unmatched, o.Status.Conditions, o.Generation, r.Now())
	if pinsOf(next) == pinsOf(o.Status.Conditions) {
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
	if c := meta.FindStatusCondition(next, v1alpha1.ConditionPinsUnmatched); c != nil && turned(o.Status.Conditions, *c) {
		r.recorder.Eventf(o, nil, corev1.EventTypeWarning, c.Reason, "Assign", "%s", c.Message)
	}
	return r.rest(k), nil
}

// pinsOf is the condition about pins without its time; zero when there is none.
func pinsOf(conditions []metav1.Condition) metav1.Condition {
	c := meta.FindStatusCondition(conditions, v1alpha1.ConditionPinsUnmatched)
	if c == nil {
		return metav1.Condition{}
	}
	out := *c
	out.LastTransitionTime = metav1.Time{}
	return out
}
