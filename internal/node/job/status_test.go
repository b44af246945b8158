package job_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/node/engine"
	"github.com/nodefirmware/node-firmware-operator/internal/node/erase"
	"github.com/nodefirmware/node-firmware-operator/internal/node/job"
	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// A report that only the network supports says so until the previous firmware has brought the network back.
func TestReportSaysWhatItIsBasedOn(t *testing.T) {
	j := journal.Job{Name: "j", Updates: []journal.Update{{Device: "nic"}}}
	evidence := func(of step.Evidence, rollback *step.Rollback) v1alpha1.Evidence {
		j.Record.Failure = &step.Failure{Reason: step.Unhealthy, Blames: []string{"nic"}, Evidence: of}
		j.Record.Rollback = rollback
		bad := job.Status(engine.Snapshot{Job: j}, "n1", v1alpha1.FirmwareJobStatus{}, 1, time.Now()).Blamed
		require.Len(t, bad, 1)
		return bad[0].Evidence
	}
	assert.Equal(t, v1alpha1.EvidenceDevice, evidence(step.OfDevice, nil))
	assert.Equal(t, v1alpha1.EvidenceNetwork, evidence(step.Network, nil))
	assert.Equal(t, v1alpha1.EvidenceNode, evidence(step.OfNode, nil))
	assert.Equal(t, v1alpha1.EvidenceDevice, evidence(step.OfNode, &step.Rollback{Done: true}), "the node was mended by the old firmware")
	assert.Equal(t, v1alpha1.EvidenceNetwork, evidence(step.Network, &step.Rollback{Devices: []string{"nic"}}), "it is not judged yet")
	assert.Equal(t, v1alpha1.EvidenceNetwork, evidence(step.Network, &step.Rollback{Failure: &step.Failure{}}), "the network stayed away")
	assert.Equal(t, v1alpha1.EvidenceDevice, evidence(step.Network, &step.Rollback{Done: true}), "the network came back with the old firmware")
}

// Steps that a person listed run again in another job; those of a cleaning policy by a request to retry, also where they were refused.
func TestWhatRunsFailedStepsAgain(t *testing.T) {
	requests, catalog := []plan.Request{{Name: "verify-inventory"}}, plan.DefaultCatalog()
	listed, err := catalog.Requested(requests, nil)
	require.NoError(t, err)
	cleaning, err := catalog.Cleaning(requests, nil)
	require.NoError(t, err)
	for says, r := range map[string]step.Record{
		"create another job": step.New(listed), "To try again: kubectl patch nfw n1": step.New(cleaning), "To try again: kubectl": {},
	} {
		r.Outcome, r.Failure = step.Failed, &step.Failure{Reason: step.StepFailed, Message: "a drive is missing", Step: plan.VerifyInventory}
		j := journal.Job{Name: "j", Requested: []journal.RequestedStep{{Name: "verify-inventory"}}, Record: r}
		got := job.Status(engine.Snapshot{Job: j}, "n1", v1alpha1.FirmwareJobStatus{}, 1, time.Now())
		assert.Contains(t, meta.FindStatusCondition(got.Conditions, v1alpha1.ConditionReady).Message, says)
	}
}

// The API takes 512 steps: a job with more of them is reported from where it is now.
func TestJobWithMoreStepsThanTheAPITakesIsReported(t *testing.T) {
	var updates []journal.Update
	for i := range 128 {
		updates = append(updates, journal.Update{Class: inventory.Disk, Device: fmt.Sprintf("disk%d", i)})
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

// A job of as many devices as one can have, with the longest names and messages, is reported in bounds, and says what failed.
func TestReportsLargeJobBriefly(t *testing.T) {
	long := func(n, number int) string {
		s := fmt.Sprintf("n%04d", number)
		return s + strings.Repeat("x", n-len(s))
	}
	var updates []journal.Update
	for i := range 100 {
		updates = append(updates, journal.Update{Class: inventory.Disk,
			Device: long(253, i), UniqueID: long(36, i), Digest: fmt.Sprintf("sha256:%064x", i),
		})
	}
	j := journal.Job{Name: "j", Updates: updates, Record: engine.NewRecord(plan.DefaultCatalog(), updates)}
	failed := len(j.Record.Steps) / 2
	now := time.Now()
	for i := range j.Record.Steps {
		st := &j.Record.Steps[i]
		st.State, st.Message, st.Started, st.Finished, st.BootID = step.Succeeded, long(1024, i), &now, &now, long(36, 0)
		switch {
		case i == failed:
			st.State = step.StepFault
		case i > failed:
			st.State = step.Pending
		}
	}
	blames := []string{}
	for _, u := range updates {
		blames = append(blames, u.Device)
	}
	j.Record.Failure = &step.Failure{Reason: step.Unhealthy, Blames: blames, Message: long(512, 0)}
	got := job.Status(engine.Snapshot{Job: j}, "n1", v1alpha1.FirmwareJobStatus{}, 1, now)
	out, err := json.Marshal(got)
	require.NoError(t, err)
	assert.Less(t, len(out), 130<<10)
	assert.Len(t, got.Blamed, 100, "each of them is quarantined")
	assert.NotEmpty(t, got.Blamed[0].Message)
	at := slices.IndexFunc(got.Steps, func(s v1alpha1.JobStep) bool { return s.State == v1alpha1.StepFailed })
	require.GreaterOrEqual(t, at, 0, "the failed step is listed")
	assert.Equal(t, j.Record.Steps[failed].Device, got.Steps[at].Device)
	assert.Greater(t, len(got.Steps), 20)
}

// What the preflight of a job that goes on has to say about the disks of the node is in its condition Protected.
func TestPassphraseIsReported(t *testing.T) {
	j := journal.Job{Name: "j", Updates: []journal.Update{{Device: "bios", Version: "2.0"}}, Record: step.New([]plan.Step{{Kind: plan.Preflight}, {Kind: plan.Flash, Device: "bios"}})}
	j.Record.Steps[0].State, j.Record.Steps[0].Returned = step.Succeeded, &step.Returned{Message: "only the TPM opens sda3"}
	got := job.Status(engine.Snapshot{Job: j}, "n1", v1alpha1.FirmwareJobStatus{}, 1, time.Now())
	protected := meta.FindStatusCondition(got.Conditions, v1alpha1.ConditionProtected)
	require.NotNil(t, protected)
	assert.Contains(t, protected.Message, "only the TPM opens sda3")
}

// A node that boots slowly since its update is up: the job is complete, and its message and its verdict say so.
func TestSlowBootIsReported(t *testing.T) {
	const slow = "the node took 5m0s to boot, 1m0s before the update"
	j := journal.Job{Name: "j", Updates: []journal.Update{{Device: "nic", Version: "2.0"}}}
	j.Record.Outcome = step.Complete
	j.Record.Verdict = &step.Verdict{Healthy: true, BootID: "boot-3", Complaints: []step.Complaint{{Subject: step.Subject{Kind: step.BootSubject}, Message: slow}}}
	got := job.Status(engine.Snapshot{Job: j}, "n1", v1alpha1.FirmwareJobStatus{}, 1, time.Now())
	assert.Equal(t, []string{slow}, got.Verdict.Complaints)
	complete := meta.FindStatusCondition(got.Conditions, v1alpha1.ConditionComplete)
	require.NotNil(t, complete)
	assert.Equal(t, "nic runs 2.0. The node took 5m0s to boot, 1m0s before the update.", complete.Message)

	j.Record.Verdict.Healthy = false
	assert.NotContains(t, meta.FindStatusCondition(job.Status(engine.Snapshot{Job: j}, "n1", v1alpha1.FirmwareJobStatus{}, 1, time.Now()).Conditions,
		v1alpha1.ConditionReady).Message, "to boot")
}

// TestEveryErasedDriveIsReported: with what proves it, however long the rest is, since the operator certifies what is reported.
func TestEveryErasedDriveIsReported(t *testing.T) {
	j := journal.Job{Name: "j", Record: step.New([]plan.Step{{Kind: plan.Preflight}})}
	now := time.Date(2026, 11, 28, 9, 30, 0, 0, time.UTC)
	proof := erase.Proof{
		SerialNumber: strings.Repeat("S", 20), Vendor: "Samsung", Model: strings.Repeat("M", 40), Method: "NVMe sanitize, block erase", Log: "log page 81h",
		Size: 1 << 40, Samples: 64, Held: 41, Seed: 0x2a, Began: now, Version: "v0.1.0",
	}
	data, err := json.Marshal(map[string]any{"proof": proof})
	require.NoError(t, err)
	for i := range 128 {
		j.Record.Steps = append(j.Record.Steps, step.Step{
			Step: plan.Step{Kind: plan.Erase, Device: fmt.Sprintf("disk%0120d", i)}, State: step.Succeeded, Started: &now, Finished: &now, Message: strings.Repeat("m", 1024), Data: data,
		}, step.Step{
			Step: plan.Step{Kind: plan.VerifyFirmware, Device: fmt.Sprintf("disk%0120d", i)}, State: step.Succeeded, Message: strings.Repeat("m", 1024),
		})
	}
	j.Record.Steps[3].State, j.Record.Steps[3].Data = step.Running, []byte(`{"method":"Block","seed":42}`)
	got := job.Status(engine.Snapshot{Job: j}, "n1", v1alpha1.FirmwareJobStatus{}, 1, now)
	var proven []*v1alpha1.Sanitization
	for _, s := range got.Steps {
		if s.Sanitization != nil {
			proven = append(proven, s.Sanitization)
		}
	}
	require.Len(t, proven, 127, "one is not done")
	assert.Equal(t, &v1alpha1.Sanitization{
		StartTime: metav1.NewTime(now), SerialNumber: proof.SerialNumber, Vendor: "Samsung", Model: proof.Model, SizeBytes: 1 << 40, Method: "NVMe sanitize, block erase", Log: "log page 81h",
		Samples: 64, HeldData: 41, Seed: "0x2a", Version: "v0.1.0",
	}, proven[0])
}
