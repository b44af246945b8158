package rollout

import (
	"github.com/nodefirmware/node-firmware-operator/internal/queue"
	"github.com/nodefirmware/node-firmware-operator/internal/schedule"
)

// publish tells the room how many nodes wait under each policy with a limit, and for which updates no more need to be queued.
func (r *Reconciler) publish(f facts, d schedule.Decision) {
	if r.queues == nil {
		return
	}
	queues := map[string]queue.Counts{}
	for _, o := range d.Policies {
		if limit := f.policies[o.Name].Spec.MaxQueued; limit != nil {
			queues[o.Name] = QueueOf(o, int(*limit))
		}
	}
	var seen map[string]bool
	r.queues.Publish(queues, func(job string) bool {
		if seen == nil { // seldom asked for
			seen = make(map[string]bool, len(f.jobs))
			for _, j := range f.jobs {
				seen[j.Name] = true
			}
		}
		return seen[job]
	})
}

// refused is how many nodes of a policy are not queued because its queue is full.
func (r *Reconciler) refused(policy string) int {
	if r.queues == nil {
		return 0
	}
	return r.queues.Refused(policy)
}

// QueueOf is what the room has to know of the queue of a policy with that limit.
func QueueOf(o schedule.Outcome, limit int) queue.Counts {
	out := queue.Counts{Limit: limit}
	seen := map[string]bool{}
	for _, w := range o.Queue {
		if !seen[w.Node] && w.Reason.GoesOn() {
			out.Queued++
		}
		seen[w.Node] = true
	}
	for _, r := range o.Rollouts {
		if r.Reason != "" && !r.Reason.GoesOn() {
			out.Stuck = append(out.Stuck, r.Target)
		}
	}
	return out
}

// nodesOf counts the nodes that wait.
func nodesOf(waiting []schedule.Waiting) int {
	seen := map[string]bool{}
	for _, w := range waiting {
		seen[w.Node] = true
	}
	return len(seen)
}

// due are the updates that the nodes are to get and that are not queued; nil without a planner that says so.
func (r *Reconciler) due() map[string][]schedule.Edge {
	if r.queues == nil {
		return nil
	}
	return r.queues.Due()
}
