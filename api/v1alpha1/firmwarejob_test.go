package v1alpha1_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

func TestAJobSaysHowItEndedAndWhen(t *testing.T) {
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
	assert.Equal(t, at, queued.EndedAt())
	assert.Empty(t, queued.FailureReason())

	assert.True(t, job(v1alpha1.ConditionAdmitted).Admitted())
	assert.True(t, job(v1alpha1.ConditionComplete).Ended())
	assert.False(t, job(v1alpha1.ConditionHeld).Held(), "only a failed job holds its node")

	held := job(v1alpha1.ConditionFailed, v1alpha1.ConditionHeld)
	assert.True(t, held.Ended() && held.Failed() && held.Held())
	assert.Equal(t, "FailedReason", held.FailureReason())
	assert.Equal(t, at.Add(time.Hour), held.EndedAt())
	held.Status.CompletionTime = &metav1.Time{Time: at.Add(time.Minute)}
	assert.Equal(t, at.Add(time.Minute), held.EndedAt(), "its own time of completion counts")
}
