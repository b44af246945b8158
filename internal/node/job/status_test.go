package job_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/node/engine"
	"github.com/nodefirmware/node-firmware-operator/internal/node/job"
	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// The API takes 512 steps: a job with more of them is reported from where it is now.
func TestJobWithMoreStepsThanTheAPITakesIsReported(t *testing.T) {
	var updates []journal.Update
	for i := range 128 {
		updates = append(updates, journal.Update{Class: inventory.Disk, DeviceUpdate: v1alpha1.DeviceUpdate{Device: fmt.Sprintf("disk%d", i)}})
	}
	j := journal.Job{Name: "j", Updates: updates, Record: engine.NewRecord(plan.DefaultCatalog(), updates)}
	require.Greater(t, len(j.Record.Steps), 512)
	got := job.Status(engine.Snapshot{Job: j}, "n1", v1alpha1.FirmwareJobStatus{}, 1, time.Now())
	require.Len(t, got.Steps, 512)
	assert.Equal(t, string(plan.Preflight), got.Steps[0].Name, "what runs is listed")

	for i := range j.Record.Steps[:400] {
		j.Record.Steps[i].State = step.Succeeded
	}
	got = job.Status(engine.Snapshot{Job: j}, "n1", v1alpha1.FirmwareJobStatus{}, 1, time.Now())
	require.Len(t, got.Steps, 512)
	assert.Equal(t, string(plan.Release), got.Steps[511].Name)
}
