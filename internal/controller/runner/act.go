package runner

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/fieldset"
	"github.com/nodefirmware/node-firmware-operator/internal/status"
)

// act ends the jobs that cannot be executed, removes the pods that are not needed, and makes the one that is missing.
func (r *Reconciler) act(ctx context.Context, f facts, d decision) error {
	var errs []error
	for i := range d.unhandled {
		errs = append(errs, r.refuse(ctx, f, &d.unhandled[i]))
	}
	if j := d.stranded; j != nil {
		r.recorder.Eventf(j, nil, corev1.EventTypeWarning, v1alpha1.ReasonNoRunner, "Execute",
			"The job cannot continue: no handler is configured for %s any more. Add the handler to the file of the operator's --pod-handlers again and restart the operator.",
			status.MachineName(f.firmware.Status.Machine))
	}
	for i := range d.remove {
		errs = append(errs, r.remove(ctx, &d.remove[i]))
	}
	if d.create != nil {
		errs = append(errs, r.create(ctx, f, *d.create))
	}
	return errors.Join(errs...)
}

// refuse fails a job that has not begun. A job that was written to meanwhile is looked at again.
func (r *Reconciler) refuse(ctx context.Context, f facts, j *v1alpha1.FirmwareJob) error {
	now := metav1.NewTime(f.now)
	s := j.Status.DeepCopy()
	s.Conditions = status.JobNoHandler(f.node, f.firmware.Status.Machine, s.Conditions, j.Generation, now.Time)
	s.CompletionTime = &now
	switch err := fieldset.ApplyEnd(ctx, r.client, j, *s); {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err): // its event follows
		return nil
	case err != nil:
		return fmt.Errorf("fail firmware job that no handler is for: %w", err)
	}
	r.recorder.Eventf(j, nil, corev1.EventTypeWarning, v1alpha1.ReasonNoRunner, "Execute",
		"No handler is configured for %s of node %s.", status.MachineName(f.firmware.Status.Machine), f.node)
	return nil
}

func (r *Reconciler) remove(ctx context.Context, p *corev1.Pod) error {
	uid := p.UID
	err := r.client.Delete(ctx, p, client.Preconditions{UID: &uid})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete pod %s: %w", p.Name, err)
	}
	return nil
}

// create makes the pod after the DaemonSet as it is now.
func (r *Reconciler) create(ctx context.Context, f facts, w work) error {
	pod, err := r.pod(ctx, f, w)
	if err == nil {
		err = r.client.Create(ctx, pod, client.FieldOwner(v1alpha1.FieldOwnerOperator))
	}
	job := f.job(w.uid)
	switch {
	case apierrors.IsAlreadyExists(err): // the cache is behind, or an earlier one is about to go; its event follows
		return nil
	case err != nil && job != nil:
		r.recorder.Eventf(job, nil, corev1.EventTypeWarning, v1alpha1.ReasonNoRunner, "Execute", "%v", err)
		fallthrough
	case err != nil:
		return fmt.Errorf("make pod of firmware job %s: %w", w.name, err)
	}
	if job != nil {
		r.recorder.Eventf(job, pod, corev1.EventTypeNormal, v1alpha1.ReasonProgressing, "Execute",
			"Pod %s/%s executes the job with the image %s.", pod.Namespace, pod.Name, w.handler.Image)
	}
	return nil
}

func (r *Reconciler) pod(ctx context.Context, f facts, w work) (*corev1.Pod, error) {
	var ds appsv1.DaemonSet
	if err := r.direct.Get(ctx, client.ObjectKey{Namespace: r.namespace, Name: r.daemonSet}, &ds); err != nil {
		return nil, fmt.Errorf("read the daemon set its pod is made after: %w", err)
	}
	return newPod(&ds, w, f.firmware)
}
