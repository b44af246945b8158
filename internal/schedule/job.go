package schedule

import (
	"cmp"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// StateOf is where a job stands by its own conditions.
func StateOf(j *v1alpha1.FirmwareJob) JobState {
	switch {
	case meta.IsStatusConditionTrue(j.Status.Conditions, v1alpha1.ConditionComplete):
		return Finished
	case j.Held():
		return Held
	case j.Ended():
		return Finished
	case j.Admitted():
		return Admitted
	case j.Spec.Cancel != nil || j.DeletionTimestamp != nil:
		return Cancelled
	}
	return Queued
}

// EdgesOf are the edges of a job, with what it has shown about them. The model of a device is the one that the planner wrote into the job; in
// the job of a person, which names none, it is what model says. A restore says nothing of an update.
func EdgesOf(j *v1alpha1.FirmwareJob, model func(device string) (string, error)) (out []JobEdge, err error) {
	if j.Spec.Task.Type != v1alpha1.JobTypeUpdate {
		return nil, nil
	}
	for i := range j.Spec.Task.Devices {
		u := &j.Spec.Task.Devices[i]
		edge := EdgeOfUpdate(u)
		if u.Model == "" {
			found, err := model(u.Name)
			if err != nil {
				return nil, err
			}
			edge.Model = cmp.Or(found, v1alpha1.AnyModel)
		}
		edge.Pinned = u.Origin == v1alpha1.OriginPin
		out = WithEdge(out, JobEdge{Edge: edge, Verdict: verdictOn(j, u.Name)})
	}
	return out, nil
}

// verdictOn is what a job has shown about the image of one of its devices. A failure that says nothing about the image counts
// only where it holds the node, because a person is needed then.
func verdictOn(j *v1alpha1.FirmwareJob, device string) Verdict {
	switch {
	case !j.Ended() && j.Blames(device):
		return OnTrial
	case !j.Ended():
		return Unknown
	case j.Failed() && j.FailureReason() == v1alpha1.ReasonUnhealthy && len(j.Status.Blamed) == 0:
		return Acquitted
	case !j.Failed():
		return Succeeded
	case !j.FailedOn(device):
		return Unknown
	case j.Held(), j.Blames(device), !saysNothing(j.FailureReason()):
		return Failed
	}
	return Unknown
}

// SlowBoot says that the node of a job boots slowly since: a node that is found healthy has no other complaint.
func SlowBoot(j *v1alpha1.FirmwareJob) string {
	if v := j.Status.Verdict; v != nil && v.Result == v1alpha1.HealthResultHealthy && !j.Failed() {
		return strings.TrimSuffix(strings.Join(v.Complaints, "; "), ".")
	}
	return ""
}

// saysNothing reports whether a failure for this reason says nothing about an image. Of those that do not pass, one is about a person and one
// about a disk.
func saysNothing(reason string) bool {
	return reason == v1alpha1.ReasonNoRunner || reason == v1alpha1.ReasonCancelled || reason == v1alpha1.ReasonUnlockUnavailable || step.Reason(reason).Passing()
}
