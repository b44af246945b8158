package status_test

import (
	"testing"
	"time"

	kstatus "github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/status"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/apitest"
	"github.com/nodefirmware/node-firmware-operator/internal/wayout"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

func TestJobConditions(t *testing.T) {
	failure := &step.Failure{Reason: step.WriteFailed, Message: "exit code 1", Step: "flash", Device: "nic0"}
	for name, c := range map[string]struct {
		facts status.JobFacts
		// want are the conditions that are there, as type=status/reason, beside Admitted.
		want []string
		kst  kstatus.Status
	}{
		"queued": {
			status.JobFacts{Queued: "waits"},
			[]string{"Ready=False/Pending", "Reconciling=True/Pending"}, kstatus.InProgressStatus,
		},
		"preflight": {
			status.JobFacts{Step: "preflight"},
			[]string{"Ready=False/Progressing", "Reconciling=True/Progressing"}, kstatus.InProgressStatus,
		},
		"waits for the maintenance": {
			status.JobFacts{Step: "maintenance", Waiting: "draining", MaintenanceRequested: true, Maintenance: step.MaintenanceRequested},
			[]string{"MaintenanceReady=False/Pending", "Ready=False/Progressing", "Reconciling=True/Progressing"}, kstatus.InProgressStatus,
		},
		"no maintenance-operator": {
			status.JobFacts{Step: "maintenance", Waiting: "install it", MaintenanceRequested: true, Maintenance: step.MaintenanceNotInstalled},
			[]string{
				"MaintenanceReady=False/MaintenanceUnavailable", "Ready=False/MaintenanceUnavailable",
				"Reconciling=True/MaintenanceUnavailable",
			}, kstatus.InProgressStatus,
		},
		"in maintenance": {
			status.JobFacts{Step: "flash nic0", MaintenanceRequested: true, Maintenance: step.MaintenanceReady},
			[]string{"MaintenanceReady=True/Succeeded", "Ready=False/Progressing", "Reconciling=True/Progressing"}, kstatus.InProgressStatus,
		},
		"cancelled while it writes": {
			status.JobFacts{Step: "flash nic0", Cancelling: step.WriteRunning, CancelForce: true},
			[]string{"Cancelling=True/WaitingForStep", "Ready=False/Progressing", "Reconciling=True/Progressing"}, kstatus.InProgressStatus,
		},
		"cancelled with a grace period": {
			status.JobFacts{Step: "archive nic0", Cancelling: step.GracePeriod, GraceUntil: time.Unix(60, 0)},
			[]string{"Cancelling=True/WaitingForStep", "Ready=False/Progressing", "Reconciling=True/Progressing"}, kstatus.InProgressStatus,
		},
		"complete": {
			status.JobFacts{Outcome: step.Complete, MaintenanceRequested: true, MaintenanceEnded: true, Summary: "done"},
			[]string{"Complete=True/Succeeded", "MaintenanceReady=False/Released", "Ready=True/Succeeded"}, kstatus.CurrentStatus,
		},
		"complete, and slow to boot since": {
			status.JobFacts{Outcome: step.Complete, Summary: "done", Slow: "the node took 5m0s to boot"},
			[]string{"Complete=True/Succeeded", "Ready=True/Succeeded"}, kstatus.CurrentStatus,
		},
		"failed before the maintenance": {
			status.JobFacts{Outcome: step.Failed, Failure: &step.Failure{Reason: step.ImageRejected, Message: "m", Step: "preflight"}},
			[]string{"Failed=True/ImageRejected", "Ready=False/ImageRejected", "Stalled=True/ImageRejected"}, kstatus.FailedStatus,
		},
		"held": {
			status.JobFacts{Outcome: step.Failed, Failure: failure, Held: true, Node: "n1", MaintenanceRequested: true, Maintenance: step.MaintenanceReady},
			[]string{
				"Failed=True/WriteFailed", "Held=True/WriteFailed", "MaintenanceReady=True/Succeeded", "Ready=False/WriteFailed",
				"Stalled=True/WriteFailed",
			}, kstatus.FailedStatus,
		},
		"released": {
			status.JobFacts{Outcome: step.Failed, Failure: failure, Released: true, MaintenanceRequested: true, MaintenanceEnded: true},
			[]string{
				"Failed=True/WriteFailed", "MaintenanceReady=False/Released", "Ready=False/Released", "Stalled=True/Released",
			}, kstatus.FailedStatus,
		},
		"taken over": {
			status.JobFacts{Outcome: step.Failed, Failure: failure, SupersededBy: "next"},
			[]string{"Failed=True/WriteFailed", "Ready=False/Superseded", "Stalled=True/Superseded"}, kstatus.FailedStatus,
		},
		"held with its new firmware, and nobody is blamed": {
			status.JobFacts{Outcome: step.Failed, Held: true, Failure: &step.Failure{Reason: step.Unhealthy, Message: "m", Step: "health"}},
			[]string{"Failed=True/Unhealthy", "Held=True/Unhealthy", "Ready=False/Unhealthy", "Stalled=True/Unhealthy"}, kstatus.FailedStatus,
		},
		"held as unhealthy as before its rollback": {
			status.JobFacts{
				Outcome: step.Failed, Held: true, Failure: &step.Failure{Reason: step.Unhealthy, Message: "m", Step: "health"},
				Rollback: &step.Rollback{Devices: []string{"nic0"}, Failure: &step.Failure{Reason: step.Unhealthy, Message: "m", Step: "health"}},
			},
			[]string{
				"Failed=True/Unhealthy", "Held=True/Unhealthy", "Ready=False/Unhealthy", "RolledBack=False/Unhealthy", "Stalled=True/Unhealthy",
			}, kstatus.FailedStatus,
		},
		"held though its rollback mended something": {
			status.JobFacts{
				Outcome: step.Failed, Held: true, Failure: &step.Failure{Reason: step.Unhealthy, Message: "m", Step: "health", Blames: []string{"nic0"}},
				Rollback: &step.Rollback{Devices: []string{"nic0"}, Failure: &step.Failure{Reason: step.Unhealthy, Message: "m", Step: "health"}},
			},
			[]string{
				"Failed=True/Unhealthy", "Held=True/NeedsIntervention", "Ready=False/NeedsIntervention", "RolledBack=False/NeedsIntervention",
				"Stalled=True/NeedsIntervention",
			}, kstatus.FailedStatus,
		},
		"maintenance lost": {
			status.JobFacts{
				Outcome: step.Failed, Held: true, MaintenanceRequested: true, Maintenance: step.MaintenanceReady,
				Failure: &step.Failure{Reason: step.MaintenanceLost, Message: "m", Step: "flash"},
			},
			[]string{
				"Failed=True/MaintenanceLost", "Held=True/MaintenanceLost", "MaintenanceReady=False/MaintenanceLost",
				"Ready=False/MaintenanceLost", "Stalled=True/MaintenanceLost",
			}, kstatus.FailedStatus,
		},
	} {
		t.Run(name, func(t *testing.T) {
			old := []metav1.Condition{
				{Type: v1alpha1.ConditionAdmitted, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonAdmitted},
				{Type: v1alpha1.ConditionHeld, Status: metav1.ConditionTrue, Reason: "Old"},
				{Type: v1alpha1.ConditionReconciling, Status: metav1.ConditionTrue, Reason: "Old"},
			}
			got := status.Job(c.facts, old, 3, time.Unix(0, 0))
			var lines []string
			for _, g := range got {
				if g.Type != v1alpha1.ConditionAdmitted {
					lines = append(lines, g.Type+"="+string(g.Status)+"/"+g.Reason)
					assert.NotEmpty(t, g.Reason)
				}
			}
			assert.Equal(t, c.want, lines)
			job := &v1alpha1.FirmwareJob{}
			job.SetGroupVersionKind(v1alpha1.SchemeGroupVersion.WithKind("FirmwareJob"))
			job.Generation, job.Status.ObservedGeneration, job.Status.Conditions = 3, 3, got
			apitest.RequireStatus(t, job, c.kst)
		})
	}
}

func TestJobBetweenStepsNamesNone(t *testing.T) {
	for _, f := range []status.JobFacts{{}, {Waiting: "draining"}} {
		for _, c := range status.Job(f, nil, 1, time.Unix(0, 0)) {
			assert.NotContains(t, c.Message, "Step ", "there is none")
			if c.Type == v1alpha1.ConditionReady && f.Waiting != "" {
				assert.Contains(t, c.Message, "waits: draining")
			}
		}
	}
}

func TestHeldJobTellsItsFailureInASentenceOfItsOwn(t *testing.T) {
	f := status.JobFacts{Outcome: step.Failed, Held: true, Node: "n1", Failure: &step.Failure{Reason: step.WriteFailed, Message: "Flash write failed", Step: "flash", Device: "nic0"}}
	for _, c := range status.Job(f, nil, 1, time.Unix(0, 0)) {
		if c.Type == v1alpha1.ConditionReady {
			assert.Contains(t, c.Message, "Step flash of nic0 failed: Flash write failed. Node n1 stays out of service.")
		}
	}
}

// TestHeldJobNamesBothWaysOut proves R003-27.
func TestHeldJobNamesBothWaysOut(t *testing.T) {
	f := status.JobFacts{Outcome: step.Failed, Held: true, Node: "n1", Failure: &step.Failure{Reason: step.Unhealthy, Message: "m", Step: "health"}}
	for _, c := range status.Job(f, nil, 1, time.Unix(0, 0)) {
		if c.Type == v1alpha1.ConditionHeld {
			assert.Contains(t, c.Message, wayout.Retry("n1"))
			assert.Contains(t, c.Message, wayout.Request("nfw", "n1", "release"))
		}
	}
}

func TestWhatCouldEndAWriteIsAConditionOfItsJob(t *testing.T) {
	condition := func(f status.JobFacts) *metav1.Condition {
		return meta.FindStatusCondition(status.Job(f, nil, 1, time.Unix(0, 0)), v1alpha1.ConditionProtected)
	}
	assert.Nil(t, condition(status.JobFacts{}), "nothing is known to be amiss")
	c := condition(status.JobFacts{Uninhibited: "i/o timeout"})
	assert.Equal(t, v1alpha1.ReasonWriteUnprotected, c.Reason)
	assert.Contains(t, c.Message, "do not force a reboot before the job has ended: i/o timeout")
	c = condition(status.JobFacts{Unprotected: "no systemd here", Uninhibited: "no bus"})
	assert.Equal(t, v1alpha1.ReasonWriteUnprotected, c.Reason, "what a deleted pod ends is the greater danger")
	assert.Regexp(t, "do not delete the daemon's pod.*no systemd here; .*no bus", c.Message)
}

// Where the policy does not require that a disk opens by itself, who looks at the job reads that it may not.
func TestAPassphraseAtTheRebootIsSaid(t *testing.T) {
	f := status.JobFacts{Locked: "of the disk sda3 only the TPM has a key", Unguarded: "the kubelet has no staticPodPath", Guarded: true}
	c := guarded(f)
	assert.Equal(t, metav1.ConditionFalse, c.Status)
	assert.Equal(t, v1alpha1.ReasonUnlockUnavailable, c.Reason)
	assert.Contains(t, c.Message, "Somebody may have to type a passphrase at the reboot, and the rollout policy does not require Unlock: of the disk sda3")
	assert.Contains(t, c.Message, "staticPodPath")
	f.Unprotected = "no systemd here"
	assert.Equal(t, v1alpha1.ReasonWriteUnprotected, guarded(f).Reason)
	f = status.JobFacts{Locked: f.Locked, Outcome: step.Complete}
	assert.Empty(t, guarded(f), "the reboot is over")
}

// That nothing watches what a node reaches does not show by itself.
func TestUnwatchedIsSaid(t *testing.T) {
	c := guarded(status.JobFacts{Guarded: true, Unwatched: "br-ex leads to no adapter of this node"})
	assert.Equal(t, metav1.ConditionFalse, c.Status)
	assert.Equal(t, v1alpha1.ReasonGuardUnavailable, c.Reason)
	assert.Contains(t, c.Message, "No default gateway of this node is watched")
	assert.Contains(t, c.Message, "br-ex leads to no adapter of this node")
	c = guarded(status.JobFacts{Unprotected: "no systemd here", Unwatched: "the node has no default gateway"})
	assert.Equal(t, v1alpha1.ReasonWriteUnprotected, c.Reason, "what a deleted pod ends is the greater danger")
}

// The guard is removed when the job ends, so that the condition must not promise anything from then on.
func TestEndedJobPromisesNoGuard(t *testing.T) {
	for _, unguarded := range []string{"", "the kubelet has no staticPodPath"} {
		running := status.JobFacts{Guarded: true, Unguarded: unguarded}
		ended := running
		ended.Outcome = step.Complete
		before, after := guarded(running), guarded(ended)
		assert.Equal(t, before.Status, after.Status)
		assert.Contains(t, before.Message, "cuts ")
		assert.Contains(t, after.Message, "the job ran")
		assert.NotContains(t, after.Message, "cuts ")
	}
}

func guarded(f status.JobFacts) metav1.Condition {
	c := meta.FindStatusCondition(status.Job(f, nil, 1, time.Unix(0, 0)), v1alpha1.ConditionProtected)
	if c == nil {
		return metav1.Condition{}
	}
	return *c
}

// A job that gave its devices settings and no firmware speaks of no image.
func TestARollbackOfSettingsSpeaksOfNoImage(t *testing.T) {
	f := status.JobFacts{
		Outcome: step.Failed, Node: "n1", Failure: &step.Failure{Reason: step.Unhealthy, Message: "no link", Step: "health"},
		Rollback: &step.Rollback{Devices: []string{"nic0"}, Done: true}, SettingsOnly: true,
	}
	for _, c := range status.Job(f, nil, 1, time.Unix(0, 0)) {
		assert.NotContains(t, c.Message, "firmware runs", c.Type)
		assert.NotContains(t, c.Message, "image", c.Type)
	}
}

// A retry repeats no steps that a person listed.
func TestFailedStepsOfAPersonAreNotRetried(t *testing.T) {
	f := status.JobFacts{Outcome: step.Failed, Node: "n1", Failure: &step.Failure{Reason: step.StepFailed, Message: "a drive is missing", Step: "verify-inventory"}}
	ready := func() string {
		return meta.FindStatusCondition(status.Job(f, nil, 1, time.Unix(0, 0)), v1alpha1.ConditionReady).Message
	}
	assert.Contains(t, ready(), "To try again: "+wayout.Retry("n1"), "those of a cleaning policy")
	f.ByHand = true
	assert.Equal(t, "Step verify-inventory failed: a drive is missing. To run its steps again, create another job with them.", ready())
	f.Held = true
	assert.Equal(t, "Step verify-inventory failed: a drive is missing. Node n1 stays out of service. Fix the cause. Then create another job with its steps, which runs "+
		"while the node stays as it is. To return the node to service: "+wayout.Request("nfw", "n1", "release"), ready(), "a retry runs no steps")
}

// What a person does is named by what happened: a node as unhealthy as before its rollback was restored.
func TestHeldSaysWhatToDo(t *testing.T) {
	f := status.JobFacts{
		Outcome: step.Failed, Held: true, Node: "n1", Failure: &step.Failure{Reason: step.Unhealthy, Message: "no link. No image is blamed", Step: "health"},
		Rollback: &step.Rollback{Devices: []string{"nic0"}, Failure: &step.Failure{Reason: step.Unhealthy, Message: "the previous firmware runs again", Step: "health"}},
	}
	held := func() string {
		return meta.FindStatusCondition(status.Job(f, nil, 1, time.Unix(0, 0)), v1alpha1.ConditionHeld).Message
	}
	assert.Contains(t, held(), "Repair what is named. To have it checked, and updated where that is due: "+wayout.Retry("n1"))
	assert.Contains(t, held(), wayout.Request("nfw", "n1", "release"))
	f.Failure.Blames = []string{"nic0"}
	assert.Contains(t, held(), "The previous firmware runs again. Repair it")
	assert.NotContains(t, held(), "not restored")
	f.Rollback.Failure.Reason = step.RollbackUnavailable
	assert.Contains(t, held(), "It was not restored: the previous firmware")
}

// A node that boots slowly is up, so its job has succeeded and says so in the same message.
func TestSlowBootIsSaid(t *testing.T) {
	const slow = "the node took 5m20s to boot, 1m20s before the update; two boots in a row were slow"
	f := status.JobFacts{Outcome: step.Complete, Summary: "nic0 runs 2.0.", Slow: slow}
	for _, condition := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionComplete} {
		c := meta.FindStatusCondition(status.Job(f, nil, 1, time.Unix(0, 0)), condition)
		assert.Equal(t, "nic0 runs 2.0. The node took 5m20s to boot, 1m20s before the update; two boots in a row were slow.", c.Message)
	}
	node := status.NodeFacts{Verdict: &status.VerdictFacts{Healthy: true, Job: "j", Complaints: []string{slow}}}
	c := meta.FindStatusCondition(status.Node(node, nil, 1, time.Unix(0, 0)), v1alpha1.ConditionHealthy)
	assert.Equal(t, metav1.ConditionTrue, c.Status)
	assert.Contains(t, c.Message, "as healthy as before it. The node took 5m20s to boot")
}

func TestAHeldJobNamesTheOneThatTookItsNodeOver(t *testing.T) {
	failure := &step.Failure{Reason: step.WriteFailed, Message: "exit code 1", Step: "flash"}
	for want, f := range map[string]status.JobFacts{
		"next": {Outcome: step.Failed, Failure: failure, SupersededBy: "next"},
		"":     {Outcome: step.Failed, Failure: failure, Released: true},
	} {
		j := &v1alpha1.FirmwareJob{}
		assert.Empty(t, status.SupersededBy(j))
		j.Status.Conditions = status.Job(f, nil, 1, time.Unix(0, 0))
		assert.Equal(t, want, status.SupersededBy(j))
	}
}

// A drive that erases itself cannot be stopped: who waits for it, or cancelled the job, is told how to give it up (R003-43).
func TestDriveThatIsWaitedForCanBeGivenUp(t *testing.T) {
	const command = `kubectl patch fwj a --type merge -p '{"spec":{"cancel":{"mode":"Force"}}}'`
	overdue := status.Job(status.JobFacts{Name: "a", Step: "erase disk0", Overdue: "no progress for 4h"}, nil, 1, time.Unix(0, 0))
	assert.Contains(t, meta.FindStatusCondition(overdue, v1alpha1.ConditionStalled).Message, "To give it up, which holds the node: "+command)
	for name, failure := range map[string]*step.Failure{"it still runs": nil, "a drive has failed": {Reason: step.StepFailed}} {
		cancelled := status.Job(status.JobFacts{Name: "a", Step: "erase disk0", Cancelling: step.WriteRunning, Failure: failure}, nil, 1, time.Unix(0, 0))
		assert.Contains(t, meta.FindStatusCondition(cancelled, v1alpha1.ConditionCancelling).Message, "no other one is told to. The job ends when they are done, "+
			"and holds the node. To give them up, without a proof: "+command, name)
	}
}
