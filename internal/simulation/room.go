package simulation

import (
	"fmt"
	"time"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/rollout"
	"github.com/nodefirmware/node-firmware-operator/internal/queue"
	"github.com/nodefirmware/node-firmware-operator/internal/schedule"
)

// openRoom begins with empty queues, of the length that the policies allow.
func (r *run) openRoom() {
	r.queues = queue.New(func() time.Time { return r.now })
	r.queues.OnWake(func(name string) {
		r.events.add(r.now, true, func() {
			if n := r.byName[name]; n.refused {
				r.queue(n)
			}
		})
	})
	r.publish()
}

// publish says to the room how many nodes wait, and notes those that it refuses.
func (r *run) publish() {
	queues := map[string]queue.Counts{}
	for i, p := range r.pools {
		limit := r.policies[i].Spec.MaxQueued
		if limit == nil {
			continue
		}
		queues[p.name] = queue.Counts{Limit: int(*limit)}
		if len(r.last.Policies) > 0 {
			queues[p.name] = rollout.QueueOf(r.last.Policies[i], int(*limit))
		}
	}
	if len(queues) == 0 {
		return
	}
	saw := make(map[string]bool, len(r.facts.Jobs))
	for i := range r.facts.Jobs {
		saw[r.facts.Jobs[i].Name] = true
	}
	r.queues.Publish(queues, func(job string) bool { return saw[job] })
	for _, n := range r.nodes {
		if n.refused {
			n.wait = schedule.Reason(v1alpha1.ReasonQueueFull)
			n.message = fmt.Sprintf("As many nodes wait as maxQueued of the policy %s allows (%d); this one is queued as soon as there is room.",
				n.pool.name, queues[n.pool.name].Limit)
		}
	}
}

// enter reports whether the job of a node may be queued. A node that a wave selects is never refused, as the planner has it.
func (r *run) enter(n *node, job string) bool {
	p := &r.policies[n.pool.at]
	if p.Spec.MaxQueued == nil {
		return true
	}
	if schedule.SettingsOf(r.policies[n.pool.at:n.pool.at+1], n.Labels).InWave {
		r.queues.EnterAlways(p.Name, n.Name, job)
		return true
	}
	return r.queues.Enter(p.Name, n.Name, job)
}
