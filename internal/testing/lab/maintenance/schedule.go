package maintenance

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	maintenancev1alpha1 "github.com/Mellanox/maintenance-operator/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
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

// schedule chooses the pending maintenances that may begin: one per node, oldest first, as many as the limits allow. A
// node that is already unavailable takes a slot but does not count for maxUnavailable.
func schedule(nodes []corev1.Node, list []maintenancev1alpha1.NodeMaintenance, l limits) []*maintenancev1alpha1.NodeMaintenance {
	available := map[string]bool{}
	for i := range nodes {
		available[nodes[i].Name] = isAvailable(&nodes[i])
	}
	under := map[string]bool{}
	var pending []*maintenancev1alpha1.NodeMaintenance
	for i := range list {
		nm := &list[i]
		if _, exists := available[nm.Spec.NodeName]; !exists {
			continue
		}
		switch readyReason(nm) {
		case maintenancev1alpha1.ConditionReasonUninitialized:
		case maintenancev1alpha1.ConditionReasonPending:
			if nm.DeletionTimestamp == nil {
				pending = append(pending, nm)
			}
		default:
			under[nm.Spec.NodeName] = true
		}
	}
	slices.SortFunc(pending, func(a, b *maintenancev1alpha1.NodeMaintenance) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	slots := scaled(&l.parallel, len(nodes), true) - len(under)
	if l.parallel.String() == "0" {
		slots = len(nodes) // no limit
	}
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
	for _, nm := range pending {
		node := nm.Spec.NodeName
		if slots <= 0 || under[node] || available[node] && spare <= 0 {
			continue
		}
		if available[node] {
			spare--
		}
		slots--
		under[node] = true
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

func isAvailable(n *corev1.Node) bool {
	return !n.Spec.Unschedulable && slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

func nodeNameField(node string) fields.Selector {
	return fields.OneTermEqualSelector("spec.nodeName", node)
}
