package rollout

import (
	"context"

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
			edge := schedule.EdgeOf(model, u.FromVersion, u.Version, u.Digest)
			out[uid] = schedule.WithEdge(out[uid], schedule.JobEdge{Edge: edge, Verdict: verdictOn(j, u.Name)})
		}
	}
	return out, nil
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
