package planner

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/due"
)

// again is the wait before a node is planned again whose jobs changed between the decision and the write.
const again = time.Second

// act deletes the jobs that are over or superseded and queues the one that is due. After a write that lost a race the node
// is planned again, because the event of what won may be one that the planner does not watch.
func (r *Reconciler) act(ctx context.Context, f due.Facts, d due.Decision) (ctrl.Result, error) {
	r.due.Note(f.Name, d.Due, f.Now)
	r.note(f, d)
	switch err := r.write(ctx, f, d); {
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		return ctrl.Result{RequeueAfter: again}, nil
	case err != nil:
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: d.Next}, nil
}

// note tells the rollout which updates the node is to get beside those that are queued.
func (r *Reconciler) note(f due.Facts, d due.Decision) {
	switch {
	case r.queues == nil:
	case f.NodeUID == "":
		r.queues.Forget(f.Name)
	default:
		r.queues.Note(f.Name, d.Unqueued)
	}
}

func (r *Reconciler) write(ctx context.Context, f due.Facts, d due.Decision) error {
	for i := range d.Expired {
		if err := r.remove(ctx, &d.Expired[i]); err != nil {
			return err
		}
	}
	for i := range d.Superseded {
		if err := r.supersede(ctx, &d.Superseded[i], d.Aborted); err != nil {
			return err
		}
	}
	return r.enqueue(ctx, f, d.Job)
}

// enqueue queues the job, if there is one, unless as many nodes of the policy wait as it allows. Then the node is planned again
// when there is room. A node that a wave selects waits for no room: the update may wait for it. Neither does a pin, which waits for no
// wave: others that do would keep it out of the queue. Where the spec of the policy admits nothing, both are refused as well.
func (r *Reconciler) enqueue(ctx context.Context, f due.Facts, job *v1alpha1.FirmwareJob) error {
	limited := r.queues != nil && f.Settings.MaxQueued != nil
	enter := r.queues.Enter
	if job != nil && (f.Settings.InWave || slices.ContainsFunc(job.Spec.Task.Devices, due.IsPinned)) {
		enter = r.queues.EnterAhead
	}
	switch {
	case job == nil && r.queues != nil:
		r.queues.Leave(f.Name, "")
		return nil
	case job == nil:
		return nil
	case limited && !enter(f.Settings.Policy, f.Name, job.Name):
		return nil
	}
	if r.mark != nil {
		r.mark(job, f.Devices)
	}
	err := r.queue(ctx, job)
	if err != nil && limited {
		r.queues.Leave(f.Name, job.Name)
	}
	return err
}

// queue creates the job. If the job exists already, the cache is behind. No event says what the new object says itself.
func (r *Reconciler) queue(ctx context.Context, job *v1alpha1.FirmwareJob) error {
	if err := r.client.Create(ctx, job, client.FieldOwner(v1alpha1.FieldOwnerOperator)); err != nil {
		return fmt.Errorf("queue firmware job %s: %w", job.Name, err)
	}
	return nil
}

// supersede deletes a queued job unless it was admitted or changed since it was read.
func (r *Reconciler) supersede(ctx context.Context, j *v1alpha1.FirmwareJob, aborted bool) error {
	err := r.client.Delete(ctx, j, client.Preconditions{UID: &j.UID, ResourceVersion: &j.ResourceVersion})
	switch {
	case apierrors.IsNotFound(err): // the event of its deletion wakes this node again
		return nil
	case err != nil:
		return fmt.Errorf("delete superseded firmware job %s: %w", j.Name, err)
	}
	if aborted {
		r.recorder.Eventf(j, nil, corev1.EventTypeNormal, v1alpha1.ReasonAborted, "Withdraw",
			"The rollout policy of node %s was aborted before the job was admitted.", j.Spec.NodeName)
		return nil
	}
	r.recorder.Eventf(j, nil, corev1.EventTypeNormal, v1alpha1.ReasonSuperseded, "Replace",
		"The updates due on node %s changed before the job was admitted.", j.Spec.NodeName)
	return nil
}

func (r *Reconciler) remove(ctx context.Context, j *v1alpha1.FirmwareJob) error {
	if err := r.client.Delete(ctx, j, client.Preconditions{UID: &j.UID}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete firmware job %s from the history: %w", j.Name, err)
	}
	return nil
}
