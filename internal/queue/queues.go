package queue

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/nodefirmware/node-firmware-operator/internal/schedule"
)

// forget is after how long a job that was queued and never seen by a pass no longer takes room: it was deleted at once, or the
// write was lost.
const forget = time.Minute

// Queues are those of the policies with a limit, and the room that is left in them. They are kept by one process: a new leader knows nothing
// until the first pass over the policies, and refuses until then. They may be used by several goroutines.
type Queues struct {
	now func() time.Time

	mu       sync.Mutex
	policies map[string]*queue
	// due are by node the updates that it is to get and that are not queued.
	due     map[string][]schedule.Edge
	wake    func(node string)
	changed func()
}

// queue is that of one policy.
type queue struct {
	limit, queued int
	// closed says that the policy admits nothing, as its limit of 0 does once it is known.
	closed bool
	// stuck is why no node can get an update before a person acts.
	stuck map[schedule.Target]schedule.Reason
	// entered are the jobs that were queued since the last pass, with the time.
	entered map[string]time.Time
	// waits are the nodes that were refused, and woken those of them that are planned again because there is room.
	waits, woken map[string]bool
	// line are the nodes that were refused, in order. Those that have left are still in it.
	line []string
}

// New returns queues that let nobody in before the first call of Publish.
func New(now func() time.Time) *Queues {
	return &Queues{now: now, policies: map[string]*queue{}, due: map[string][]schedule.Edge{}}
}

// OnWake says what plans a node again. It must not block, nor call the queues.
func (r *Queues) OnWake(wake func(node string)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wake = wake
}

// OnChange says what is to happen after a node was refused, or a refused one has left. It must not block, nor call the queues.
func (r *Queues) OnChange(changed func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.changed = changed
}

// Enter reports whether the job of a node may be queued. A node that is refused is planned again when there is room; nodes that
// were refused earlier go first.
func (r *Queues) Enter(policy, node, job string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, other := range r.policies {
		if name != policy {
			r.leave(other, node, job)
		}
	}
	q := r.of(policy)
	if _, again := q.entered[job]; again {
		return true
	}
	r.call(q) // those who wait longer go first
	isNext := q.woken[node]
	delete(q.woken, node)
	if q.left() > 0 && (isNext || !r.isStuck(q, node)) {
		delete(q.waits, node)
		q.entered[job] = r.now()
		return true
	}
	r.refuse(q, node)
	return false
}

// refuse puts a node into the line.
func (r *Queues) refuse(q *queue, node string) {
	if q.waits[node] {
		return
	}
	q.waits[node] = true
	q.tidy()
	q.line = append(q.line, node)
	if r.changed != nil {
		r.changed()
	}
}

// EnterAhead reports whether the job of a node may be queued that waits for no room: it is refused only while the limit is 0. It takes room
// as any other.
func (r *Queues) EnterAhead(policy, node, job string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, other := range r.policies {
		if name != policy {
			r.leave(other, node, job)
		}
	}
	q := r.of(policy)
	if _, again := q.entered[job]; q.closed && !again {
		r.refuse(q, node)
		return false
	}
	wasRefused := q.waits[node] || q.woken[node]
	delete(q.waits, node)
	delete(q.woken, node)
	if _, again := q.entered[job]; !again {
		q.entered[job] = r.now()
	}
	if wasRefused && r.changed != nil {
		r.changed()
	}
	return true
}

// Leave says that a node has nothing to queue, or that its job could not be queued.
func (r *Queues) Leave(node, job string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, q := range r.policies {
		r.leave(q, node, job)
	}
}

func (r *Queues) leave(q *queue, node, job string) {
	_, entered := q.entered[job]
	if !entered && !q.waits[node] && !q.woken[node] {
		return
	}
	delete(q.entered, job)
	delete(q.waits, node)
	delete(q.woken, node)
	r.call(q)
	if r.changed != nil {
		r.changed()
	}
}

// Counts are what a pass found about a policy.
type Counts struct {
	// Limit is how many nodes that could go may wait, 0 where the policy admits nothing, and Queued how many do.
	Limit, Queued int
	// Stuck is why no node can get an update before a person acts. No more jobs with it are queued.
	Stuck map[schedule.Target]schedule.Reason
}

// Publish takes over what a pass found about each policy with a limit, and whether it saw a job. It has the nodes planned
// again for which there is room now, and all nodes that a policy without a limit refused.
func (r *Queues) Publish(queues map[string]Counts, saw func(job string) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, q := range r.policies {
		if _, limited := queues[name]; !limited {
			q.stuck = nil
			q.limit = q.queued + len(q.entered) + len(q.woken) + len(q.waits)
			r.call(q)
			delete(r.policies, name)
		}
	}
	for name, found := range queues {
		q := r.of(name)
		q.limit, q.queued, q.stuck, q.closed = found.Limit, found.Queued, found.Stuck, found.Limit == 0
		maps.DeleteFunc(q.entered, func(job string, at time.Time) bool { return saw(job) || r.now().Sub(at) > forget })
		r.call(q)
	}
}

// Refused is how many nodes of a policy are refused.
func (r *Queues) Refused(policy string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	q := r.policies[policy]
	if q == nil {
		return 0
	}
	return len(q.waits) + len(q.woken)
}

func (r *Queues) of(policy string) *queue {
	q := r.policies[policy]
	if q == nil {
		q = &queue{entered: map[string]time.Time{}, waits: map[string]bool{}, woken: map[string]bool{}}
		r.policies[policy] = q
	}
	return q
}

// left is how many more nodes may wait, beside those that were called.
func (q *queue) left() int { return q.limit - q.queued - len(q.entered) - len(q.woken) }

// tidy takes those out of the line that have left, once they are more than those who wait: a node that comes and goes while
// nobody is called must not make it longer each time. Of a node that has come back the first place counts, as in call.
func (q *queue) tidy() {
	if len(q.line) < 2*len(q.waits) {
		return
	}
	seen := make(map[string]bool, len(q.waits))
	q.line = slices.DeleteFunc(q.line, func(node string) bool {
		gone := !q.waits[node] || seen[node]
		seen[node] = true
		return gone
	})
}

// call has as many nodes of the line planned again as there is room for. Those with an update that is stuck keep their place.
func (r *Queues) call(q *queue) {
	var kept []string
	for q.left() > 0 && len(q.line) > 0 {
		node := q.line[0]
		q.line = q.line[1:]
		switch {
		case !q.waits[node]:
			continue
		case r.isStuck(q, node):
			kept = append(kept, node)
			continue
		}
		delete(q.waits, node)
		q.woken[node] = true
		if r.wake != nil {
			r.wake(node)
		}
	}
	if len(kept) > 0 {
		q.line = append(kept, q.line...)
	}
}

// isStuck reports whether an update of the node is stuck. Pins wait for no wave.
func (r *Queues) isStuck(q *queue, node string) bool {
	return len(q.stuck) > 0 && slices.ContainsFunc(r.due[node], func(e schedule.Edge) bool {
		why, is := q.stuck[e.Target]
		return is && (!e.Pinned || why != schedule.WaveEmpty)
	})
}

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
