package simulation

import (
	"cmp"
	"slices"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/internal/queue"
	"github.com/nodefirmware/node-firmware-operator/internal/schedule"
)

// part is some of the pools, with all that a decision about them depends on. Pools of different parts share no node, no domain of a
// topology budget and no control plane, so that what happens in one needs no decision about the other.
type part struct {
	events events
	pools  []*pool
	nodes  []*node
	queues *queue.Queues
	facts  schedule.Facts
	last   schedule.Decision
	// left counts the nodes that are not done. Timed says that some go as time passes, and quiet that none goes because another node
	// comes back: no job waits in an open window.
	left         int
	timed, quiet bool
}

// divide makes the pools and their parts.
func (r *run) divide() {
	all := make([]schedule.Policy, len(r.policies))
	for i := range r.policies {
		all[i] = schedule.PolicyOf(&r.policies[i], cmp.Or(r.Work.Expected, schedule.DefaultExpected))
		r.pools = append(r.pools, &pool{name: r.policies[i].Name, spec: &r.policies[i].Spec})
	}
	ties := newTies(r.pools)
	for _, n := range r.nodes {
		for i, name := range schedule.Chosen(all, n.Labels) {
			p := r.pools[slices.IndexFunc(r.pools, func(p *pool) bool { return p.name == name })]
			if i == 0 {
				n.pool = p
				p.nodes = append(p.nodes, n)
			}
			ties.tie(n.pool, p)
		}
	}
	r.tie(all, ties)
	byRoot := map[*pool]*part{}
	for i, p := range r.pools {
		s := byRoot[ties.root(p)]
		if s == nil {
			s = &part{facts: schedule.Facts{OwnNode: r.OwnNode, Due: map[string][]schedule.Edge{}}}
			byRoot[ties.root(p)] = s
			r.parts = append(r.parts, s)
		}
		p.part, p.at = s, len(s.pools)
		s.pools, s.facts.Policies = append(s.pools, p), append(s.facts.Policies, all[i])
	}
	for _, n := range r.nodes {
		s := n.pool.part
		n.at = len(s.nodes)
		s.nodes = append(s.nodes, n)
		s.facts.Due[n.Name] = nil
		s.facts.Nodes = append(s.facts.Nodes, schedule.Node{
			Name: n.Name, Labels: n.Labels, Ready: n.Ready, Cordoned: n.Cordoned, Taken: n.Taken, Scanned: true,
		})
	}
}

// tie notes which pools are decided about together: all that have nodes in one domain of a topology budget, or of the control plane, and
// all of them where one is invalid, because that may be meant for any node.
func (r *run) tie(policies []schedule.Policy, ties ties) {
	var planes *pool
	for _, n := range r.nodes {
		for key := range n.Labels {
			if role, is := strings.CutPrefix(key, "node-role.kubernetes.io/"); is && role != "worker" {
				planes = cmp.Or(planes, n.pool)
				ties.tie(planes, n.pool)
			}
		}
	}
	for i, policy := range policies {
		for _, budget := range policy.Topology {
			domains := map[string]bool{}
			for _, n := range r.pools[i].nodes {
				domains[n.Labels[budget.Key]] = true
			}
			for _, n := range r.nodes {
				if value := n.Labels[budget.Key]; value != "" && domains[value] {
					ties.tie(r.pools[i], n.pool)
				}
			}
		}
		if policy.Invalid != "" {
			for _, p := range r.pools {
				ties.tie(r.pools[i], p)
			}
		}
	}
}

// ties are pools that are decided about together: each points to another one of them, and one to itself.
type ties map[*pool]*pool

func newTies(pools []*pool) ties {
	t := ties{}
	for _, p := range pools {
		t[p] = p
	}
	return t
}

func (t ties) root(p *pool) *pool {
	for t[p] != p {
		p = t[p]
	}
	return p
}

func (t ties) tie(a, b *pool) { t[t.root(b)] = t.root(a) }

// judge finds out what the last decision leaves to wait for.
func (s *part) judge() {
	s.left, s.timed, s.quiet = 0, false, true
	for _, n := range s.nodes {
		if n.done {
			continue
		}
		s.left++
		queued := len(n.jobs) > 0 && n.jobs[len(n.jobs)-1].State == schedule.Queued
		if queued && n.pool.part.last.Policies[n.pool.at].Window.Open {
			s.quiet = false
		}
		s.timed = s.timed || n.wait == schedule.OutsideWindow
	}
	for i := range s.last.Policies {
		s.timed = s.timed || slices.ContainsFunc(s.last.Policies[i].Rollouts, func(r schedule.RolloutState) bool { return !r.Soaks.IsZero() })
	}
	s.timed = s.timed && !s.last.Next.IsZero()
}
