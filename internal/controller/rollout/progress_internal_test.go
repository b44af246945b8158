package rollout

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/schedule"
	"github.com/nodefirmware/node-firmware-operator/internal/schedule/window"
)

// Six of twelve nodes were done in the four hours of the first Saturday: the others take those of the next one.
func TestPaceCountsOnlyWindows(t *testing.T) {
	saturday, err := window.Recurring("saturday", "0 22 * * 6", 4*time.Hour, "UTC")
	require.NoError(t, err)
	open := window.New([]window.Rule{saturday}, nil)
	monday, closed := time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC), time.Date(2026, 1, 11, 2, 0, 0, 0, time.UTC)
	estimate := func(o schedule.Outcome) *metav1.Time {
		r := &Reconciler{now: func() time.Time { return closed }, paces: map[types.UID]pace{"": {at: monday, ended: 5, steady: true}}}
		s := v1alpha1.RolloutPolicyStatus{StartTime: &metav1.Time{Time: monday}}
		r.writeProgress(&v1alpha1.RolloutPolicy{}, &s, 1, o, open)
		return s.EstimatedCompletionTime
	}
	waits := make([]schedule.Waiting, 6)
	for i := range waits {
		waits[i].Reason = schedule.OutsideWindow
	}
	got := estimate(schedule.Outcome{Budget: 1, Queue: waits})
	require.NotNil(t, got)
	assert.True(t, got.Time.Equal(closed.AddDate(0, 0, 7)), got)
	assert.Nil(t, estimate(schedule.Outcome{Budget: 1, Queue: waits, TooLong: 5 * time.Hour}), "a job fits into no window")
}

// Jobs that end in two minutes each go on so after three days of pause, and an end whose write was lost counts once.
func TestThePaceKnowsNoPause(t *testing.T) {
	now := time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC)
	r := &Reconciler{now: func() time.Time { return now }, paces: map[types.UID]pace{}}
	status := v1alpha1.RolloutPolicyStatus{StartTime: &metav1.Time{Time: now}}
	pass := func(ended, left int, reason schedule.Reason) pace {
		o := schedule.Outcome{Budget: 1, Queue: make([]schedule.Waiting, left)}
		for i := range o.Queue {
			o.Queue[i].Reason = reason
		}
		return r.writeProgress(&v1alpha1.RolloutPolicy{}, &status, ended, o, nil)
	}
	left := 20
	r.paces[""] = pass(0, left, schedule.BudgetExhausted)
	for range 5 {
		now, left = now.Add(2*time.Minute), left-1
		_ = pass(1, left, schedule.BudgetExhausted) // the write is refused, and made again
		r.paces[""] = pass(1, left, schedule.BudgetExhausted)
	}
	estimate := func() time.Duration {
		require.NotNil(t, status.EstimatedCompletionTime)
		return status.EstimatedCompletionTime.Sub(now)
	}
	assert.Equal(t, 30*time.Minute, estimate(), "fifteen jobs")
	r.paces[""] = pass(0, left, schedule.Paused)
	assert.Nil(t, status.EstimatedCompletionTime)
	now = now.Add(72 * time.Hour)
	r.paces[""] = pass(0, left, schedule.BudgetExhausted)
	assert.Equal(t, 30*time.Minute, estimate())
}
