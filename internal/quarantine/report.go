package quarantine

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/pkg/text"
)

// maxMessage bounds the message of an entry, as the API does.
const maxMessage = 512

// reported returns the bad images that a job reports, without those that the job was not to flash to the device it names: a
// daemon that is compromised can quarantine the images of its own jobs and no others.
func reported(j *v1alpha1.FirmwareJob) []v1alpha1.QuarantinedImage {
	var out []v1alpha1.QuarantinedImage
	for _, bad := range j.Status.BadImages {
		for _, u := range j.Spec.Updates {
			if u.Device == bad.Device && u.Digest == bad.Digest && bad.Model != "" {
				out = append(out, v1alpha1.QuarantinedImage{
					Digest: bad.Digest, Model: bad.Model, Version: u.Version, Since: metav1.NewTime(failedAt(j)),
					NodeName: j.Spec.NodeName, Job: j.Name, Message: text.Clip(bad.Message, maxMessage),
				})
			}
		}
	}
	return out
}

// failedAt is when the image was found bad, in whole seconds. It does not move while the job goes on, so that a lift does
// not become too old. It is never before the admission, which is a time of the operator's clock: a lift from before the
// admission must not cover the report of a node whose clock is behind. On such a node the time since the admission is
// counted from the operator's time.
func failedAt(j *v1alpha1.FirmwareJob) time.Time {
	at := blamedAt(j)
	if c := meta.FindStatusCondition(j.Status.Conditions, v1alpha1.ConditionAdmitted); c != nil && c.LastTransitionTime.After(at) {
		ran := time.Duration(0)
		if began := j.Status.StartTime; began != nil {
			ran = max(0, at.Sub(began.Time))
		}
		at = c.LastTransitionTime.Add(ran)
	}
	return at.Truncate(time.Second)
}

// blamedAt is when the first step of the update failed; where no step has failed, it is when the job began to roll back or
// failed.
func blamedAt(j *v1alpha1.FirmwareJob) time.Time {
	var steps, conditions []time.Time
	for _, s := range j.Status.Steps {
		if s.State == v1alpha1.StepFailed && s.Phase != v1alpha1.StepPhaseRollback && s.FinishTime != nil {
			steps = append(steps, s.FinishTime.Time)
		}
	}
	for _, kind := range []string{v1alpha1.ConditionRolledBack, v1alpha1.ConditionFailed} {
		if c := meta.FindStatusCondition(j.Status.Conditions, kind); c != nil {
			conditions = append(conditions, c.LastTransitionTime.Time)
		}
	}
	if j.Status.CompletionTime != nil {
		conditions = append(conditions, j.Status.CompletionTime.Time)
	}
	for _, times := range [][]time.Time{steps, conditions, {j.CreationTimestamp.Time}} {
		if len(times) > 0 {
			return earliest(times)
		}
	}
	return time.Time{}
}

func earliest(times []time.Time) time.Time {
	out := times[0]
	for _, t := range times[1:] {
		if t.Before(out) {
			out = t
		}
	}
	return out
}
