package simulation

import (
	"slices"
	"time"

	"github.com/nodefirmware/node-firmware-operator/internal/schedule"
)

// bounds are the times that no order of the same jobs could be faster than, by name. Each job counts with the time that it really
// took, so chance and failures are in the bounds; that a held node keeps its place, that nodes are not Ready, and the time that a
// decision takes are not, so that a ratio above 1 contains them.
//
//   - "work": the time in maintenance of all jobs, divided among as many places as the policy has at once.
//   - "rounds": as many of the shortest jobs one after the other as the busiest place must take.
//   - "node": the node that was busy longest, with the pauses between its jobs.
func (r *run) bounds(p *pool) map[string]float64 {
	out := map[string]float64{}
	places := min(r.last.Policies[p.at].Budget, schedule.MaxLedger, len(p.nodes))
	var work, node time.Duration
	var each []time.Duration
	for _, n := range p.nodes {
		if n.worked > 0 {
			each = append(each, n.worked)
		}
		work += n.worked
		node = max(node, n.busy)
	}
	if places == 0 || len(each) == 0 {
		return out
	}
	slices.Sort(each)
	var rounds time.Duration
	for _, d := range each[:(len(each)+places-1)/places] {
		rounds += d
	}
	out["work"], out["rounds"], out["node"] = seconds(work/time.Duration(places)), seconds(rounds), seconds(node)
	return out
}
