package schedule

import (
	"cmp"
	"slices"
)

// inOrder lists the jobs for which wanted returns true in the order of the queue: by priority, then by age, and the operator's
// own node last.
func (p *pass) inOrder(wanted func(*Job) bool) []*Job {
	var out []*Job
	for i := range p.facts.Jobs {
		if j := &p.facts.Jobs[i]; wanted(j) {
			out = append(out, j)
		}
	}
	own := func(j *Job) int {
		if p.facts.OwnNode != "" && j.Node == p.facts.OwnNode {
			return 1
		}
		return 0
	}
	slices.SortFunc(out, func(a, b *Job) int {
		if o := cmp.Compare(own(a), own(b)); o != 0 {
			return o
		}
		if o := cmp.Compare(b.Priority, a.Priority); o != 0 {
			return o
		}
		return byAge(a, b)
	})
	return out
}

func byAge(a, b *Job) int {
	if c := a.Created.Compare(b.Created); c != 0 {
		return c
	}
	if c := cmp.Compare(a.Name, b.Name); c != 0 {
		return c
	}
	return cmp.Compare(a.UID, b.UID)
}
