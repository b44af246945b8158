package provenance

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/fieldset"
	"github.com/nodefirmware/node-firmware-operator/internal/status"
)

// act writes what differs. Who sees the label finds the list, and who sees that the condition is True finds no label.
func (r *Reconciler) act(ctx context.Context, f facts, obsolete []v1alpha1.ObsoleteReference) error {
	n := f.firmware
	next := v1alpha1.NodeFirmwareStatus{
		Obsolete:   obsolete[:min(len(obsolete), maxListed)],
		Conditions: status.Provenance(obsolete, n.Status.Conditions, n.Generation, f.now),
	}
	if len(obsolete) == 0 && isLabelled(n) {
		if err := fieldset.RemoveObsoleteLabel(ctx, r.client, n.Name); err != nil {
			return client.IgnoreNotFound(err)
		}
	}
	if !says(&n.Status, next) {
		if err := fieldset.ApplyProvenance(ctx, r.client, n.Name, next); err != nil {
			return client.IgnoreNotFound(err)
		}
	}
	if len(obsolete) > 0 && !isLabelled(n) {
		return client.IgnoreNotFound(fieldset.SetObsoleteLabel(ctx, r.client, n.Name))
	}
	return nil
}

// says reports whether a status says the same about obsolete references, at the same generation: kubectl waits for that.
func says(s *v1alpha1.NodeFirmwareStatus, next v1alpha1.NodeFirmwareStatus) bool {
	return slices.Equal(s.Obsolete, next.Obsolete) && conditionOf(s.Conditions) == conditionOf(next.Conditions)
}

// conditionOf is the condition Current without its time; zero when there is none.
func conditionOf(conditions []metav1.Condition) metav1.Condition {
	c := meta.FindStatusCondition(conditions, v1alpha1.ConditionCurrent)
	if c == nil {
		return metav1.Condition{}
	}
	out := *c
	out.LastTransitionTime = metav1.Time{}
	return out
}

func isLabelled(n *v1alpha1.NodeFirmware) bool { return n.Labels[v1alpha1.ObsoleteLabel] == "true" }
