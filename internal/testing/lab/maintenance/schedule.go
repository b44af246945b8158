package maintenance

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	maintenancev1alpha1 "github.com/Mellanox/maintenance-operator/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// limits are the settings of a MaintenanceOperatorConfig.
type limits struct {
	parallel    intstr.IntOrString
	unavailable *intstr.IntOrString
	maxTime     time.Duration
}

// limits reads the configuration named "default"; without one the maintenance-operator's defaults apply.
func (o *Operator) limits(ctx context.Context) (limits, error) {
	l := limits{parallel: intstr.FromInt32(1), maxTime: time.Hour}
	var config maintenancev1alpha1.MaintenanceOperatorConfig
	err := o.client.Get(ctx, client.ObjectKey{Namespace: o.namespace, Name: configName}, &config)
	if client.IgnoreNotFound(err) != nil {
		return l, fmt.Errorf("read configuration: %w", err)
	}
	if err != nil {
		return l, nil
	}
	if config.Spec.MaxParallelOperations != nil {
		l.parallel = *config.Spec.MaxParallelOperations
	}
	l.unavailable = config.Spec.MaxUnavailable
	if config.Spec.MaxNodeMaintenanceTimeSeconds > 0 {
		l.maxTime = time.Duration(config.Spec.MaxNodeMaintenanceTimeSeconds) * time.Second
	}
	return l, nil
}

// schedule chooses the maintenances that may begin, one per node, as many as the limits allow: no slot where they allow 0. First
// come those of a requestor that has one in progress, then those of the requestors with the fewest pending, then the oldest. Where
// one of the first ones must wait because too many nodes are unavailable, none behind them takes its slot. A node that is
// unavailable already may always begin.
func schedule(nodes []corev1.Node, list []maintenancev1alpha1.NodeMaintenance, l limits) []*maintenancev1alpha1.NodeMaintenance {
	available := map[string]bool{}
	for i := range nodes {
		available[nodes[i].Name] = isAvailable(&nodes[i])
	}
	under, pending, active, queued := map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]int{}
	for i := range list {
		nm := &list[i]
		_, exists := available[nm.Spec.NodeName]
		switch readyReason(nm) {
		case maintenancev1alpha1.ConditionReasonUninitialized:
		case maintenancev1alpha1.ConditionReasonPending:
			queued[nm.Spec.RequestorID]++
			pending[nm.Spec.NodeName] = exists
		default:
			active[nm.Spec.RequestorID] = true
			if exists {
				under[nm.Spec.NodeName] = true
			}
		}
	}
	var candidates []*maintenancev1alpha1.NodeMaintenance
	for i := range list {
		if node := list[i].Spec.NodeName; pending[node] && !under[node] {
			candidates = append(candidates, &list[i])
		}
	}
	rank := func(nm *maintenancev1alpha1.NodeMaintenance) int {
		r := 100 - min(100, queued[nm.Spec.RequestorID])
		if active[nm.Spec.RequestorID] {
			r += 1000
		}
		return r
	}
	slices.SortFunc(candidates, func(a, b *maintenancev1alpha1.NodeMaintenance) int {
		return cmp.Or(cmp.Compare(rank(b), rank(a)), a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
			cmp.Compare(a.Spec.NodeName, b.Spec.NodeName), cmp.Compare(a.Spec.RequestorID, b.Spec.RequestorID), cmp.Compare(a.Name, b.Name))
	})
	seen := map[string]bool{}
	candidates = slices.DeleteFunc(candidates, func(nm *maintenancev1alpha1.NodeMaintenance) bool {
		is := seen[nm.Spec.NodeName]
		seen[nm.Spec.NodeName] = true
		return is
	})
	slots := min(max(0, scaled(&l.parallel, len(nodes), true)-len(under)), len(nodes))
	spare := slots
	if l.unavailable != nil {
		spare = scaled(l.unavailable, len(nodes), false)
		for name, ok := range available {
			if !ok || under[name] {
				spare--
			}
		}
	}
	var out []*maintenancev1alpha1.NodeMaintenance
	for _, nm := range candidates[:min(slots, len(candidates))] {
		if available[nm.Spec.NodeName] {
			if spare <= 0 {
				continue
			}
			spare--
		}
		out = append(out, nm)
	}
	return out
}

func scaled(v *intstr.IntOrString, total int, roundUp bool) int {
	n, err := intstr.GetScaledValueFromIntOrPercent(v, total, roundUp)
	if err != nil {
		return 0
	}
	return n
}

// isAvailable counts a Node that has no condition Ready as ready.
func isAvailable(n *corev1.Node) bool {
	return !n.Spec.Unschedulable && !slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue
	})
}
