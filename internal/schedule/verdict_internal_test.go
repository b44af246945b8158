package schedule

import (
	"testing"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// What a job shows about an image. A node that is unhealthy and blames nobody is no failure of a wave.
func TestVerdictOn(t *testing.T) {
	blame := []v1alpha1.BlamedDevice{{Device: "nic", Message: "m"}}
	failed := func(reason string) []metav1.Condition {
		return []metav1.Condition{{Type: v1alpha1.ConditionFailed, Status: metav1.ConditionTrue, Reason: reason}}
	}
	held := metav1.Condition{Type: v1alpha1.ConditionHeld, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonUnhealthy}
	gate := []v1alpha1.JobStep{{Name: "health", State: v1alpha1.StepFailed}}
	for name, c := range map[string]struct {
		status v1alpha1.FirmwareJobStatus
		want   Verdict
	}{
		"it runs":                       {v1alpha1.FirmwareJobStatus{}, Unknown},
		"it restores what ran before":   {v1alpha1.FirmwareJobStatus{Blamed: blame, Steps: gate}, OnTrial},
		"it was rolled back":            {v1alpha1.FirmwareJobStatus{Blamed: blame, Steps: gate, Conditions: failed(v1alpha1.ReasonUnhealthy)}, Failed},
		"it blames nobody":              {v1alpha1.FirmwareJobStatus{Steps: gate, Conditions: append(failed(v1alpha1.ReasonUnhealthy), held)}, Acquitted},
		"it blames nobody, and is over": {v1alpha1.FirmwareJobStatus{Steps: gate, Conditions: failed(v1alpha1.ReasonUnhealthy)}, Acquitted},
		"it blames somebody else": {
			v1alpha1.FirmwareJobStatus{Blamed: []v1alpha1.BlamedDevice{{Device: "disk", Message: "m"}}, Steps: gate, Conditions: failed(v1alpha1.ReasonUnhealthy)},
			Unknown,
		},
		"its write failed": {v1alpha1.FirmwareJobStatus{Conditions: append(failed("WriteFailed"), held)}, Failed},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.want, verdictOn(&v1alpha1.FirmwareJob{Status: c.status}, "nic"))
		})
	}
}

// A healthy node complains of nothing but a slow boot; what else is wrong is no such thing.
func TestSlowOfJob(t *testing.T) {
	verdict := func(r v1alpha1.HealthResult, said ...string) *v1alpha1.FirmwareJob {
		return &v1alpha1.FirmwareJob{Status: v1alpha1.FirmwareJobStatus{Verdict: &v1alpha1.HealthVerdict{Result: r, Complaints: said}}}
	}
	assert.Equal(t, "the node took 5m0s to boot", SlowBoot(verdict(v1alpha1.HealthResultHealthy, "the node took 5m0s to boot")))
	assert.Empty(t, SlowBoot(verdict(v1alpha1.HealthResultHealthy)))
	assert.Empty(t, SlowBoot(verdict(v1alpha1.HealthResultUnhealthy, "a link is down")))
	assert.Empty(t, SlowBoot(&v1alpha1.FirmwareJob{}))
}
