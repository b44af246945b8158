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

// A report that only the network supports says so until the previous firmware has brought the network back.
func TestReportSaysWhatItIsBasedOn(t *testing.T) {
	j := journal.Job{Name: "j", Updates: []journal.Update{{DeviceUpdate: v1alpha1.DeviceUpdate{Device: "nic"}}}}
	evidence := func(of step.Evidence, rollback *step.Rollback) v1alpha1.Evidence {
		j.Record.Failure = &step.Failure{Reason: step.Unhealthy, Blames: []string{"nic"}, Evidence: of}
		j.Record.Rollback = rollback
		bad := job.Status(engine.Snapshot{Job: j}, "n1", v1alpha1.FirmwareJobStatus{}, 1, time.Now()).BadImages
		require.Len(t, bad, 1)
		return bad[0].Evidence
	}
	assert.Equal(t, v1alpha1.EvidenceDevice, evidence(step.OfDevice, nil))
	assert.Equal(t, v1alpha1.EvidenceNetwork, evidence(step.Network, nil))
	assert.Equal(t, v1alpha1.EvidenceNetwork, evidence(step.Network, &step.Rollback{Devices: []string{"nic"}}), "it is not judged yet")
	assert.Equal(t, v1alpha1.EvidenceNetwork, evidence(step.Network, &step.Rollback{Failure: &step.Failure{}}), "the network stayed away")
	assert.Equal(t, v1alpha1.EvidenceDevice, evidence(step.Network, &step.Rollback{Done: true}), "the network came back with the old firmware")
}

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
