package rollout

import (
	"testing"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/schedule"
)

func ended(conditions ...metav1.Condition) *v1alpha1.FirmwareJob {
	j := &v1alpha1.FirmwareJob{}
	for _, c := range conditions {
		c.Status = metav1.ConditionTrue
		j.Status.Conditions = append(j.Status.Conditions, c)
	}
	return j
}

func failedFor(reason string) metav1.Condition {
	return metav1.Condition{Type: v1alpha1.ConditionFailed, Reason: reason}
}

func TestWhatAJobShowsAboutAnImage(t *testing.T) {
	held := metav1.Condition{Type: v1alpha1.ConditionHeld}
	onAnother := ended(failedFor(v1alpha1.ReasonWriteFailed))
	onAnother.Status.Steps = []v1alpha1.JobStep{{Name: "flash", Device: "disk", State: v1alpha1.StepFailed}}
	reported := ended(failedFor(v1alpha1.ReasonTimedOut))
	reported.Status.Blamed = []v1alpha1.BlamedDevice{{Device: "nic"}}
	for name, c := range map[string]struct {
		job  *v1alpha1.FirmwareJob
		want schedule.Verdict
	}{
		"a job that runs":                                        {ended(metav1.Condition{Type: v1alpha1.ConditionAdmitted}), schedule.Unknown},
		"a complete job":                                         {ended(metav1.Condition{Type: v1alpha1.ConditionComplete}), schedule.Succeeded},
		"an unhealthy node, and nobody to blame":                 {ended(failedFor(v1alpha1.ReasonUnhealthy)), schedule.Acquitted},
		"a lost connection":                                      {ended(failedFor(v1alpha1.ReasonImageUnavailable)), schedule.Unknown},
		"a node that was unhealthy before":                       {ended(failedFor(v1alpha1.ReasonUnhealthyBefore)), schedule.Unknown},
		"a disk that the TPM alone opens":                        {ended(failedFor(v1alpha1.ReasonUnlockUnavailable)), schedule.Unknown},
		"a cancelled job":                                        {ended(failedFor(v1alpha1.ReasonCancelled)), schedule.Unknown},
		"a cancelled job that holds its node needs a person":     {ended(failedFor(v1alpha1.ReasonCancelled), held), schedule.Failed},
		"a Node that is gone":                                    {ended(failedFor(v1alpha1.ReasonNodeGone)), schedule.Unknown},
		"a failure of another device":                            {onAnother, schedule.Unknown},
		"a report of a bad image, whatever the job's own reason": {reported, schedule.Failed},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, c.want, verdictOn(c.job, "nic")) })
	}
}

func TestEdgeSucceedsWhenBothDo(t *testing.T) {
	for _, c := range []struct{ a, b, want schedule.Verdict }{
		{schedule.Succeeded, schedule.Succeeded, schedule.Succeeded},
		{schedule.Succeeded, schedule.Unknown, schedule.Unknown},
		{schedule.Succeeded, schedule.Failed, schedule.Failed},
		{schedule.Unknown, schedule.Failed, schedule.Failed},
	} {
		for _, verdicts := range [][2]schedule.Verdict{{c.a, c.b}, {c.b, c.a}} {
			edge := schedule.EdgeOf("15b3:101d", "1", "2", "")
			other := schedule.EdgeOf("15b3:101d", "0", "2", "")
			got := schedule.WithEdge(schedule.WithEdge(schedule.WithEdge(nil, schedule.JobEdge{Edge: edge, Verdict: verdicts[0]}), schedule.JobEdge{Edge: other}),
				schedule.JobEdge{Edge: edge, Verdict: verdicts[1]})
			assert.Equal(t, []schedule.JobEdge{{Edge: other}, {Edge: edge, Verdict: c.want}}, got)
		}
	}
}
