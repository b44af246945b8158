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
	// Stopped nodes wait for a person: quarantined, halted, paused or with a policy that cannot be worked with.
	Stopped
	// TimeWaits nodes wait for a window, the end of a freeze or of a soak, or for their wave.
	TimeWaits
	// Waiting nodes go as soon as the budget has room.
	Waiting

	states
)

var stateNames = [states]string{
	"done", "in maintenance", "held after a failure", "not Ready or cordoned", "pause before a retry",
	"stopped until a person acts", "waits for a window or its wave", "waits for the budget",
}

// String returns the name that the legend shows.
func (s State) String() string { return stateNames[s] }

// stateOfReason is the state of a node whose job waits for that reason; other reasons wait for the budget.
var stateOfReason = map[schedule.Reason]State{
	schedule.Paused: Stopped, schedule.InConflict: Stopped, schedule.InvalidSpec: Stopped, schedule.Quarantined: Stopped,
	schedule.DeviceUnhealthy: Stopped, schedule.NodeNotReady: Down, schedule.NodeMissing: Down,
	schedule.Aborted: Stopped, schedule.RolloutHalted: Stopped,
	schedule.WaitingForWave: TimeWaits, schedule.WaveEmpty: TimeWaits, schedule.OutsideWindow: TimeWaits,
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

// record takes a sample of every pool.
func (r *run) record() {
	for _, p := range r.pools {
		o := r.last.Policies[p.at]
		s := sample{at: r.now, unavailable: o.Unavailable, budget: o.Budget}
		for _, n := range p.nodes {
			s.nodes[r.stateOf(n)]++
		}
		if last := len(p.trace.samples) - 1; last >= 0 && p.trace.samples[last].at.Equal(r.now) {
			p.trace.samples[last] = s
			continue
		}
		p.trace.samples = append(p.trace.samples, s)
	}
}

func (r *run) stateOf(n *node) State {
	now := &r.facts.Nodes[n.at]
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
		return Waiting
	case len(n.jobs) == 0:
		return Pausing
	}
	if s, ok := stateOfReason[n.wait]; ok {
		return s
	}
	return Waiting
}
