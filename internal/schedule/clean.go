package schedule

import (
	"cmp"
	"slices"
)

// clean drops the entries whose work is over.
func (p *pass) clean() {
	for _, o := range p.pools {
		for _, e := range o.Policy.Ledger {
			if why := p.over(e); why != "" {
				o.out.Remove = append(o.out.Remove, Removal{e, why})
				continue
			}
			o.out.Ledger = append(o.out.Ledger, e)
			n := p.node(e.Node)
			n.holders = append(n.holders, holder{o, e})
		}
	}
}

// over says why an entry is over, or "". The job of one that is not over is known.
func (p *pass) over(e Entry) Why {
	job := p.jobs[e.UID]
	switch {
	case !p.node(e.Node).exists() && (job == nil || job.State != Admitted):
		return NodeGone
	case job == nil || job.Node != e.Node:
		return JobGone
	case job.State == Finished:
		return JobFinished
	}
	return ""
}

// dropDuplicates leaves one ledger per node. Two can name it only when two operators worked at once while the node moved
// between pools. An admitted job keeps its entry whatever happens; of the others the first stays.
func (p *pass) dropDuplicates() {
	var doubled []string
	for name, n := range p.nodes {
		if len(n.holders) > 1 {
			doubled = append(doubled, name)
		}
	}
	slices.Sort(doubled)
	for _, name := range doubled {
		n := p.nodes[name]
		hs := n.holders
		slices.SortStableFunc(hs, func(a, b holder) int {
			return cmp.Or(-cmp.Compare(p.weight(a), p.weight(b)), cmp.Compare(a.pool.Name, b.pool.Name))
		})
		kept := hs[:1]
		for _, h := range hs[1:] {
			sameJob := h.entry.UID == kept[0].entry.UID
			if !sameJob && !p.jobs[h.entry.UID].waiting() {
				kept = append(kept, h)
				continue
			}
			h.pool.out.Remove = append(h.pool.out.Remove, Removal{h.entry, Duplicate})
			h.pool.drop(name)
		}
		n.holders = kept
	}
}

// weight ranks entries for the same node: what runs before what waits, the node's own policy before others.
func (p *pass) weight(h holder) int {
	w := 0
	if !p.jobs[h.entry.UID].waiting() {
		w += 2
	}
	if slices.Contains(p.node(h.entry.Node).pools, h.pool) {
		w++
	}
	return w
}

func (o *pool) drop(node string) {
	o.out.Ledger = slices.DeleteFunc(o.out.Ledger, func(e Entry) bool { return e.Node == node })
}
