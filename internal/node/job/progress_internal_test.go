package job

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/node/engine"
	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// Progress is written every two seconds at most, and that of drives that erase themselves for hours every 30, however many there are. What begins
// and ends is written at once.
func TestProgressIsReportedRarely(t *testing.T) {
	for kind, want := range map[plan.Kind]int{plan.Flash: 31, plan.Erase: 3} {
		at := time.Unix(0, 0)
		r := &Reconciler{Now: func() time.Time { return at }}
		j := journal.Job{Name: "j", Record: step.Record{Steps: []step.Step{{Step: plan.Step{Kind: kind, Device: "disk0"}, State: step.Running}}}}
		for range 61 {
			r.Notify(engine.Snapshot{Job: j})
			at = at.Add(time.Second)
		}
		assert.Len(t, r.events, want, "%s: in a minute", kind)
		r.Notify(engine.Snapshot{Job: j, Transition: true})
		assert.Len(t, r.events, want+1, "%s", kind)
	}
}

// A drive that fails is told at once, and once, though the job follows others for hours.
func TestFailedDriveIsToldBeforeTheJobEnds(t *testing.T) {
	recorder := events.NewFakeRecorder(9)
	failed := v1alpha1.FirmwareJobStatus{Steps: []v1alpha1.JobStep{
		{Name: "erase", Device: "disk0", State: v1alpha1.StepFailed, Attempt: 3, Message: "it lies"}, {Name: "erase", Device: "disk1", State: v1alpha1.StepRunning},
		{Name: "erase", Device: "disk2", State: v1alpha1.StepFailed, Message: "cancelled before this step"},
	}}
	j := &v1alpha1.FirmwareJob{}
	emitTransitions(recorder, j, failed)
	assert.Equal(t, "Warning StepFailed Step erase of disk0 failed: it lies", <-recorder.Events)
	j.Status = failed
	emitTransitions(recorder, j, failed)
	j.Status, failed.CompletionTime = v1alpha1.FirmwareJobStatus{}, &metav1.Time{}
	emitTransitions(recorder, j, failed)
	assert.Empty(t, recorder.Events, "Failed says it where the job has ended")
}
