package schedule

import (
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// chooser finds the policies of many nodes. It asks only those policies whose selector names a value of a label that the node
// has, and the few that name none, so that fifty policies cost a node little more than one.
type chooser struct {
	policies []Policy
	// byLabel are the places of the policies that need one of certain values of a label, by label and value.
	byLabel map[string]map[string][]int
	// others are the places of those that need none, and fallback is that of the default policy; -1 for none.
	others   []int
	fallback int
}

func newChooser(policies []Policy) chooser {
	c := chooser{policies: policies, byLabel: map[string]map[string][]int{}, fallback: -1}
	for i := range policies {
		p := &policies[i]
		switch {
		case p.Name == DefaultPolicy:
			c.fallback = i
		case p.Invalid == "":
			c.add(i, p.Selector)
		}
	}
	return c
}

func (c *chooser) add(at int, s labels.Selector) {
	requirements, selectable := s.Requirements()
	if !selectable {
		return // it chooses nothing
	}
	for _, r := range requirements {
		switch r.Operator() {
		case selection.In, selection.Equals, selection.DoubleEquals:
			if c.byLabel[r.Key()] == nil {
				c.byLabel[r.Key()] = map[string][]int{}
			}
			for value := range r.Values() {
				c.byLabel[r.Key()][value] = append(c.byLabel[r.Key()][value], at)
			}
			return
		default: // it needs no value
		}
	}
	c.others = append(c.others, at)
}

// of lists the places of the policies that choose a node with these labels, as Chosen does.
func (c *chooser) of(node map[string]string) []int {
	var out []int
	set := labels.Labels(labels.Set(node))
	matching := func(places []int) {
		for _, at := range places {
			if c.policies[at].Selector.Matches(set) {
				out = append(out, at)
			}
		}
	}
	for key, values := range c.byLabel {
		if value, has := node[key]; has {
			matching(values[value])
		}
	}
	matching(c.others)
	slices.Sort(out)
	if len(out) == 0 && c.fallback >= 0 {
		out = append(out, c.fallback)
	}
	return out
}
