package schedule

import (
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// MaxRollouts bounds the edges that one policy follows, as the API does.
const MaxRollouts = 64

// Rest is the name of the wave after the last one of a policy: every other node, as the budget allows.
const Rest = "rest"

// Plan is how a policy lets an edge spread over its pool. The zero Plan lets it spread at once, and follows no edge.
type Plan struct {
	// Waves are in order. Exponential stands for waves; at most one of both is given.
	Waves       []Wave
	Exponential *Exponential
	// Halt is nil for the default, which is one failure.
	Halt *Halt
	// Deadline is how long after its first admission an edge may be admitted; 0 for ever.
	Deadline time.Duration
	// Resume is the request of a person to lift the halts, and Resumed the one that was acted on last.
	Resume, Resumed string
	// Rollouts is what was recorded about the edges, each once.
	Rollouts []Rollout
	// Judged are the uids of the jobs in the ledger whose verdicts are in the record already.
	Judged []string
}

// Wave is a part of the nodes with an edge. It opens when the one before is judged and has soaked.
type Wave struct {
	Name string
	// Selector chooses the nodes of the wave; nil chooses every node.
	Selector labels.Selector
	// Size is how many nodes with the edge may be updated up to the end of this wave: a number, or a percentage of them. Nil is
	// every node that Selector chooses.
	Size *intstr.IntOrString
	// Soak is how long after the last verdict the next wave opens.
	Soak time.Duration
}

// Exponential stands for waves of Start nodes, then twice as many, and so on up to the budget.
type Exponential struct {
	Start int
	Soak  time.Duration
}

// Halt says when an edge halts: after so many failed nodes in one wave, or when more than so many percent of the wave's nodes
// failed. 0 does not count. A node that a failed job holds always halts its edge.
type Halt struct {
	MaxFailures, MaxFailedPercent int
}

// Rollout is what is remembered about an edge in one policy.
type Rollout struct {
	Edge
	// Wave is the name of the open wave.
	Wave string
	// Started is the first admission since the edge was last at rest, and LastVerdict when the last verdict was counted.
	Started, LastVerdict time.Time
	// Done counts the nodes that were judged in the waves before; Succeeded and Failed those in the open one.
	Done, Succeeded, Failed int
	// Halted says why no node is admitted; nil while nodes are.
	Halted *Halted
}

// Halted is why an edge halted.
type Halted struct {
	Reason HaltReason
	// Node and Job failed last.
	Node, Job string
	Message   string
	Time      time.Time
}

// HaltReason says why an edge halted.
type HaltReason string

// The reasons to halt.
const (
	// HaltNeedsIntervention: a failed job holds its node until a person acts.
	HaltNeedsIntervention HaltReason = "NeedsIntervention"
	// HaltMaxFailures: as many nodes of the wave failed as the policy says.
	HaltMaxFailures HaltReason = "MaxFailures"
	// HaltMaxFailedPercent: more of the wave failed than the policy allows.
	HaltMaxFailedPercent HaltReason = "MaxFailedPercent"
	// HaltNoSuccess: every node of the wave was judged and none succeeded.
	HaltNoSuccess HaltReason = "NoSuccess"
)

// RolloutState is a rollout with what follows from the present facts.
type RolloutState struct {
	Rollout
	// Nodes counts the nodes that have the edge: judged, running or waiting. Running have a place and no verdict yet.
	Nodes, Running, Waiting int
	// Reason is why no further node is admitted: RolloutHalted, DeadlineExceeded, WaveSoaking, WaveEmpty, WaveNotOpen while
	// the open wave is under way, or empty where nothing but the budget limits them. Message says it with numbers.
	Reason  Reason
	Message string
}

// follows reports whether edges are followed at all.
func (p Plan) follows() bool {
	return len(p.Waves) > 0 || p.Exponential != nil || p.Halt != nil || p.Deadline > 0
}

// halt is the threshold in force.
func (p Plan) halt() Halt {
	if p.Halt == nil || *p.Halt == (Halt{}) {
		return Halt{MaxFailures: 1}
	}
	return *p.Halt
}

// resumes reports whether a person asked to lift the halts since that was last acted on.
func (p Plan) resumes() bool { return p.Resume != "" && p.Resume != p.Resumed }
