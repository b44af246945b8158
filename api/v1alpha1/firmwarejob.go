package v1alpha1

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
)

// Ended reports whether the job is over: it completed or failed.
func (j *FirmwareJob) Ended() bool { return j.is(ConditionComplete) || j.Failed() }

// Failed reports whether the job failed.
func (j *FirmwareJob) Failed() bool { return j.is(ConditionFailed) }

// Held reports whether the job failed and keeps its node in maintenance until a person acts.
func (j *FirmwareJob) Held() bool { return j.Failed() && j.is(ConditionHeld) }

// Admitted reports whether the job has a place in the budget of its RolloutPolicy.
func (j *FirmwareJob) Admitted() bool { return j.is(ConditionAdmitted) }

// FailureReason is the reason of the condition Failed; empty where the job does not have that condition.
func (j *FirmwareJob) FailureReason() string {
	if c := meta.FindStatusCondition(j.Status.Conditions, ConditionFailed); c != nil {
		return c.Reason
	}
	return ""
}

// RetryInForce is the request to retry that is in force for the job, nil where it is not known.
func (j *FirmwareJob) RetryInForce() *string {
	if j.Status.Request != nil {
		return j.Status.Request
	}
	return j.Spec.Task.Request
}

// FailedOn reports whether a failed job failed because of the device: a step on it failed, or one of the whole node. Where
// the job blames devices, it failed because of them alone.
func (j *FirmwareJob) FailedOn(device string) bool {
	if j.FailureReason() == ReasonNodeGone {
		return false
	}
	blames := len(j.Status.Blamed) > 0
	onDevices := blames
	for _, s := range j.Status.Steps {
		if s.State != StepFailed {
			continue
		}
		if s.Device == device || s.Device == "" && !blames {
			return true
		}
		onDevices = true
	}
	return !onDevices || j.Blames(device)
}

// Blames reports whether the job says that the image of the device made the device or its node unhealthy.
func (j *FirmwareJob) Blames(device string) bool {
	return slices.ContainsFunc(j.Status.Blamed, func(b BlamedDevice) bool { return b.Device == device })
}

func (j *FirmwareJob) is(condition string) bool {
	return meta.IsStatusConditionTrue(j.Status.Conditions, condition)
}
