package queue

import (
	"maps"
	"slices"

	"github.com/nodefirmware/node-firmware-operator/internal/schedule"
)

// Note says which updates a node is to get that no job of it does yet: they are not queued, or wait for another try.
func (r *Queues) Note(node string, due []schedule.Edge) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before, known := r.due[node]
	if known && slices.Equal(before, due) {
		return
	}
	r.due[node] = due
	gone := func(e schedule.Edge) bool { return !slices.Contains(due, e) }
	if r.changed != nil && (!known || slices.ContainsFunc(before, gone)) { // a wave may be over that waited for this node
		r.changed()
	}
}

// Forget says that there is no such node.
func (r *Queues) Forget(node string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.due, node)
}

// Due are the updates of each node that was planned once, which may be none.
func (r *Queues) Due() map[string][]schedule.Edge {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.due)
}
