package rollout

import (
	"github.com/nodefirmware/node-firmware-operator/internal/controller/room"
	"github.com/nodefirmware/node-firmware-operator/internal/schedule"
)

// publish tells the room how many nodes wait under each policy with a limit.
func (r *Reconciler) publish(f facts, d schedule.Decision) {
	if r.room == nil {
		return
	}
	queues := map[string]room.Queue{}
	for _, o := range d.Policies {
		if limit := f.policies[o.Name].Spec.MaxQueued; limit != nil {
			_, queued := QueueOf(o.Queue)
			queues[o.Name] = room.Queue{Limit: int(*limit), Queued: int(queued)}
		}
	}
	var seen map[string]bool
	r.room.Publish(queues, func(job string) bool {
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
	if r.room == nil {
		return 0
	}
	return r.room.Refused(policy)
}
