package maintenance

import (
	"slices"

	maintenancev1alpha1 "github.com/Mellanox/maintenance-operator/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
)

// schedule chooses the maintenances that begin now: one for each node, the oldest first.
func schedule(nodes []corev1.Node, list []maintenancev1alpha1.NodeMaintenance) []*maintenancev1alpha1.NodeMaintenance {
	taken := map[string]bool{}
	var pending []*maintenancev1alpha1.NodeMaintenance
	for i := range list {
		switch nm := &list[i]; readyReason(nm) {
		case maintenancev1alpha1.ConditionReasonUninitialized:
		case maintenancev1alpha1.ConditionReasonPending:
			pending = append(pending, nm)
		default:
			taken[nm.Spec.NodeName] = true
		}
	}
	slices.SortStableFunc(pending, func(a, b *maintenancev1alpha1.NodeMaintenance) int {
		return a.CreationTimestamp.Compare(b.CreationTimestamp.Time)
	})
	var out []*maintenancev1alpha1.NodeMaintenance
	for _, nm := range pending {
		exists := slices.ContainsFunc(nodes, func(n corev1.Node) bool { return n.Name == nm.Spec.NodeName })
		if exists && !taken[nm.Spec.NodeName] {
			taken[nm.Spec.NodeName] = true
			out = append(out, nm)
		}
	}
	return out
}
