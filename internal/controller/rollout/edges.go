package rollout

import (
	"cmp"
	"context"
	"slices"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/schedule"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// edges are the edges of each job by its uid. The model of a device is the one that the planner wrote into the job; in the job
// of a person it is the one that the device reports now.
func (r *Reconciler) edges(ctx context.Context, jobs map[string]*v1alpha1.FirmwareJob) (map[string][]schedule.JobEdge, error) {
	out := make(map[string][]schedule.JobEdge, len(jobs))
	for uid, j := range jobs {
		for i := range j.Spec.Task.Devices {
			u := &j.Spec.Task.Devices[i]
			model := u.Model
			if model == "" {
				var err error
				if model, err = r.model(ctx, u.Name); err != nil {
					return nil, err
				}
			}
			edge := EdgeOf(model, u.FromVersion, u.Version, u.Digest)
			out[uid] = WithEdge(out[uid], schedule.JobEdge{Edge: edge, Verdict: verdictOn(j, u.Name)})
		}
	}
	return out, nil
}

// EdgeOf is the update of a device of a model, which may not be known.
func EdgeOf(model, from, version string, digest v1alpha1.Digest) schedule.Edge {
	return schedule.Edge{Target: schedule.Target{Model: cmp.Or(model, v1alpha1.AnyModel), Version: version, Digest: string(digest)}, From: from}
}

// WithEdge adds an edge to those of a job, in order. Of two devices with the same edge, the one that failed counts, and a
// success counts only where neither is unknown.
func WithEdge(edges []schedule.JobEdge, e schedule.JobEdge) []schedule.JobEdge {
	at, found := slices.BinarySearchFunc(edges, e, func(a, b schedule.JobEdge) int { return a.Edge.Compare(b.Edge) })
	if !found {
		return slices.Insert(edges, at, e)
	}
	if old := &edges[at].Verdict; e.Verdict == schedule.Failed || *old == schedule.Succeeded {
		*old = e.Verdict
	}
	return edges
}

// verdictOn is what a job has shown about the image of one of its devices. A failure that says nothing about the image counts
// only where it holds the node, because a person is needed then.
func verdictOn(j *v1alpha1.FirmwareJob, device string) schedule.Verdict {
	switch {
	case !j.Ended():
		return schedule.Unknown
	case !j.Failed():
		return schedule.Succeeded
	case !j.FailedOn(device):
		return schedule.Unknown
	case j.Held(), j.Blames(device), !saysNothing(j.FailureReason()):
		return schedule.Failed
	}
	return schedule.Unknown
}

// saysNothing reports whether a failure for this reason says nothing about an image.
func saysNothing(reason string) bool {
	return reason == v1alpha1.ReasonNoRunner || reason == v1alpha1.ReasonCancelled || step.Reason(reason).Passing()
}
