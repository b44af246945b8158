package schedule

import (
	"cmp"
	"fmt"
)

// Edge is the update of one model of device from one version to one image. Waves and halts count nodes for each edge.
type Edge struct {
	// Model is the model of the device as package quarantine names it; v1alpha1.AnyModel where it is not known.
	Model string
	// From is the version that ran when the job was planned; empty where it is not known. Version is the one to be flashed.
	From, Version string
	// Digest of the image.
	Digest string
}

// Compare orders edges by model, versions and digest.
func (e Edge) Compare(o Edge) int {
	return cmp.Or(cmp.Compare(e.Model, o.Model), cmp.Compare(e.From, o.From), cmp.Compare(e.Version, o.Version), cmp.Compare(e.Digest, o.Digest))
}

// String says for people which update it is.
func (e Edge) String() string {
	if e.From == "" {
		return fmt.Sprintf("%s to %s", e.Model, e.Version)
	}
	return fmt.Sprintf("%s from %s to %s", e.Model, e.From, e.Version)
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
