package step_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// blamed is a job whose NIC, which ran version 1, was flashed and whose new firmware is at fault.
func blamed(back inventory.Rollback) step.Record {
	r := at(plan.Activate, running)
	r.Updates[0].From, r.Updates[0].Rollback = "1", back
	r.Failure = &step.Failure{Reason: step.ActivationFailed, Step: plan.Activate, Held: true, Blames: []string{"nic"}}
	for i := range r.Steps {
		if s := &r.Steps[i]; s.Kind == plan.Activate && s.Device == "nic" {
			s.State = step.StepFault
		}
	}
	return r
}

func decide(r step.Record, nic step.Device, interrupted bool) step.Action {
	f := step.Facts{
		BootID: "boot-1", Devices: map[string]step.Device{"nic": nic}, Maintenance: step.MaintenanceReady, Interrupted: interrupted,
	}
	return step.Next(r, f, step.DefaultLimits())
}

// A device that does not say what it stores may hold the image at fault until it is overwritten: the next reboot would
// bring it back after the node was returned to service.
func TestDeviceThatDoesNotTellIsWrittenInARollback(t *testing.T) {
	quiet := step.Device{Running: "1", Activation: inventory.ActivateReboot}
	r := blamed(inventory.RollbackReadBack)
	a := decide(r, quiet, false)
	require.Equal(t, step.RollBack, a.Verb)
	require.Nil(t, a.Failure)
	r = step.Apply(r, a, "boot-1", time.Unix(0, 0))
	a = decide(r, quiet, false)
	require.Equal(t, step.Begin, a.Verb, a.Message)
	restore := a.Step
	r = step.Apply(r, a, "boot-1", time.Unix(0, 0))

	assert.Equal(t, step.Begin, decide(r, quiet, true).Verb, "an interrupted restore is repeated")
	r = step.Report(r, restore, step.Returned{Needs: inventory.ActivateReboot})
	a = decide(r, quiet, false)
	assert.Equal(t, step.Succeeded, a.State, a.Message)
	assert.Equal(t, inventory.ActivateNone, a.Needs, "what runs needs no activation")
}

func TestDeviceThatTellsAndRunsNothingElseIsNotWrittenInARollback(t *testing.T) {
	reporting := step.Device{Running: "1", Stored: "1", Activation: inventory.ActivateReboot}
	r := blamed(inventory.RollbackNone)
	a := decide(r, reporting, false)
	require.Nil(t, a.Failure, "there is nothing to roll back")
	r = step.Apply(r, a, "boot-1", time.Unix(0, 0))
	assert.Equal(t, step.Skipped, decide(r, reporting, false).State)
}

func TestDeviceThatDoesNotTellAndCannotBeBroughtBackIsLeftToAPerson(t *testing.T) {
	a := decide(blamed(inventory.RollbackNone), step.Device{Running: "1"}, false)
	require.NotNil(t, a.Failure)
	assert.Equal(t, step.RollbackUnavailable, a.Failure.Reason)
}

// What ran before the first write is settled once: after it, the new firmware may run.
func TestWhatRanBeforeIsNotReplacedWhenTheListBeginsAnew(t *testing.T) {
	r := at(plan.Archive, nil)
	r.Updates[0].From, r.Updates[0].Rollback = "1", inventory.RollbackReadBack
	for i := range r.Steps {
		if s := &r.Steps[i]; s.Kind == plan.Flash && s.Device == "nic" {
			s.Attempt = 1
		}
	}
	a := decide(r, step.Device{Running: "2-broken", Stored: "2-broken"}, true)
	require.Equal(t, step.Skipped, a.State, a.Message)
	assert.EqualValues(t, "1", step.Apply(r, a, "boot-1", time.Unix(0, 0)).Updates[0].From)
}

func TestListDoesNotBeginAnewWhileTheNodeIsReturned(t *testing.T) {
	r := at(plan.Release, running)
	r.Updates[0].Driver, r.Updates[0].DriverVersion = "sim", "1"
	f := step.Facts{BootID: "boot-1", Interrupted: true, Drivers: map[string]string{"sim": "2"}}
	assert.Equal(t, step.Begin, step.Next(r, f, step.DefaultLimits()).Verb)
}

// TestJobCalledOffBeforeTheGateJudgedHasNoVerdict proves R002-19.
func TestJobCalledOffBeforeTheGateJudgedHasNoVerdict(t *testing.T) {
	r, reason := at(plan.Health, running), "wrong night"
	f := step.Facts{BootID: "boot-1", Cancel: &reason, HealthKnown: true}
	a := step.Next(r, f, step.DefaultLimits())
	require.NotNil(t, a.Failure)
	assert.Equal(t, step.Cancelled, a.Failure.Reason)
	assert.Nil(t, step.Apply(r, a, "boot-1", time.Unix(0, 0)).Verdict)
}

// A device that new firmware makes unreadable must not be hidden by a restarted list: no deadline ends that wait.
func TestDeviceThatWasChangedIsNotWaitedForWithoutEnd(t *testing.T) {
	r := at(plan.Preflight, returned(step.Returned{
		Again: true, Failure: &step.Failure{Reason: step.ReadFailed, Device: "nic", Message: "no answer"},
	}))
	f := step.Facts{BootID: "boot-2", Waited: time.Hour}
	assert.Equal(t, step.Poll, step.Next(r, f, step.DefaultLimits()).Verb, "nothing was changed yet")
	for i := range r.Steps {
		if r.Steps[i].Kind == plan.Flash {
			r.Steps[i].Attempt = 1
		}
	}
	a := step.Next(r, f, step.DefaultLimits())
	require.NotNil(t, a.Failure)
	assert.Equal(t, []string{"nic"}, a.Failure.Blames)
	f.Waited = time.Second
	assert.Equal(t, step.Poll, step.Next(r, f, step.DefaultLimits()).Verb, "it has its time to answer")
}

// What is read back after a restore failed does not hide why it failed.
func TestKeepsFirstRollbackFailure(t *testing.T) {
	r := at(plan.Verify, running)
	for i := range r.Updates {
		r.Updates[i].From, r.Updates[i].Rollback = "1", inventory.RollbackReadBack
	}
	f := ready
	bad := step.Device{Running: "2-broken", Stored: "2-broken"}
	f.Devices = map[string]step.Device{"nic": bad, "disk": bad}
	for r.Rollback == nil {
		r = apply(r, f)
	}
	require.Equal(t, []string{"nic", "disk"}, r.Rollback.Devices)
	for range 20 {
		if r.Outcome != "" {
			break
		}
		a := next(r, f)
		r = step.Apply(r, a, f.BootID, time.Unix(0, 0))
		if a.Verb == step.Begin && r.Steps[a.Step].Kind == plan.Restore {
			r = step.Report(r, a.Step, step.Returned{Failure: &step.Failure{Reason: step.WriteFailed, Message: "the tool failed"}})
		}
	}
	require.Equal(t, step.Failed, r.Outcome)
	require.NotNil(t, r.Rollback.Failure)
	assert.Equal(t, step.WriteFailed, r.Rollback.Failure.Reason)
	assert.True(t, r.NeedsIntervention())
}
