package cleaning

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/fieldset"
	"github.com/nodefirmware/node-firmware-operator/internal/status"
)

// act taints the node before anything runs on it, and says of one that is proven or returns what is so before the taint goes: a pass that ends
// half-way must not look as if somebody else had removed it.
func (r *Reconciler) act(ctx context.Context, f facts, d decision) error {
	for i := range d.withdrawn {
		j := &d.withdrawn[i]
		err := r.client.Delete(ctx, j, client.Preconditions{UID: &j.UID, ResourceVersion: &j.ResourceVersion})
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("withdraw firmware job %s: %w", j.Name, err)
		}
	}
	if d.untainted != nil {
		r.recorder.Eventf(f.firmware, nil, corev1.EventTypeWarning, v1alpha1.ReasonNeedsIntervention, "Prove",
			"Somebody removed the taint %s before the node was proven. What it waited for: %s", v1alpha1.UnverifiedTaint, d.untainted.Message)
	}
	if d.stay == "" {
		if err := r.say(ctx, f, d); err != nil {
			return err
		}
		return r.mark(ctx, f, d)
	}
	if err := r.mark(ctx, f, d); err != nil {
		return err
	}
	return r.say(ctx, f, d)
}

// say queues the job, if there is one, and writes the condition Clean where it changes.
func (r *Reconciler) say(ctx context.Context, f facts, d decision) error {
	if d.job != nil {
		if err := r.client.Create(ctx, d.job, client.FieldOwner(v1alpha1.FieldOwnerOperator)); err != nil {
			return fmt.Errorf("queue firmware job %s: %w", d.job.Name, err)
		}
	}
	if d.keep {
		return nil
	}
	next := status.Clean(d.clean, f.firmware.Status.Conditions, f.firmware.Generation, f.now)
	if equality.Semantic.DeepEqual(next, f.firmware.Status.Conditions) {
		return nil
	}
	was, is := meta.FindStatusCondition(f.firmware.Status.Conditions, v1alpha1.ConditionClean), meta.FindStatusCondition(next, v1alpha1.ConditionClean)
	if err := fieldset.ApplyClean(ctx, r.client, f.firmware, next); err != nil {
		return err
	}
	if is != nil && (was == nil || was.Reason != is.Reason) {
		kind := corev1.EventTypeNormal
		if slices.Contains([]string{v1alpha1.ReasonStepFailed, v1alpha1.ReasonConflict, v1alpha1.ReasonNoMatch, v1alpha1.ReasonInvalidSpec}, is.Reason) {
			kind = corev1.EventTypeWarning
		}
		r.recorder.Eventf(f.firmware, nil, kind, is.Reason, "Clean", "%s", is.Message)
	}
	return nil
}

// mark brings the product's taints and annotation of the Node up to date. Those of others are as the API server has them now.
func (r *Reconciler) mark(ctx context.Context, f facts, d decision) error {
	if f.marked(f.node, d) {
		return nil
	}
	var n corev1.Node
	if err := r.direct.Get(ctx, client.ObjectKey{Name: f.node.Name}, &n); err != nil {
		return fmt.Errorf("read node %s: %w", f.node.Name, err)
	}
	if n.UID != f.node.UID || f.marked(&n, d) { // another one of the name brings itself
		return nil
	}
	before := n.DeepCopy()
	n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool {
		return t.Key == v1alpha1.OutOfServiceTaint && t.Value != d.stay || t.Key == v1alpha1.UnverifiedTaint && d.proven
	})
	if d.stay != "" && taint(&n, v1alpha1.OutOfServiceTaint) == nil {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: v1alpha1.OutOfServiceTaint, Value: d.stay, Effect: corev1.TaintEffectNoSchedule})
	}
	delete(n.Annotations, v1alpha1.CleaningAnnotation)
	if d.running != "" {
		metav1.SetMetaDataAnnotation(&n.ObjectMeta, v1alpha1.CleaningAnnotation, d.running)
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.client.Patch(ctx, &n, patch, client.FieldOwner(v1alpha1.FieldOwnerOperator)); err != nil {
		return fmt.Errorf("taint node %s: %w", n.Name, err)
	}
	return nil
}

// marked reports whether a Node bears what it is to bear.
func (f facts) marked(n *corev1.Node, d decision) bool {
	stay := ""
	if t := taint(n, v1alpha1.OutOfServiceTaint); t != nil {
		stay = t.Value
	}
	return stay == d.stay && n.Annotations[v1alpha1.CleaningAnnotation] == d.running && !(d.proven && taint(n, v1alpha1.UnverifiedTaint) != nil)
}
