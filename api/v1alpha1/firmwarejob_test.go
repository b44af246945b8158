package v1alpha1_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

func TestAJobSaysHowItEnded(t *testing.T) {
	at := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
	job := func(types ...string) *v1alpha1.FirmwareJob {
		j := &v1alpha1.FirmwareJob{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(at)}}
		for _, kind := range types {
			j.Status.Conditions = append(j.Status.Conditions, metav1.Condition{
				Type: kind, Status: metav1.ConditionTrue, Reason: kind + "Reason", LastTransitionTime: metav1.NewTime(at.Add(time.Hour)),
			})
		}
		return j
	}
	queued := job()
	assert.False(t, queued.Ended() || queued.Failed() || queued.Held() || queued.Admitted())
	assert.Empty(t, queued.FailureReason())

	assert.True(t, job(v1alpha1.ConditionAdmitted).Admitted())
	assert.True(t, job(v1alpha1.ConditionComplete).Ended())
	assert.False(t, job(v1alpha1.ConditionHeld).Held(), "only a failed job holds its node")

	held := job(v1alpha1.ConditionFailed, v1alpha1.ConditionHeld)
	assert.True(t, held.Ended() && held.Failed() && held.Held())
	assert.Equal(t, "FailedReason", held.FailureReason())
}

func TestTheRetryThatADaemonTookUpCountsBeforeTheOneThatWasPlanned(t *testing.T) {
	planned, taken := "planned", ""
	assert.Nil(t, (&v1alpha1.FirmwareJob{}).RetryInForce())
	j := &v1alpha1.FirmwareJob{Spec: v1alpha1.FirmwareJobSpec{Task: v1alpha1.JobTask{Request: &planned}}}
	assert.Equal(t, &planned, j.RetryInForce())
	j.Status.Request = &taken
	assert.Equal(t, &taken, j.RetryInForce(), "no request is known, too")
}
