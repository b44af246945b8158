package simulation

import (
	"time"

	"github.com/nodefirmware/node-firmware-operator/internal/schedule"
)

// State is where a node stands, as the picture shows it.
type State int

// The states, from the bottom of the picture to its top.
const (
	// Done nodes run the new firmware.
	Done State = iota
	// Running nodes are admitted and in maintenance.
	Running
	// Held nodes are kept by a failed job until a person acts.
	Held
	// Down nodes are not Ready or cordoned, and no job has them.
	Down
	// Pausing nodes have no job now, because one failed a while ago.
	Pausing
	// Stopped nodes wait for a person: quarantined, halted, paused, in a wave that selects none of them, or with an invalid policy.
	Stopped
	// TimeWaits nodes wait for a window, the end of a freeze or of a soak, or for their wave.
	TimeWaits
	// Refused nodes are not queued, because as many nodes wait as may.
	Refused
	// Waiting nodes go as soon as the budget has room.
	Waiting

	states
)

var stateNames = [states]string{
	"done", "in maintenance", "held after a failure", "not Ready or cordoned", "pause before a retry",
	"stopped until a person acts", "waits for a window or its wave", "not queued, the queue is full",
	"waits for the budget",
}

// String returns the name that the legend shows.
func (s State) String() string { return stateNames[s] }

// stateOfReason is the state of a node whose job waits for that reason; other reasons wait for the budget.
var stateOfReason = map[schedule.Reason]State{
	schedule.Paused: Stopped, schedule.InConflict: Stopped, schedule.InvalidSpec: Stopped, schedule.Quarantined: Stopped,
	schedule.DeviceUnhealthy: Stopped, schedule.NodeNotReady: Down, schedule.NodeMissing: Down,
	schedule.Aborted: Stopped, schedule.RolloutHalted: Stopped,
	schedule.WaveEmpty:      Stopped,
	schedule.WaitingForWave: TimeWaits, schedule.OutsideWindow: TimeWaits,
}

// sample is a pool after one decision.
type sample struct {
	at time.Time
	// nodes counts those in each state; unavailable are those that use the budget up.
	nodes               [states]int
	unavailable, budget int
}

// trace is what happened to a pool, in order of time.
type trace struct {
	samples []sample
}

// record takes a sample of every pool of a part.
func (s *part) record(now time.Time) {
	for _, p := range s.pools {
		o := p.outcome()
		next := sample{at: now, unavailable: o.Unavailable, budget: o.Budget}
		for _, n := range p.nodes {
			next.nodes[s.stateOf(n)]++
		}
		p.trace.add(next)
	}
}

// add notes a sample; of two at the same time the later one counts.
func (t *trace) add(s sample) {
	if last := len(t.samples) - 1; last >= 0 && t.samples[last].at.Equal(s.at) {
		t.samples[last] = s
		return
	}
	t.samples = append(t.samples, s)
}

// set notes whether a node is Ready, in the facts and in the trace of its pool: a decision need not follow.
func (s *part) set(n *node, ready bool, now time.Time) {
	p, f := n.pool, &s.facts.Nodes[n.at]
	if len(p.trace.samples) == 0 || f.Ready == ready {
		f.Ready = ready
		return
	}
	next := p.trace.samples[len(p.trace.samples)-1]
	next.at = now
	next.nodes[s.stateOf(n)]--
	f.Ready = ready
	next.nodes[s.stateOf(n)]++
	if !f.Cordoned && !n.hasPlace() {
		next.unavailable++
		if ready {
			next.unavailable -= 2
		}
	}
	p.peak = max(p.peak, next.unavailable)
	p.trace.add(next)
}

// hasPlace reports whether a job of the node has a place in the ledger.
func (n *node) hasPlace() bool {
	return len(n.jobs) > 0 && (n.jobs[0].State == schedule.Admitted || n.jobs[0].State == schedule.Held)
}

func (s *part) stateOf(n *node) State {
	now := &s.facts.Nodes[n.at]
	switch {
	case len(n.jobs) > 0 && n.jobs[0].State == schedule.Admitted:
		return Running
	case len(n.jobs) > 0 && n.jobs[0].State == schedule.Held:
		return Held
	case !now.Ready || now.Cordoned:
		return Down
	case n.done:
		return Done
	case n.refused:
		return Refused
	case len(n.jobs) == 0:
		return Pausing
	}
	if state, ok := stateOfReason[n.wait]; ok {
		return state
	}
	return Waiting
}
