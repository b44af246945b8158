package rollout

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/schedule"
	"github.com/nodefirmware/node-firmware-operator/internal/schedule/window"
)

// Six of twelve nodes were done in the four hours of the first Saturday: the others take those of the next one.
func TestThePaceAndTheEndOfARolloutCountTheTimeInWindowsOnly(t *testing.T) {
	saturday, err := window.Recurring("saturday", "0 22 * * 6", 4*time.Hour, "UTC")
	require.NoError(t, err)
	open := window.New([]window.Rule{saturday}, nil)
	monday := time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC)
	old := &v1alpha1.RolloutProgress{StartTime: metav1.NewTime(monday), Succeeded: 5}
	waits := make([]schedule.Waiting, 6)
	for i := range waits {
		waits[i].Reason = schedule.WaitingForWindow
	}
	o := schedule.Outcome{Budget: 1, Queue: waits}
	closed := time.Date(2026, 1, 11, 2, 0, 0, 0, time.UTC)
	p := progressOf(old, jobEnds{succeeded: 1}, o, 0, open, true, closed)
	assert.Equal(t, int32(40*60), *p.SecondsPerNode)
	require.NotNil(t, p.EstimatedCompletionTime)
	assert.True(t, p.EstimatedCompletionTime.Time.Equal(closed.AddDate(0, 0, 7)), p.EstimatedCompletionTime)

	o.Queue = waits[:2]
	refused := progressOf(old, jobEnds{succeeded: 1}, o, 4, open, true, closed)
	assert.True(t, refused.EstimatedCompletionTime.Equal(p.EstimatedCompletionTime), "nodes that maxQueued refused are left as well")

	o.TooLong = 5 * time.Hour
	assert.Nil(t, progressOf(old, jobEnds{succeeded: 1}, o, 0, open, true, closed).EstimatedCompletionTime, "a job fits into no window")
}
