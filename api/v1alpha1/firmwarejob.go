package v1alpha1

import "k8s.io/apimachinery/pkg/api/meta"

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
	if j.Status.Retry != nil {
		return j.Status.Retry
	}
	return j.Spec.Retry
}

func (j *FirmwareJob) is(condition string) bool {
	return meta.IsStatusConditionTrue(j.Status.Conditions, condition)
}
