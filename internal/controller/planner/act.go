package planner

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// act removes what is over and queues what is due once the quiet period has passed. A queued job that is no longer
// wished goes at once, so that it is not admitted in the meantime.
func (r *Reconciler) act(ctx context.Context, f facts, d decision) (ctrl.Result, error) {
	for i := range d.forgotten {
		if err := r.remove(ctx, &d.forgotten[i]); err != nil {
			return ctrl.Result{}, err
		}
	}
	for i := range d.superseded {
		if err := r.supersede(ctx, &d.superseded[i]); err != nil {
			return ctrl.Result{}, err
		}
	}
	if len(d.updates) == 0 {
		r.quiet.forget(f.name)
		return ctrl.Result{RequeueAfter: d.next}, nil
	}
	work := fingerprint(d.updates, d.rollback)
	if left := r.quiet.left(f.name, work, f.now); left > 0 && !d.queued {
		return ctrl.Result{RequeueAfter: soonest(left, d.next)}, nil
	}
	if d.queued || len(d.superseded) > 0 { // the deletion wakes this node again
		return ctrl.Result{RequeueAfter: d.next}, nil
	}
	return ctrl.Result{RequeueAfter: d.next}, r.queue(ctx, f, d, work)
}

// soonest is the shorter wait; 0 is none.
func soonest(a, b time.Duration) time.Duration {
	if b == 0 {
		return a
	}
	return min(a, b)
}

// queue creates the job. That it exists already means that the cache is behind.
func (r *Reconciler) queue(ctx context.Context, f facts, d decision, work string) error {
	job := &v1alpha1.FirmwareJob{
		ObjectMeta: metav1.ObjectMeta{
			Name:   jobName(f.name, d.previous, work),
			Labels: map[string]string{managedBy: v1alpha1.FieldOwnerOperator},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: corev1.SchemeGroupVersion.String(), Kind: "Node", Name: f.name, UID: f.nodeUID,
			}},
		},
		Spec: v1alpha1.FirmwareJobSpec{NodeName: f.name, Type: v1alpha1.JobTypeUpdate, Updates: d.updates, Rollback: d.rollback},
	}
	if err := r.client.Create(ctx, job, client.FieldOwner(v1alpha1.FieldOwnerOperator)); err != nil {
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return fmt.Errorf("queue firmware job %s: %w", job.Name, err)
	}
	updates := "1 update"
	if n := len(d.updates); n > 1 {
		updates = fmt.Sprintf("%d updates", n)
	}
	r.recorder.Eventf(job, nil, corev1.EventTypeNormal, v1alpha1.ReasonPending, "Queue", "Queued %s of node %s.", updates, f.name)
	return nil
}

// supersede deletes a queued job unless it was admitted or changed since it was read.
func (r *Reconciler) supersede(ctx context.Context, j *v1alpha1.FirmwareJob) error {
	err := r.client.Delete(ctx, j, client.Preconditions{UID: &j.UID, ResourceVersion: &j.ResourceVersion})
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err): // its event wakes this node again
		return nil
	case err != nil:
		return fmt.Errorf("delete superseded firmware job %s: %w", j.Name, err)
	}
	r.recorder.Eventf(j, nil, corev1.EventTypeNormal, v1alpha1.ReasonSuperseded, "Replace",
		"What is due on node %s changed before the job was admitted.", j.Spec.NodeName)
	return nil
}

func (r *Reconciler) remove(ctx context.Context, j *v1alpha1.FirmwareJob) error {
	if err := r.client.Delete(ctx, j, client.Preconditions{UID: &j.UID}); client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete firmware job %s from the history: %w", j.Name, err)
	}
	return nil
}
