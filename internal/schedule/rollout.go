package schedule

import (
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
)

const (
	// MaxRollouts bounds the updates that one policy follows, as the API does.
	MaxRollouts = 64
	// MaxFromVersions bounds the versions that are remembered of each, as the API does. Nodes that come from others go one by one.
	MaxFromVersions = 8
)

// Rest is the name of the wave after the last one of a policy: every other node, as the budget allows.
const Rest = "rest"

// Plan is how a policy lets an update spread over its pool. The zero Plan lets it spread at once, and follows no update.
type Plan struct {
	// Waves are in order. Edited says that they are others than when Rollouts was recorded.
	Waves  []Wave
	Edited bool
	// Halt is nil for the default, which is one failure.
	Halt *Halt
	// Resume is the request of a person to lift the halts, and Resumed the one that was acted on last.
	Resume, Resumed string
	// Rollouts is what was recorded about the updates, each once.
	Rollouts []Rollout
	// Judged are the uids of the jobs in the ledger whose verdicts are in the record already.
	Judged []string
}

// Wave is a part of the nodes with an update. It opens when the one before is judged and has soaked.
type Wave struct {
	Name string
	// Selector chooses the nodes of the wave; nil chooses every node.
	Selector labels.Selector
	// Size is how many nodes with the update may be updated up to the end of this wave: a number, or a percentage of them. Nil is
	// every node that Selector chooses.
	Size *intstr.IntOrString
	// Soak is how long after the last verdict the next wave opens.
	Soak time.Duration
}

// Halt says when an update halts.
type Halt struct {
	// MaxFailures is after how many failures in one wave: a number, or a percentage of its nodes, rounded up. 0 does not count.
	MaxFailures intstr.IntOrString
	// MaxHeld is how many nodes may be held at once.
	MaxHeld int
	// MaxConsecutive is after how many failures without a success in between; 0 does not count.
	MaxConsecutive int
	// LenientAfter is the percentage of the nodes with the update, rounded up, after whose success MaxHeld alone counts; 0 for never.
	LenientAfter int
}

// Rollout is what is remembered about an update in one policy.
type Rollout struct {
	Target
	// Wave is the name of the open wave.
	Wave string
	// From are the versions from which a node succeeded, in order.
	From []string
	// LastVerdict is when the last verdict was counted.
	LastVerdict time.Time
	// Done counts the nodes that succeeded in the waves before. Succeeded and Failed count the verdicts in the open one.
	Done, Succeeded, Failed int
	// Consecutive counts the failures since the last success.
	Consecutive int
	// Halted says why no node is admitted; nil while nodes are.
	Halted *Halted
}

// Halted is why an update halted.
type Halted struct {
	Time    time.Time
	Message string
}

// RolloutState is a rollout with what follows from the present facts.
type RolloutState struct {
	Rollout
	// Nodes counts the nodes that have the update: judged, running, waiting or not queued. Running have a place and no verdict yet, and
	// Waiting have a queued job.
	Nodes, Running, Waiting int
	// Reason is why no further node is admitted: RolloutHalted, WaveEmpty, WaitingForWave while the open wave is under way or soaks, or
	// empty where nothing but the budget limits them. Message says it with numbers.
	Reason  Reason
	Message string
	// Soaks is until when the open wave soaks, if it does.
	Soaks time.Time
}

// follows reports whether updates are followed at all.
func (p Plan) follows() bool { return len(p.Waves) > 0 || p.Halt != nil }

// halt is the threshold in force.
func (p Plan) halt() Halt {
	var h Halt
	if p.Halt != nil {
		h = *p.Halt
	}
	if h.MaxFailures == (intstr.IntOrString{}) && h.MaxConsecutive == 0 {
		h.MaxFailures = intstr.FromInt(h.MaxHeld + 1)
	}
	return h
}

// resumes reports whether a person asked to lift the halts since that was last acted on.
func (p Plan) resumes() bool { return p.Resume != "" && p.Resume != p.Resumed }
