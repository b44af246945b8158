package simulation

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/rollout"
	"github.com/nodefirmware/node-firmware-operator/internal/queue"
	"github.com/nodefirmware/node-firmware-operator/internal/schedule"
)

// openRoom begins with empty queues of a part, of the length that its policies allow.
func (r *run) openRoom(s *part) {
	s.queues = queue.New(func() time.Time { return r.now })
	s.queues.OnWake(func(name string) {
		s.events.add(r.now, func() {
			if n := r.byName[name]; n.refused {
				r.queue(n)
			}
		})
	})
	s.publish()
}

// publish says to the room how many nodes of a part wait, and notes those that it refuses.
func (s *part) publish() {
	queues := map[string]queue.Counts{}
	for i, p := range s.pools {
		limit := p.spec.MaxQueued
		if limit == nil {
			continue
		}
		queues[p.name] = queue.Counts{Limit: int(*limit)}
		if len(s.last.Policies) > 0 {
			queues[p.name] = rollout.QueueOf(s.last.Policies[i], int(*limit))
		}
	}
	if len(queues) == 0 {
		return
	}
	saw := make(map[string]bool, len(s.facts.Jobs))
	for i := range s.facts.Jobs {
		saw[s.facts.Jobs[i].Name] = true
	}
	s.queues.Publish(queues, func(job string) bool { return saw[job] })
	for _, n := range s.nodes {
		if n.refused {
			n.wait = schedule.Reason(v1alpha1.ReasonQueueFull)
			n.message = fmt.Sprintf("As many nodes wait as maxQueued of the policy %s allows (%d); this one is queued as soon as there is room.",
				n.pool.name, queues[n.pool.name].Limit)
		}
	}
}

// enter reports whether a job of the node may be queued. A node that a wave selects waits for no room, as the planner has it.
func (n *node) enter(job string) bool {
	p := n.pool
	switch {
	case p.spec.MaxQueued == nil:
		return true
	case schedule.SettingsOf([]v1alpha1.RolloutPolicy{{ObjectMeta: metav1.ObjectMeta{Name: p.name}, Spec: *p.spec}}, n.Labels).InWave:
		return p.part.queues.EnterAhead(p.name, n.Name, job)
	}
	return p.part.queues.Enter(p.name, n.Name, job)
}
