package schedule

import (
	"k8s.io/apimachinery/pkg/labels"
)

// Chosen names the policies that choose a node with these labels, in the order given: those whose selector matches, or
// else the one named DefaultPolicy, if there is one. More than one is a conflict.
func Chosen(policies []Policy, node map[string]string) []string {
	var out []string
	set, hasDefault := labels.Labels(labels.Set(node)), false
	for i := range policies { // a copy of each policy for each node would be most of the work
		p := &policies[i]
		hasDefault = hasDefault || p.Name == DefaultPolicy
		if p.Name != DefaultPolicy && p.Invalid == "" && p.Selector.Matches(set) {
			out = append(out, p.Name)
		}
	}
	if len(out) == 0 && hasDefault {
		out = append(out, DefaultPolicy)
	}
	return out
}
