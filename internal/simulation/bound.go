package simulation

import (
	"slices"
	"time"

	"github.com/nodefirmware/node-firmware-operator/internal/schedule"
	"github.com/nodefirmware/node-firmware-operator/internal/schedule/window"
)

// bounds are the times that no order of the same jobs could be faster than, by name. Each job counts with the time that it really
// took, so chance and failures are in the bounds; that a held node keeps its place, that nodes are not Ready, and the time that a
// decision takes are not, so that a ratio above 1 contains them. Where the policy has windows, a job counts with as much of its
// time as was expected of it, because that much must be inside of one.
//
//   - "work": when the pool was open for the time of all jobs, divided among as many places as the policy has at once.
//   - "rounds": as many of the shortest jobs one after the other as the busiest place must take, and in no window more than fit.
//   - "topology": like work, for the domain of a topology budget that takes longest.
//   - "node": the node that was busy longest, with the pauses between its jobs.
//   - "waves": for the update that takes longest, its waves one after the other with their soaks, each with as many nodes as it had.
func (r *run) bounds(p *pool) map[string]float64 {
	out := map[string]float64{}
	policy := p.policy()
	places := min(p.outcome().Budget, schedule.MaxLedger, len(p.nodes))
	var work, node time.Duration
	for _, n := range p.nodes {
		work += n.inside
		node = max(node, n.busy)
	}
	each := slices.Sorted(slices.Values(p.jobs))
	if places == 0 || len(each) == 0 {
		return out
	}
	set := func(name string, at time.Time) {
		if !at.IsZero() {
			out[name] = seconds(at.Sub(r.Start))
		}
	}
	set("work", policy.Calendar.After(r.Start, work/time.Duration(places)))
	set("rounds", rounds(policy.Calendar, r.Start, each, places))
	set("node", r.Start.Add(node))
	for _, f := range p.waved {
		if at := f.bound(policy.Calendar, r.Start, places); len(f.list) > 0 && !at.IsZero() {
			out["waves"] = max(out["waves"], seconds(at.Sub(r.Start)))
		}
	}
	if len(policy.Topology) > 0 {
		set("topology", policy.Calendar.After(r.Start, r.topology(p, policy.Topology)))
	}
	return out
}

// rounds is when the last of the jobs ends at the earliest, if each place takes the shortest ones and no window takes more of them
// than fit into it. It is zero when the calendar does not open so often.
func rounds(c *window.Calendar, from time.Time, each []time.Duration, places int) time.Time {
	left := len(each)
	for t := from; ; {
		s := c.At(t)
		if !s.Open {
			if s.Opens.IsZero() {
				return time.Time{}
			}
			t = s.Opens
			continue
		}
		var sum time.Duration
		fit := 0
		for fit < len(each) && fit*places < left && (c == nil || sum+each[fit] <= s.Closes.Sub(t)) {
			sum += each[fit]
			fit++
		}
		if fit*places >= left {
			return t.Add(sum)
		}
		left -= fit * places
		t = s.Closes
	}
}

// topology is the time of the jobs of a pool in one domain, divided among the places of the domain, where that is longest. All nodes of
// the cluster with the value of the label are of the domain; those of the pool without the label are one together.
func (r *run) topology(p *pool, budgets []schedule.TopologyBudget) (longest time.Duration) {
	for _, b := range budgets {
		size, work := map[string]int{}, map[string]time.Duration{}
		for _, n := range r.nodes {
			value := n.Labels[b.Key]
			if value != "" || n.pool == p {
				size[value]++
			}
			if n.pool == p {
				work[value] += n.inside
			}
		}
		for value, w := range work {
			if places := schedule.Budget(b.MaxUnavailable, size[value]); places > 0 {
				longest = max(longest, w/time.Duration(places))
			}
		}
	}
	return longest
}
