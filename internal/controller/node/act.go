package node

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/fieldset"
	"github.com/nodefirmware/node-firmware-operator/internal/status"
)

// act ends jobs first, so that their place in the rollout is given back with the right reason, and deletes the
// NodeFirmware last, so that a pass that fails half-way is found again after a restart.
func (r *Reconciler) act(ctx context.Context, f facts, d decision) error {
	if d.create {
		return r.create(ctx, f.node)
	}
	if d.pinned != nil {
		return client.IgnoreNotFound(fieldset.ApplyPinned(ctx, r.direct, f.firmware, d.pinned.machine, d.pinned.adopt))
	}
	if d.reports != nil {
		return client.IgnoreNotFound(fieldset.ApplyDaemonReady(ctx, r.direct, f.firmware, d.reports))
	}
	for i := range d.end {
		if err := r.end(ctx, &d.end[i]); err != nil {
			return err
		}
	}
	for i := range d.stranded {
		if err := r.strand(ctx, &d.stranded[i]); err != nil {
			return err
		}
	}
	if d.release {
		if err := r.maintenanceOf(f.name).Release(ctx); err != nil {
			return fmt.Errorf("release node %s that is gone: %w", f.name, err)
		}
	}
	for i := range d.devices {
		if err := r.delete(ctx, &d.devices[i]); err != nil {
			return err
		}
	}
	for i := range d.history {
		if err := r.delete(ctx, &d.history[i]); err != nil {
			return err
		}
	}
	if d.firmware != nil {
		return r.delete(ctx, d.firmware)
	}
	return nil
}

func (r *Reconciler) create(ctx context.Context, n *corev1.Node) error {
	o := &v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: n.Name}}
	err := r.direct.Create(ctx, o, client.FieldOwner(v1alpha1.FieldOwnerOperator))
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create node firmware %s: %w", n.Name, err)
	}
	return nil
}

// strand says in the status of a job that its Node is gone, and what a person can do, unless the job says so already. The daemon
// replaces that if it still reports.
func (r *Reconciler) strand(ctx context.Context, j *v1alpha1.FirmwareJob) error {
	if c := meta.FindStatusCondition(j.Status.Conditions, v1alpha1.ConditionStalled); c != nil && c.Status == metav1.ConditionTrue && c.Reason == v1alpha1.ReasonNodeGone {
		return nil
	}
	s := j.Status.DeepCopy()
	s.Conditions = status.JobStranded(j.Name, j.Spec.NodeName, s.Conditions, j.Generation, r.now())
	switch err := fieldset.ApplyEnd(ctx, r.direct, j, *s); {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("report firmware job of node %s that is gone: %w", j.Spec.NodeName, err)
	}
	if c := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionStalled); c != nil {
		r.recorder.Eventf(j, nil, corev1.EventTypeWarning, c.Reason, "Keep", "%s", c.Message)
	}
	return nil
}

// end ends a job in place of its daemon. A job that was written to meanwhile is looked at again.
func (r *Reconciler) end(ctx context.Context, j *v1alpha1.FirmwareJob) error {
	now := metav1.NewTime(r.now())
	s := j.Status.DeepCopy()
	s.Conditions = status.JobNodeGone(j.Spec.NodeName, s.Conditions, j.Generation, now.Time)
	s.CompletionTime = &now
	if err := fieldset.ApplyEnd(ctx, r.direct, j, *s); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("end firmware job of node %s that is gone: %w", j.Spec.NodeName, err)
	}
	return nil
}

func (r *Reconciler) delete(ctx context.Context, o client.Object) error {
	uid := o.GetUID()
	err := r.direct.Delete(ctx, o, client.Preconditions{UID: &uid})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete %T %s: %w", o, o.GetName(), err)
	}
	return nil
}

// report warns once about a daemon that does not report, and about a NodeFirmware that is kept though its Node does not exist.
func (r *Reconciler) report(f facts, d decision) {
	if c := meta.FindStatusCondition(d.reports, v1alpha1.ConditionDaemonReady); c != nil && c.Status == metav1.ConditionFalse && !isSilent(f.firmware) {
		r.recorder.Eventf(f.firmware, nil, corev1.EventTypeWarning, c.Reason, "Listen", "%s", c.Message)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if d.keep == nil {
		if f.firmware != nil {
			delete(r.warned, f.firmware.UID)
		}
		return
	}
	if _, ok := r.warned[d.keep.UID]; ok {
		return
	}
	r.warned[d.keep.UID] = struct{}{}
	r.recorder.Eventf(d.keep, nil, corev1.EventTypeWarning, v1alpha1.ReasonNodeGone, "Keep",
		"Node %s does not exist. Its requests are kept until the node joins. If it never will: kubectl delete nfw %s", f.name, f.name)
}
