package quarantine

import (
	"cmp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// Pools says to which RolloutPolicy a node belongs. The zero Pools has the default policy only.
type Pools struct{ pools []pool }

type pool struct {
	name     string
	selector labels.Selector
}

// NewPools takes the policies as they are. One whose selector is invalid chooses no node here.
func NewPools(policies []v1alpha1.RolloutPolicy) Pools {
	var p Pools
	for i := range policies {
		o := &policies[i]
		if o.Name == v1alpha1.DefaultRolloutPolicy {
			continue
		}
		selector := labels.Everything()
		if o.Spec.NodeSelector != nil {
			s, err := metav1.LabelSelectorAsSelector(o.Spec.NodeSelector)
			if err != nil {
				continue
			}
			selector = s
		}
		p.pools = append(p.pools, pool{o.Name, selector})
	}
	slices.SortFunc(p.pools, func(a, b pool) int { return cmp.Compare(a.name, b.name) })
	return p
}

// Of is the policy of a node with these labels: the first by name that chooses it, and default where none does.
func (p Pools) Of(nodeLabels map[string]string) string {
	for _, o := range p.pools {
		if o.selector.Matches(labels.Set(nodeLabels)) {
			return o.name
		}
	}
	return v1alpha1.DefaultRolloutPolicy
}
