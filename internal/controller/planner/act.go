package planner

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// act deletes the jobs that are over or superseded and queues the one that is due.
func (r *Reconciler) act(ctx context.Context, f facts, d decision) (ctrl.Result, error) {
	r.due.set(f.name, d.due)
	for i := range d.expired {
		if err := r.remove(ctx, &d.expired[i]); err != nil {
			return ctrl.Result{}, err
		}
	}
	for i := range d.superseded {
		if err := r.supersede(ctx, &d.superseded[i]); err != nil {
			return ctrl.Result{}, err
		}
	}
	if d.job != nil {
		if err := r.queue(ctx, d.job); err != nil {
			return ctrl.Result{}, err
		}
	}
	return ctrl.Result{RequeueAfter: d.next}, nil
}

// queue creates the job. If the job exists already, the cache is behind.
func (r *Reconciler) queue(ctx context.Context, job *v1alpha1.FirmwareJob) error {
	if err := r.client.Create(ctx, job, client.FieldOwner(v1alpha1.FieldOwnerOperator)); err != nil {
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return fmt.Errorf("queue firmware job %s: %w", job.Name, err)
	}
	updates := "1 update"
	if n := len(job.Spec.Updates); n > 1 {
		updates = fmt.Sprintf("%d updates", n)
	}
	r.recorder.Eventf(job, nil, corev1.EventTypeNormal, v1alpha1.ReasonPending, "Queue", "Queued %s of node %s.", updates, job.Spec.NodeName)
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
