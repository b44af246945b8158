package schedule

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
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
	// Slow counts the nodes that boot slowly since their update. The first ones halt it, and a person who resumes has seen them.
	Slow int
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
	// Waiting have a queued job, also those with a pin, which the others do not count.
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

// Target is the update of one model of device to one image. Waves and halts count nodes for each target.
type Target struct {
	// Model is the model of the device as package quarantine names it; v1alpha1.AnyModel where it is not known.
	Model string
	// Version is the one to be flashed, and Digest its image.
	Version, Digest string
}

// Compare orders targets by model, version and digest.
func (t Target) Compare(o Target) int {
	return cmp.Or(cmp.Compare(t.Model, o.Model), cmp.Compare(t.Version, o.Version), cmp.Compare(t.Digest, o.Digest))
}

// String says for people which update it is.
func (t Target) String() string { return fmt.Sprintf("%s to %s", t.Model, t.Version) }

func (t Target) sameImage(o Target) bool { return t.Model == o.Model && t.Digest == o.Digest }

// Edge is a target with the version that ran when the job was planned; empty where it is not known.
type Edge struct {
	Target
	From string
	// Pinned says that a pin selects the target. Such an update passes waves and counts in none.
	Pinned bool
}

// Compare orders edges by target and version; what is pinned comes last.
func (e Edge) Compare(o Edge) int {
	out := cmp.Or(e.Target.Compare(o.Target), cmp.Compare(e.From, o.From))
	switch {
	case out != 0 || e.Pinned == o.Pinned:
		return out
	case e.Pinned:
		return 1
	}
	return -1
}

// JobEdge is an edge of a job, with what the job has shown about it.
type JobEdge struct {
	Edge
	Verdict Verdict
}

// Verdict is what a job has shown about one of its edges.
type Verdict int

// The verdicts.
const (
	// Unknown: the job has not ended, or its end says nothing about the image.
	Unknown Verdict = iota
	// Acquitted: the job left its node unhealthy, and blames no image for that.
	Acquitted
	// OnTrial: the job blames the image and has not ended: it restores the previous firmware to see whether that mends the node.
	OnTrial
	// Failed: the update failed on a device of the edge.
	Failed
	// Succeeded: the node passed its health gate with the image.
	Succeeded
)

// and is the verdict on two devices: a failure on either counts, and a success only where neither says anything else.
func (v Verdict) and(o Verdict) Verdict {
	if v == Succeeded || o != Succeeded && o > v {
		return o
	}
	return v
}

// counts reports whether the verdict is one of the wave.
func (v Verdict) counts() bool { return v == Succeeded || v == Failed }

// targets are those of the edges, each once, with one verdict. One that a template selects on any device is not pinned.
func targets(edges []JobEdge) (out []JobEdge) {
	for _, e := range edges { // in order of target
		last := len(out) - 1
		if last < 0 || out[last].Target != e.Target {
			out = append(out, JobEdge{Edge{Target: e.Target, Pinned: e.Pinned}, e.Verdict})
			continue
		}
		out[last].Verdict, out[last].Pinned = out[last].Verdict.and(e.Verdict), out[last].Pinned && e.Pinned
	}
	return out
}

// has reports whether one of the edges has the target.
func has(edges []JobEdge, t Target) bool {
	return slices.ContainsFunc(edges, func(e JobEdge) bool { return e.Target == t })
}

// pins reports whether pins select the target on each of the devices that get it.
func pins(edges []JobEdge, t Target) bool {
	return !slices.ContainsFunc(edges, func(e JobEdge) bool { return e.Target == t && !e.Pinned })
}

// EdgeOf is the update of a device of a model, which may not be known.
func EdgeOf(model, from, version string, digest v1alpha1.Digest) Edge {
	return Edge{Target: Target{Model: cmp.Or(model, v1alpha1.AnyModel), Version: version, Digest: string(digest)}, From: from}
}

// EdgeOfUpdate is what a job does with a device.
func EdgeOfUpdate(u *v1alpha1.TaskDevice) Edge {
	version, digest := u.Target()
	return EdgeOf(u.Model, u.FromVersion, version, digest)
}

// WithEdge adds an edge to those of a job, in order. Two devices with the same edge have one verdict.
func WithEdge(edges []JobEdge, e JobEdge) []JobEdge {
	at, found := slices.BinarySearchFunc(edges, e, func(a, b JobEdge) int { return a.Edge.Compare(b.Edge) })
	if !found {
		return slices.Insert(edges, at, e)
	}
	edges[at].Verdict = edges[at].Verdict.and(e.Verdict)
	return edges
}
