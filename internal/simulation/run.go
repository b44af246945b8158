package simulation

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/due"
	"github.com/nodefirmware/node-firmware-operator/internal/quarantine"
	"github.com/nodefirmware/node-firmware-operator/internal/schedule"
)

// run is a simulation on its way.
type run struct {
	Options
	now    time.Time
	nodes  []*node
	byName map[string]*node
	// policies are in order of name, pools likewise; parts are the pools that are decided about together.
	policies []v1alpha1.RolloutPolicy
	pools    []*pool
	parts    []*part
	bad      badImages
	took     history
	passes   int
}

// node is a machine of the fleet on its way.
type node struct {
	Node
	at   int // in the facts of its part
	pool *pool
	// devices are those that the rollout updates, updates those of them that the last job does.
	devices []device
	updates []int
	// models names the devices that the last job updates, in order.
	models string
	// refused says that no job is queued for it, because the queue of its policy is full.
	refused bool
	// due says that it is among those of the facts that are to get updates and have no job.
	due bool
	// asked is when its next job was to be queued.
	asked time.Time
	// jobs are those that the operator knows: one that is queued, admitted or held, and the one that follows a held one.
	jobs []schedule.Job
	// attempts counts the jobs so far, failures those that failed for a reason that passes.
	attempts, failures int
	done               bool
	// wait is why the job waits; message says it to people.
	wait    schedule.Reason
	message string
	// busy is the time that its jobs and the pauses between them took. Inside is the time of its jobs, each with no more of it than
	// was expected: as much must be in a window.
	busy, inside time.Duration
	since        time.Time
}

// pool is a policy on its way, with what happened to its nodes.
type pool struct {
	name  string
	part  *part
	at    int // in the facts of the part
	spec  *v1alpha1.RolloutPolicySpec
	nodes []*node
	trace trace
	count jobCounts
	// last is when its last job ended, peak how many of its nodes were unavailable at once.
	last time.Time
	peak int
	// jobs are how long each job took that had to be in a window, as far as it had to.
	jobs []time.Duration
	// followed are the updates that go in waves. Halts counts how often one halted, and resumes says that a person is on the way.
	followed []followed
	halts    int
	resumes  bool
	// waved are the waves that the updates went through, and went which nodes went in them.
	waved map[schedule.Target]*phases
	went  []*went
}

// policy is the pool as the schedule knows it, and outcome what was decided about it last.
func (p *pool) policy() *schedule.Policy  { return &p.part.facts.Policies[p.at] }
func (p *pool) outcome() schedule.Outcome { return p.part.last.Policies[p.at] }

// Run simulates the rollout to its end.
func Run(ctx context.Context, o Options) (*Result, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	r := newRun(o)
	for _, s := range r.parts {
		r.pass(s)
	}
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		s, at, why := r.next()
		if why != "" {
			return r.result(why), nil
		}
		r.now = at
		if e, ok := s.events.passing(at, s.quiet); ok {
			e.do()
			continue
		}
		for e, ok := s.events.due(at); ok; e, ok = s.events.due(at) {
			e.do()
		}
		r.pass(s)
	}
}

func newRun(o Options) *run {
	r := &run{Options: o, now: o.Start, byName: make(map[string]*node, len(o.Fleet)), policies: withDefault(o.Policies)}
	for _, spec := range o.Fleet {
		n := &node{Node: spec, since: r.now, devices: devicesOf(spec, r.Work.Version), done: len(spec.Devices) == 0}
		r.nodes = append(r.nodes, n)
		r.byName[n.Name] = n
	}
	r.divide()
	r.bad = newBadImages(quarantine.NewPools(r.policies))
	for _, s := range r.parts {
		r.openRoom(s)
	}
	for _, n := range r.nodes {
		if !n.done {
			r.queue(n)
		}
		r.planOutage(n, 1)
	}
	return r
}

// withDefault lists the policies in order of name, with the one that the operator makes where it is missing.
func withDefault(policies []v1alpha1.RolloutPolicy) []v1alpha1.RolloutPolicy {
	out := slices.Clone(policies)
	if !slices.ContainsFunc(out, func(p v1alpha1.RolloutPolicy) bool { return p.Name == v1alpha1.DefaultRolloutPolicy }) {
		one := intstr.FromInt32(1)
		out = append(out, v1alpha1.RolloutPolicy{
			ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.DefaultRolloutPolicy},
			Spec:       v1alpha1.RolloutPolicySpec{State: v1alpha1.RolloutActive, MaxUnavailable: &one},
		})
	}
	slices.SortFunc(out, func(a, b v1alpha1.RolloutPolicy) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// next is the part about which something is decided next, and when; or why there is none: everything is done, nothing can happen, or
// the horizon.
func (r *run) next() (next *part, at time.Time, why Ending) {
	why = Complete
	for _, s := range r.parts {
		when, ending := r.nextOf(s)
		switch {
		case ending == "" && (next == nil || when.Before(at)):
			next, at = s, when
		case ending == Horizon, ending == Stuck && why == Complete:
			why = ending
		}
	}
	if next != nil {
		why = ""
	}
	return next, at, why
}

// nextOf is when something happens in a part that is to be looked at, or why nothing does. At the horizon there is a last look.
func (r *run) nextOf(s *part) (at time.Time, why Ending) {
	switch {
	case s.left == 0:
		return at, Complete
	case s.events.moves == 0 && !s.timed:
		return at, Stuck
	}
	if e, ok := s.events.next(); ok {
		at = e.at
		if !e.passes(s.quiet) {
			at = at.Add(r.Work.Reaction)
		}
	}
	if next := s.last.Next; !next.IsZero() && (at.IsZero() || next.Before(at)) {
		at = next
	}
	if end := r.Start.Add(r.Horizon); at.After(end) {
		if !s.facts.Now.Before(end) {
			return at, Horizon
		}
		at = end
	}
	return at, ""
}

// pass decides once about a part, by the product's own function, and starts what it admits.
func (r *run) pass(s *part) {
	r.passes++
	s.facts.Now, s.facts.Jobs = r.now, s.facts.Jobs[:0]
	for _, n := range s.nodes {
		n.wait, n.message = "", ""
		if len(n.jobs) > 0 {
			for i := range n.jobs {
				n.jobs[i].Expected = r.expected(n)
			}
			s.facts.Jobs = append(s.facts.Jobs, n.jobs...)
			n.jobs = slices.DeleteFunc(n.jobs, func(j schedule.Job) bool { return j.State == schedule.Finished })
		}
	}
	r.due(s)
	s.last = schedule.Decide(s.facts)
	for i, o := range s.last.Policies {
		p := s.pools[i]
		p.policy().Ledger = o.Ledger
		r.follow(p, o)
		p.peak = max(p.peak, o.Unavailable)
	}
	for _, a := range s.last.Admit {
		r.start(r.byName[a.Entry.Node], a.Entry.UID)
	}
	for _, w := range s.last.Wait {
		if n := r.byName[w.Node]; n.wait == "" {
			n.wait, n.message = w.Reason, w.Message
		}
	}
	s.publish()
	s.judge()
	s.record(r.now)
}

// queue queues the next job of a node, if its policy has room for it; otherwise it is queued when there is room.
func (r *run) queue(n *node) {
	name := fmt.Sprintf("%s-%d", n.Name, n.attempts+1)
	if !n.refused {
		n.asked = r.now
	}
	n.pool.part.queues.Note(n.Name, r.edgesDue(n))
	if n.refused = !n.enter(name); n.refused {
		return
	}
	n.attempts++
	j := schedule.Job{Name: name, UID: name, Node: n.Name, Created: r.now.Truncate(time.Second)}
	r.fill(n, &j)
	n.jobs = append(n.jobs, j)
}

// start runs an admitted job. A job that it follows is over.
func (r *run) start(n *node, uid string) {
	repeats := len(n.jobs) > 1
	n.jobs = slices.DeleteFunc(n.jobs, func(j schedule.Job) bool { return j.UID != uid })
	n.jobs[0].State = schedule.Admitted
	n.pool.count.Admitted++
	n.busy += r.pauseOf(n)
	took, ending, blamed := r.attempt(n)
	inside := r.inside(n, took)
	if repeats && n.pool.policy().Calendar != nil {
		inside = 0 // a held node is tried again when a person asks for it, whatever the windows are
	}
	n.busy, n.inside = n.busy+took, n.inside+inside
	if inside > 0 {
		n.pool.jobs = append(n.pool.jobs, inside)
	}
	began := r.now
	stints := n.pool.admitted(n.jobs[0].Edges, began)
	n.pool.part.events.add(r.now.Add(took), func() {
		r.end(n, ending, blamed, began)
		for i, e := range n.jobs[0].Edges {
			stints[i].judged(e.Verdict, r.now)
		}
		for _, e := range n.jobs[0].Edges {
			if e.Verdict != schedule.Unknown {
				n.pool.phases(e.Target).judged(inside)
			}
		}
	})
}

// pauseOf is the time between the last end of a job of the node and the queueing of the next, which no policy decides.
func (r *run) pauseOf(n *node) time.Duration {
	return max(0, n.asked.Truncate(time.Second).Sub(n.since))
}

// end ends the job of a node; blamed is the device because of which it failed.
func (r *run) end(n *node, how ending, blamed int, began time.Time) {
	n.since, n.pool.last = r.now, r.now
	switch how {
	case succeeds:
		n.pool.count.Succeeded++
		r.learn(n, began)
		n.finish(schedule.Succeeded, schedule.Succeeded, blamed)
		n.update(-1)
		if !n.done { // the image of another device is quarantined, or the next version of a path comes
			r.queue(n)
		}
	case passes:
		n.pool.count.Failed++
		n.failures++
		n.finish(schedule.Unknown, schedule.Unknown, blamed)
		n.pool.part.events.add(r.now.Add(due.RetryPause(n.failures-1)), func() { r.queue(n) })
	case holds:
		n.pool.count.Held++
		n.finish(schedule.Failed, schedule.Unknown, blamed)
		n.jobs[0].State = schedule.Held
		if r.Work.Person > 0 {
			n.pool.part.events.add(r.now.Add(r.person(n)), func() { r.queue(n) })
		}
	case spoils:
		n.pool.count.RolledBack++
		n.finish(schedule.Failed, schedule.Unknown, blamed)
		n.update(blamed)
		r.bad.report(n, n.devices[blamed], r.now)
		r.judge()
		if r.Work.Person > 0 {
			n.pool.part.events.add(r.now.Add(r.person(n)), func() {
				r.bad.lift(r.now)
				r.queue(n)
				r.judge()
			})
		}
	}
}

// finish ends the job of a node, and keeps it for one more decision, which takes its place back. It has one verdict about the update
// of the blamed device and one about the others.
func (n *node) finish(blamed, others schedule.Verdict, device int) {
	j := &n.jobs[0]
	j.State, j.Edges = schedule.Finished, nil
	for _, i := range n.updates {
		v := others
		if i == device {
			v = blamed
		}
		j.Edges = schedule.WithEdge(j.Edges, schedule.JobEdge{Edge: n.devices[i].edge(), Verdict: v})
	}
}

// update notes that the devices of the last job run the new firmware, but for one of them; -1 for none. Then come their next updates.
func (n *node) update(but int) {
	for _, i := range n.updates {
		if i != but {
			n.devices[i].updated()
		}
	}
	n.done = !slices.ContainsFunc(n.devices, func(d device) bool { return !d.done })
}

// person is how long it takes until a person looks after a node.
func (r *run) person(n *node) time.Duration {
	return exponential(r.chance(n.Name, "person", n.attempts), r.Work.Person)
}

// judge makes every queued job update what is not quarantined now. That may let nodes of other parts go.
func (r *run) judge() {
	for _, n := range r.nodes {
		for i := range n.jobs {
			if n.jobs[i].State == schedule.Queued {
				r.fill(n, &n.jobs[i])
			}
		}
	}
	for _, s := range r.parts {
		s.events.add(r.now, func() {})
	}
}

// planOutage plans when a node becomes not Ready for a reason that has nothing to do with the rollout. During a job of the
// node that is part of the job.
func (r *run) planOutage(n *node, nth int) {
	if r.Work.Outages == 0 || !n.Ready {
		return
	}
	dice := r.chance(n.Name, "outage", nth)
	const month = 30 * 24 * time.Hour
	at := r.now.Add(exponential(dice, scaled(month, 1/r.Work.Outages)))
	if at.Sub(r.Start) > r.Horizon {
		return
	}
	back := at.Add(exponential(dice, r.Work.OutageFor))
	s := n.pool.part
	s.events.addOutage(at, func() {
		if len(n.jobs) == 0 || n.jobs[0].State != schedule.Admitted {
			s.set(n, false, r.now)
		}
		s.events.addReturn(back, func() {
			s.set(n, true, r.now)
			r.planOutage(n, nth+1)
		})
	})
}

// waiting lists why nodes of a pool wait, with a message for each reason.
func (p *pool) waiting() map[schedule.Reason]WaitCount {
	out := map[schedule.Reason]WaitCount{}
	for _, n := range p.nodes {
		if n.wait == "" {
			continue
		}
		c := out[n.wait]
		c.Nodes++
		if c.Message == "" {
			c.Message = n.message
		}
		out[n.wait] = c
	}
	return maps.Clone(out)
}
