package status

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

func TestJobOfAGoneNodeHasFailed(t *testing.T) {
	old := []metav1.Condition{
		{Type: v1alpha1.ConditionAdmitted, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonAdmitted},
		{Type: v1alpha1.ConditionReconciling, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonProgressing},
		{Type: v1alpha1.ConditionHeld, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonWriteFailed},
	}
	assert.False(t, (&v1alpha1.FirmwareJob{Status: v1alpha1.FirmwareJobStatus{Conditions: old}}).Ended())
	got := JobNodeGone("n1", old, 2, assignmentTime)
	assert.True(t, (&v1alpha1.FirmwareJob{Status: v1alpha1.FirmwareJobStatus{Conditions: got}}).Ended())
	for kind, want := range map[string]metav1.ConditionStatus{
		v1alpha1.ConditionReady: metav1.ConditionFalse, v1alpha1.ConditionStalled: metav1.ConditionTrue, v1alpha1.ConditionFailed: metav1.ConditionTrue,
	} {
		c := meta.FindStatusCondition(got, kind)
		if assert.NotNil(t, c, kind) {
			assert.Equal(t, want, c.Status)
			assert.Equal(t, v1alpha1.ReasonNodeGone, c.Reason)
			assert.Contains(t, c.Message, "n1")
		}
	}
	assert.Contains(t, got, old[0], "Admitted is not touched")
}
