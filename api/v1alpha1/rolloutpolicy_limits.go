package v1alpha1

import (
	"k8s.io/apimachinery/pkg/util/intstr"
)

// TopologyBudget bounds how many nodes with the same value of a label are disturbed at once.
// +kubebuilder:validation:XValidation:rule="type(self.maxUnavailable) == int ? self.maxUnavailable >= 0 : self.maxUnavailable.matches('^(100|[1-9]?[0-9])%$')",message="maxUnavailable must be a number of nodes from 0 or a percentage from 0% to 100%",fieldPath=".maxUnavailable"
type TopologyBudget struct {
	// topologyKey is the label whose value says in which domain a node is, such as example.com/rack. The nodes of the pool without that
	// label form one domain, because they may all be in the same one. Written by the user.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`
	TopologyKey string `json:"topologyKey,omitempty"`
	// maxUnavailable is how many nodes of one domain may be disturbed at once, as a number or a percentage of the domain's nodes.
	// The nodes of all policies count. Nodes that are not Ready or are cordoned by somebody else count as disturbed. A percentage is rounded down, but not
	// below 1; 0 and "0%" admit nothing. Written by the user.
	// +required
	// +kubebuilder:validation:XIntOrString
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
}
