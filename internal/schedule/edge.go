package schedule

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

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
}

// Compare orders edges by target and version.
func (e Edge) Compare(o Edge) int {
	return cmp.Or(e.Target.Compare(o.Target), cmp.Compare(e.From, o.From))
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
	// Succeeded: the node passed its health gate with the image.
	Succeeded
	// Failed: the update failed on a device of the edge.
	Failed
)

// targets are those of the edges, each once, with one verdict: a failure on any of its edges counts, and a success only where none of
// them is unknown.
func targets(edges []JobEdge) (out []JobEdge) {
	for _, e := range edges { // in order of target
		last := len(out) - 1
		if last < 0 || out[last].Target != e.Target {
			out = append(out, JobEdge{Edge{Target: e.Target}, e.Verdict})
			continue
		}
		if e.Verdict == Failed || out[last].Verdict == Succeeded {
			out[last].Verdict = e.Verdict
		}
	}
	return out
}

// has reports whether one of the edges has the target.
func has(edges []JobEdge, t Target) bool {
	return slices.ContainsFunc(edges, func(e JobEdge) bool { return e.Target == t })
}

// EdgeOf is the update of a device of a model, which may not be known.
func EdgeOf(model, from, version string, digest v1alpha1.Digest) Edge {
	return Edge{Target: Target{Model: cmp.Or(model, v1alpha1.AnyModel), Version: version, Digest: string(digest)}, From: from}
}

// WithEdge adds an edge to those of a job, in order. Of two devices with the same edge, the one that failed counts, and a
// success counts only where neither is unknown.
func WithEdge(edges []JobEdge, e JobEdge) []JobEdge {
	at, found := slices.BinarySearchFunc(edges, e, func(a, b JobEdge) int { return a.Edge.Compare(b.Edge) })
	if !found {
		return slices.Insert(edges, at, e)
	}
	if old := &edges[at].Verdict; e.Verdict == Failed || *old == Succeeded {
		*old = e.Verdict
	}
	return edges
}
