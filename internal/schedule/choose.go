package schedule

import (
	"slices"

	"k8s.io/apimachinery/pkg/labels"
)

// Chosen names the policies that choose a node with these labels, in the order given: those whose selector matches, or
// else the one named DefaultPolicy, if there is one. More than one is a conflict.
func Chosen(policies []Policy, node map[string]string) []string {
	var out []string
	for _, p := range policies {
		if p.Name != DefaultPolicy && p.Invalid == "" && p.Selector.Matches(labels.Set(node)) {
			out = append(out, p.Name)
		}
	}
	hasDefault := func(p Policy) bool { return p.Name == DefaultPolicy }
	if len(out) == 0 && slices.ContainsFunc(policies, hasDefault) {
		out = append(out, DefaultPolicy)
	}
	return out
}
