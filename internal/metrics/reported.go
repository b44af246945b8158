package metrics

import (
	"cmp"
	"slices"
)

// maxReported bounds the objects of a kind that are reported one by one. Each makes several time series: a template for each node would
// make ten times as many as there are nodes.
const maxReported = 200

// firstByName returns the objects that are reported one by one, the first maxReported by name, and how many are not. They belong to the
// list.
func firstByName[T any, P interface {
	*T
	GetName() string
}](list []T,
) (reported []P, left int) {
	for i := range list {
		reported = append(reported, &list[i])
	}
	slices.SortFunc(reported, func(a, b P) int { return cmp.Compare(a.GetName(), b.GetName()) })
	n := min(len(reported), maxReported)
	return reported[:n], len(reported) - n
}
