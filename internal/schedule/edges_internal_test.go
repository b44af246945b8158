package schedule

import (
	"testing"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
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
		want Verdict
	}{
		"a job that runs":                                        {ended(metav1.Condition{Type: v1alpha1.ConditionAdmitted}), Unknown},
		"a complete job":                                         {ended(metav1.Condition{Type: v1alpha1.ConditionComplete}), Succeeded},
		"an unhealthy node, and nobody to blame":                 {ended(failedFor(v1alpha1.ReasonUnhealthy)), Acquitted},
		"a lost connection":                                      {ended(failedFor(v1alpha1.ReasonImageUnavailable)), Unknown},
		"a node that was unhealthy before":                       {ended(failedFor(v1alpha1.ReasonUnhealthyBefore)), Unknown},
		"a disk that the TPM alone opens":                        {ended(failedFor(v1alpha1.ReasonUnlockUnavailable)), Unknown},
		"a cancelled job":                                        {ended(failedFor(v1alpha1.ReasonCancelled)), Unknown},
		"a cancelled job that holds its node needs a person":     {ended(failedFor(v1alpha1.ReasonCancelled), held), Failed},
		"a Node that is gone":                                    {ended(failedFor(v1alpha1.ReasonNodeGone)), Unknown},
		"a failure of another device":                            {onAnother, Unknown},
		"a report of a bad image, whatever the job's own reason": {reported, Failed},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, c.want, verdictOn(c.job, "nic")) })
	}
}

func TestEdgeSucceedsWhenBothDo(t *testing.T) {
	for _, c := range []struct{ a, b, want Verdict }{
		{Succeeded, Succeeded, Succeeded},
		{Succeeded, Unknown, Unknown},
		{Succeeded, Failed, Failed},
		{Unknown, Failed, Failed},
	} {
		for _, verdicts := range [][2]Verdict{{c.a, c.b}, {c.b, c.a}} {
			edge := EdgeOf("15b3:101d", "1", "2", "")
			other := EdgeOf("15b3:101d", "0", "2", "")
			got := WithEdge(WithEdge(WithEdge(nil, JobEdge{Edge: edge, Verdict: verdicts[0]}), JobEdge{Edge: other}),
				JobEdge{Edge: edge, Verdict: verdicts[1]})
			assert.Equal(t, []JobEdge{{Edge: other}, {Edge: edge, Verdict: c.want}}, got)
		}
	}
}
