package schedule

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// clean drops the entries whose work is over.
func (p *pass) clean() {
	for _, o := range p.pools {
		for _, e := range o.Policy.Ledger {
			n := p.node(e.Node)
			if why := p.over(e); why != "" {
				o.out.Remove = append(o.out.Remove, Removal{e, why})
				if why != NodeGone {
					n.left = o
				}
				continue
			}
			o.out.Ledger = append(o.out.Ledger, e)
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

// maxNamed bounds the nodes that a message names. It is said to each job that waits, and anew whenever it changes.
const maxNamed = 3

// aboutLost says which nodes report a job that is gone or has ended, and what frees their places; empty for none. It begins with a
// space.
func (p *pass) aboutLost(nodes []string) string {
	if len(nodes) == 0 {
		return ""
	}
	slices.Sort(nodes)
	var out []string
	for _, name := range nodes[:min(len(nodes), maxNamed)] {
		switch job := p.node(name).Runs; job {
		case "":
			out = append(out, name+" (held by a failed job)")
		default:
			out = append(out, fmt.Sprintf("%s (at work on %s)", name, job))
		}
	}
	if len(nodes) > maxNamed {
		out = append(out, "others")
	}
	reports := "report a job that is gone or has ended"
	if len(nodes) == 1 {
		reports = "reports a job that is gone or has ended"
	}
	return fmt.Sprintf(" Of them %s %s: wait for it, or release the node if it is held. Only if no daemon runs and the machine is idle, "+
		"delete the NodeFirmware (kubectl delete nfw %s).", enumerate(out), reports, nodes[0])
}

// aboutUnheard says that the places of nodes are kept until their daemons report; it begins with a space. Many nodes are not named,
// because they report one after the other.
func aboutUnheard(nodes []string, until time.Time) string {
	subject := "Nodes whose daemons have not reported since the operator started count too, until they do"
	remedy := "If they do not run, see why"
	if len(nodes) <= maxNamed {
		slices.Sort(nodes)
		subject = fmt.Sprintf("The daemons of %s have not reported since the operator started; these nodes count until they do", enumerate(nodes))
		if len(nodes) == 1 {
			subject = fmt.Sprintf("The daemon of %s has not reported since the operator started; the node counts until it does", nodes[0])
		}
		remedy = fmt.Sprintf("If none runs there any more, delete the NodeFirmware (kubectl delete nfw %s)", nodes[0])
	}
	return fmt.Sprintf(" %s, or until %s: the API server may have been restored from a backup made before a job started there. %s.",
		subject, clock(until), remedy)
}

// enumerate lists texts as a sentence does.
func enumerate(list []string) string {
	if n := len(list); n > 1 {
		return strings.Join(list[:n-1], ", ") + " and " + list[n-1]
	}
	return strings.Join(list, "")
}
