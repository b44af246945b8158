package cleaning

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/cleaning"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/internal/watch"
	"github.com/nodefirmware/node-firmware-operator/internal/fieldset"
	"github.com/nodefirmware/node-firmware-operator/internal/status"
)

// settle is how long after an event the policies are counted, so that events in a row are one pass.
const settle = time.Second

// all is the one key of the queue: there are few policies, and what one selects another may select too.
var all = reconcile.Request{NamespacedName: client.ObjectKey{Name: "cleaningpolicies"}}

// policies counts the nodes of all CleaningPolicies in one pass.
type policies struct {
	client client.Client
	now    func() time.Time
}

func setupPolicies(mgr manager.Manager, now func() time.Time) error {
	toPass := watch.Delayed(settle, func(context.Context, client.Object) []reconcile.Request { return []reconcile.Request{all} })
	return ctrl.NewControllerManagedBy(mgr).Named("cleaningpolicy").
		Watches(&v1alpha1.CleaningPolicy{}, toPass, builder.WithPredicates(policyChanged)).
		Watches(&corev1.Node{}, toPass, builder.WithPredicates(watch.Changed(func(a, b *corev1.Node) bool { return !maps.Equal(a.Labels, b.Labels) }))).
		Watches(&v1alpha1.NodeFirmware{}, toPass, builder.WithPredicates(watch.Changed(func(a, b *v1alpha1.NodeFirmware) bool { return cleanReason(a) != cleanReason(b) }))).
		Complete(&policies{client: mgr.GetClient(), now: now})
}

func cleanReason(n *v1alpha1.NodeFirmware) string {
	if c := meta.FindStatusCondition(n.Status.Conditions, v1alpha1.ConditionClean); c != nil {
		return string(c.Status) + c.Reason
	}
	return ""
}

// Reconcile is one pass over all policies.
func (r *policies) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	var found v1alpha1.CleaningPolicyList
	if err := r.client.List(ctx, &found); err != nil {
		return reconcile.Result{}, fmt.Errorf("list cleaning policies: %w", err)
	}
	if len(found.Items) == 0 {
		return reconcile.Result{}, nil
	}
	var nodes corev1.NodeList
	if err := r.client.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
		return reconcile.Result{}, fmt.Errorf("list nodes: %w", err)
	}
	var firmware v1alpha1.NodeFirmwareList
	if err := r.client.List(ctx, &firmware, client.UnsafeDisableDeepCopy); err != nil {
		return reconcile.Result{}, fmt.Errorf("list node firmware: %w", err)
	}
	clean := map[string]string{}
	for i := range firmware.Items {
		clean[firmware.Items[i].Name] = cleanReason(&firmware.Items[i])
	}
	var result reconcile.Result
	for _, f := range count(found.Items, nodes.Items, clean) {
		i := slices.IndexFunc(found.Items, func(p v1alpha1.CleaningPolicy) bool { return p.Name == f.Name })
		p := &found.Items[i]
		next := v1alpha1.CleaningPolicyStatus{
			ObservedGeneration: p.Generation, Nodes: f.Nodes, Conditions: status.CleaningPolicy(f, p.Status.Conditions, p.Generation, r.now()),
		}
		if equality.Semantic.DeepEqual(next, p.Status) {
			continue
		}
		switch err := fieldset.ApplyCleaningPolicy(ctx, r.client, p, next); {
		case apierrors.IsConflict(err): // the cache is behind, and the change may be one that brings no pass
			result.RequeueAfter = again
		case client.IgnoreNotFound(err) != nil:
			return reconcile.Result{}, err
		}
	}
	return result, nil
}

// count is what is known of each policy: its nodes, how many of them are clean or failed, and whether another one selects one of them for the
// same time.
func count(found []v1alpha1.CleaningPolicy, nodes []corev1.Node, clean map[string]string) []status.CleaningPolicyFacts {
	out := make([]status.CleaningPolicyFacts, len(found))
	selectors := make([]labels.Selector, len(found))
	for i := range found {
		out[i] = status.CleaningPolicyFacts{Name: found[i].Name, Paused: found[i].Spec.State == v1alpha1.CleaningPaused}
		var err error
		if selectors[i], err = cleaning.Selector(&found[i]); err != nil {
			out[i].Invalid = err.Error()
		}
	}
	for _, n := range nodes {
		for i := range found {
			if !selectors[i].Matches(labels.Set(n.Labels)) {
				continue
			}
			f := &out[i]
			f.Nodes.Selected++
			switch clean[n.Name] {
			case string(metav1.ConditionTrue) + v1alpha1.ReasonSucceeded:
				f.Nodes.Clean++
			case string(metav1.ConditionFalse) + v1alpha1.ReasonStepFailed:
				f.Nodes.Failed++
			}
			for k := range found {
				if k != i && f.Other == "" && overlap(&found[i], &found[k]) && selectors[k].Matches(labels.Set(n.Labels)) {
					f.Node, f.Other = n.Name, found[k].Name
				}
			}
		}
	}
	return out
}

// overlap reports whether two policies have steps for the same time.
func overlap(a, b *v1alpha1.CleaningPolicy) bool { return slices.ContainsFunc(a.Spec.When, b.Runs) }
