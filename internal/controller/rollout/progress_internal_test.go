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
func TestThePaceCountsTheTimeInWindowsOnly(t *testing.T) {
	saturday, err := window.Recurring("saturday", "0 22 * * 6", 4*time.Hour, "UTC")
	require.NoError(t, err)
	open := window.New([]window.Rule{saturday}, nil)
	monday, closed := time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC), time.Date(2026, 1, 11, 2, 0, 0, 0, time.UTC)
	estimate := func(o schedule.Outcome) *metav1.Time {
		r := &Reconciler{now: func() time.Time { return closed }, paces: map[types.UID]*pace{"": {since: monday, ended: 5}}}
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
