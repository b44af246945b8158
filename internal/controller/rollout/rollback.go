package rollout

import (
	"slices"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/schedule"
)

// Rollback is what the policies that admit jobs of a node with these labels say about rollback. While several policies
// choose the node, nothing is admitted there, and the strictest setting counts.
func Rollback(policies []v1alpha1.RolloutPolicy, node map[string]string) v1alpha1.RollbackPolicy {
	all := make([]schedule.Policy, len(policies))
	for i := range policies {
		all[i] = policyOf(&policies[i])
	}
	chosen := schedule.Chosen(all, node)
	for i := range policies {
		if policies[i].Spec.Rollback == v1alpha1.RollbackRequired && slices.Contains(chosen, policies[i].Name) {
			return v1alpha1.RollbackRequired
		}
	}
	return v1alpha1.RollbackBestEffort
}
