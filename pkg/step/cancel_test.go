package step_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

func cancelled(f step.Facts) step.Facts {
	reason := "wrong night"
	f.Cancel = &reason
	f.Devices = map[string]step.Device{"nic": {Running: "1", Stored: "1"}, "disk": {Running: "1", Stored: "1"}, "bios": {Running: "1"}}
	return f
}

func isCancelled(t *testing.T, a step.Action, held bool) {
	t.Helper()
	require.Equal(t, step.Settle, a.Verb, a.Message)
	require.NotNil(t, a.Failure, a.Message)
	assert.Equal(t, step.Cancelled, a.Failure.Reason)
	assert.Equal(t, held, a.Failure.Held)
	assert.Contains(t, a.Message, "wrong night")
	assert.Empty(t, a.Failure.Blames, "a cancellation blames no firmware")
}

// R003-25, R003-27: before the first write a job ends at once and the node goes back; afterwards it ends at once where the
// running step may be interrupted, and right after it where not, and a person decides about the node.
func TestCancelTakesEffectAsSoonAsTheStepAllows(t *testing.T) {
	f := cancelled(ready)
	for _, kind := range []plan.Kind{plan.Preflight, plan.Archive, plan.Maintenance} {
		isCancelled(t, next(at(kind, running), f), false)
		isCancelled(t, next(at(kind, nil), f), false)
	}
	isCancelled(t, next(at(plan.Flash, nil), f), false)

	for _, kind := range []plan.Kind{plan.Flash, plan.Activate, plan.Reboot} {
		r := needs(at(kind, running), inventory.ActivateDeviceReset)
		a := next(r, f)
		assert.False(t, a.Failure != nil && a.Failure.Reason == step.Cancelled, "%s is not interrupted: %s", kind, a.Message)
	}
	for _, kind := range []plan.Kind{plan.Verify, plan.Health} {
		isCancelled(t, next(at(kind, running), f), true)
	}
	for _, kind := range []plan.Kind{plan.Activate, plan.Reboot, plan.Verify, plan.Health} {
		isCancelled(t, next(at(kind, nil), f), true)
	}
	assert.Equal(t, step.Poll, next(at(plan.Release, running), cancelled(step.Facts{BootID: "boot-1", Maintenance: step.MaintenanceEnding})).Verb,
		"a node on its way back is not stopped there")
}

// A write that was cancelled ends as it does; the step after it does not begin.
func TestReadsBackCancelledWrite(t *testing.T) {
	f := cancelled(ready)
	r := at(plan.Flash, running)
	f.Devices["disk"] = step.Device{WriteRunning: true}
	f.Devices["nic"] = step.Device{WriteRunning: true}
	assert.Equal(t, step.Await, next(r, f).Verb)
	written := step.Device{Running: "1", Stored: "2", Activation: inventory.ActivateReboot}
	f.Devices["disk"], f.Devices["nic"] = written, written
	r = apply(step.Report(r, r.Current(), step.Returned{Needs: inventory.ActivateReboot}), f)
	isCancelled(t, next(r, f), true)
	r = apply(r, f)
	r = apply(r, f)
	assert.Equal(t, step.Failed, r.Outcome)
	assert.Nil(t, r.Rollback, "what was asked for is the end of the job, not a rollback")
	for _, s := range r.Steps {
		if s.State == step.Running || s.State == step.Pending {
			assert.Equal(t, plan.Release, s.Kind, "only the release waits for a person")
		}
	}
}

// A rollback is never interrupted: half of it would leave what is known to be bad.
// It proves R003-27.
func TestRollbackIsNotInterrupted(t *testing.T) {
	r := at(plan.Health, running)
	for i := range r.Updates {
		r.Updates[i].From, r.Updates[i].Rollback = "1", inventory.RollbackSlot
	}
	f := ready
	f.Devices = map[string]step.Device{"nic": {Running: "2", Stored: "2"}, "disk": {Running: "2", Stored: "2"}}
	f.Unhealthy, f.Waited = []step.Complaint{{Device: "nic", Message: "link down"}}, step.DefaultLimits().Health
	r = apply(r, f)
	require.Equal(t, step.Unhealthy, r.Failure.Reason)
	reason := "stop it"
	f.Cancel, f.Unhealthy, f.Waited = &reason, nil, 0
	require.Equal(t, step.RollBack, next(r, f).Verb)
	r = apply(r, f)
	f.Devices["nic"] = step.Device{Running: "2", Stored: "2", Activation: inventory.ActivateDeviceReset}
	a := next(r, f)
	require.Equal(t, step.Begin, a.Verb, a.Message)
	assert.Equal(t, plan.Restore, r.Steps[a.Step].Kind)
	r = apply(r, f)
	f.Devices["nic"] = step.Device{Running: "1", Stored: "1"}
	r = step.Report(r, a.Step, step.Returned{})
	for range 20 {
		if r.Outcome != "" {
			break
		}
		if i := r.Current(); i >= 0 && r.Steps[i].Kind == plan.Release {
			f.Maintenance = step.MaintenanceNone
		}
		r = apply(r, f)
	}
	assert.True(t, r.RolledBack())
	assert.Equal(t, step.Unhealthy, r.Failure.Reason, "the cancellation does not hide why")
	assert.False(t, r.Failure.Held)
}

func TestCancelledStepsJob(t *testing.T) {
	f := cancelled(ready)
	r := taskJob(t, plan.Request{Name: "verify-inventory"}, plan.Request{Name: "scrub"}, plan.Request{Name: "reset-bios-settings"})
	isCancelled(t, next(r, f), false)
	looking := until(r, plan.VerifyInventory)
	running(&looking.Steps[looking.Current()])
	isCancelled(t, next(looking, f), false)
	erasing := until(r, "scrub")
	running(&erasing.Steps[erasing.Current()])
	assert.Equal(t, step.Poll, next(erasing, f).Verb, "what changes the device ends first")
	isCancelled(t, next(until(r, plan.ResetBIOSSettings), f), true)
}

func forced(f step.Facts) step.Facts {
	f = cancelled(f)
	f.CancelForce = true
	return f
}

// A grace period lets the running step end by itself where it may be interrupted. Nothing else begins meanwhile, and what nothing
// runs any more is not begun again for it (R000-66).
func TestGraceLetsTheRunningStepEndAndNothingBegin(t *testing.T) {
	f := cancelled(ready)
	f.CancelGrace, f.Maintenance, f.Devices["disk"] = true, step.MaintenanceRequested, step.Device{Running: "2", Stored: "2"}
	f.Devices["nic"] = f.Devices["disk"]
	for _, kind := range []plan.Kind{plan.Preflight, plan.Archive, plan.Maintenance, plan.Verify, plan.Health} {
		a := next(at(kind, running), f)
		assert.Nil(t, a.Failure, "%s: %s", kind, a.Message)
		assert.Equal(t, step.GracePeriod, step.CancelAwaits(at(kind, running), true))
		assert.Empty(t, step.CancelAwaits(at(kind, running), false))

		interrupted := f
		interrupted.Interrupted = true
		isCancelled(t, next(at(kind, running), interrupted), kind == plan.Verify || kind == plan.Health)
	}
	for _, kind := range []plan.Kind{plan.Preflight, plan.Archive, plan.Maintenance, plan.Flash} {
		isCancelled(t, next(at(kind, nil), f), false)
	}
	f.Expired = true
	isCancelled(t, next(at(plan.Maintenance, running), f), false)
}

// Force ends neither a write nor what finds out how one ended, and leaves no device with half of an image: what was interrupted
// is repeated as without it (R000-66).
func TestForceEndsNoWriteOfFirmware(t *testing.T) {
	f := forced(ready)
	f.Interrupted = true
	old := step.Device{Running: "1", Stored: "1", Activation: inventory.ActivateDeviceReset}
	for _, kind := range []plan.Kind{plan.Flash, plan.Activate} {
		r := needs(at(kind, running), inventory.ActivateDeviceReset)
		for name, c := range map[string]struct {
			device step.Device
			want   step.Verb
		}{
			"busy": {step.Device{WriteRunning: true}, step.Await},
			"mute": {step.Device{Unreadable: "no answer"}, step.Await},
			"old":  {old, step.Begin},
		} {
			f.Devices["disk"], f.Devices["nic"] = c.device, c.device
			a := next(r, f)
			assert.Equal(t, c.want, a.Verb, "%s %s: %s", kind, name, a.Message)
		}
	}
	written := step.Device{Running: "2", Stored: "2"}
	f.Devices["disk"], f.Devices["nic"] = written, written
	assert.Equal(t, step.Succeeded, next(at(plan.Flash, running), f).State, "what was written is noted before the job ends")
	assert.Equal(t, step.Begin, next(needs(at(plan.Reboot, running), inventory.ActivateReboot), f).Verb)
	assert.Equal(t, step.StepNotInterruptible, step.CancelAwaits(at(plan.Reboot, running), false))
}

// Force begins no further round of a step that is not part of every update, and does not repeat it after an interruption. The
// round that runs is waited for (R000-66).
func TestForceEndsStepAfterRound(t *testing.T) {
	round := until(taskJob(t, plan.Request{Name: "scrub"}), "scrub")
	returned(step.Returned{Again: true})(&round.Steps[round.Current()])
	assert.Equal(t, step.Begin, next(round, cancelled(ready)).Verb, "without force its rounds are one step")
	isCancelled(t, next(round, forced(ready)), true)

	r := until(taskJob(t, plan.Request{Name: "scrub"}), "scrub")
	running(&r.Steps[r.Current()])
	f := forced(ready)
	assert.Equal(t, step.Poll, next(r, f).Verb, "its round runs")
	assert.Equal(t, step.WriteRunning, step.CancelAwaits(r, false))
	f.Interrupted = true
	isCancelled(t, next(r, f), true)
	f.Devices["disk"] = step.Device{WriteRunning: true}
	assert.Equal(t, step.Await, next(r, f).Verb, "its write goes on without its process")
}

// A job that failed by itself finishes what follows from that, by force too.
func TestForceDoesNotStopARollback(t *testing.T) {
	r := at(plan.Health, running)
	for i := range r.Updates {
		r.Updates[i].From, r.Updates[i].Rollback = "1", inventory.RollbackSlot
	}
	f := ready
	f.Unhealthy, f.Waited = []step.Complaint{{Device: "nic", Message: "link down"}}, step.DefaultLimits().Health
	r = apply(r, f)
	f.Unhealthy, f.Waited = nil, 0
	r = apply(r, f)
	require.NotNil(t, r.Rollback)
	running(&r.Steps[r.Current()])
	f = forced(ready)
	f.Interrupted = true
	f.Devices["nic"] = step.Device{Running: "2", Stored: "2"}
	a := next(r, f)
	assert.Equal(t, step.Begin, a.Verb, a.Message)
	assert.Equal(t, plan.Restore, r.Steps[a.Step].Kind)
	assert.Equal(t, step.WriteRunning, step.CancelAwaits(r, false))
	r.Steps[r.Current()].State = step.Pending
	assert.Equal(t, step.StepNotInterruptible, step.CancelAwaits(r, false))
}
