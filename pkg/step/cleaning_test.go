package step_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// cleaning is a job that cleans the node, at the first of its steps, none of which changes anything.
func cleaning(t *testing.T) step.Record {
	t.Helper()
	return until(cleaningJob(t, plan.Request{Name: "verify-inventory"}, plan.Request{Name: "verify-firmware", Device: "disk"}), plan.VerifyInventory)
}

// reported is the record after the current step has begun and returned that.
func reported(r step.Record, f step.Facts, ret step.Returned) step.Record {
	i := r.Current()
	return apply(step.Report(apply(r, f), i, ret), f)
}

// R003-1, R003-24: nobody finds before that no step changes anything, and keeps the node in service for it.
func TestCleaningTakesTheNodeOutOfServiceForStepsThatOnlyLook(t *testing.T) {
	r := until(cleaningJob(t, plan.Request{Name: "verify-inventory"}), plan.Maintenance)
	f := ready
	f.Maintenance = step.MaintenanceNone
	assert.Equal(t, step.Begin, next(r, f).Verb)
	r = apply(r, f)
	assert.Equal(t, step.Poll, next(r, f).Verb)
	r = apply(r, ready)
	assert.Equal(t, plan.VerifyInventory, r.Steps[r.Current()].Kind)
}

// R003-25: a step that fails holds the node, also where it changed nothing.
func TestFailedLookOfACleaningHoldsTheNode(t *testing.T) {
	r := reported(cleaning(t), ready, step.Returned{Failure: &step.Failure{Reason: step.StepFailed, Message: "a drive is missing"}})
	require.NotNil(t, r.Failure)
	assert.Equal(t, step.Failure{Reason: step.StepFailed, Message: "a drive is missing", Step: plan.VerifyInventory, Held: true}, *r.Failure)
	r = apply(r, ready)
	assert.Equal(t, step.Failed, r.Outcome)
	assert.Equal(t, step.Pending, r.Steps[len(r.Steps)-1].State, "it is not returned to service")
	released := step.Release(r)
	assert.Equal(t, plan.Release, released.Steps[released.Current()].Kind, "until a person releases it (R003-27)")
}

// R003-1: a step is begun, and what it found is believed, only while the node is out of service.
func TestCleaningEndsWhereTheNodeComesBack(t *testing.T) {
	begun := apply(cleaning(t), ready)
	for name, r := range map[string]step.Record{"before a step": cleaning(t), "during a step": step.Report(begun, begun.Current(), step.Returned{})} {
		t.Run(name, func(t *testing.T) {
			f := ready
			f.Maintenance = step.MaintenanceUnknown
			assert.Equal(t, step.Await, next(r, f).Verb)
			f.Maintenance = step.MaintenanceRequested
			assert.Equal(t, step.Await, next(r, f).Verb)
			f.Waited = time.Hour
			assert.Equal(t, step.MaintenanceLost, next(r, f).Failure.Reason)
			f = ready
			f.Maintenance = step.MaintenanceBroken
			a := next(r, f)
			require.NotNil(t, a.Failure)
			assert.Equal(t, step.MaintenanceLost, a.Failure.Reason)
			assert.False(t, a.Failure.Held, "nothing was changed, and who took it back has it")
		})
	}
}

// The deadline is for the way to the first step: the steps themselves take their time, and a job that only looks ends as well.
func TestStepsOfACleaningOutlastTheDeadline(t *testing.T) {
	late := ready
	late.Expired = true
	r := until(cleaningJob(t, plan.Request{Name: "verify-inventory"}), plan.Maintenance)
	assert.Equal(t, step.TimedOut, next(r, late).Failure.Reason)
	assert.False(t, next(r, late).Failure.Held)

	r = reported(reported(cleaning(t), late, step.Returned{}), late, step.Returned{})
	require.Equal(t, plan.Reboot, r.Steps[r.Current()].Kind)
	r = apply(r, late)
	require.Equal(t, plan.Health, r.Steps[r.Current()].Kind)
	assert.Equal(t, step.Skipped, r.Steps[r.Current()-1].State, "no step asked for a reboot")
	for r.Outcome == "" {
		if r.Steps[max(r.Current(), 0)].Kind == plan.Release {
			late.Maintenance = step.MaintenanceNone
		}
		r = apply(r, late)
	}
	assert.Equal(t, step.Complete, r.Outcome)
	assert.True(t, r.Verdict.Healthy)
}

// A cancellation before anything was changed returns the node, as that of any other job does.
func TestCancelledCleaningReturnsTheNode(t *testing.T) {
	f := ready
	f.Cancel = new("spec.cancel asks for it")
	r := apply(apply(cleaning(t), ready), f)
	require.NotNil(t, r.Failure)
	assert.Equal(t, step.Cancelled, r.Failure.Reason)
	assert.False(t, r.Failure.Held)
	assert.Equal(t, plan.Release, r.Steps[r.Current()].Kind)

	r = apply(apply(until(cleaningJob(t, plan.Request{Name: "scrub"}, plan.Request{Name: "verify-inventory"}), "scrub"), ready), ready)
	r = apply(step.Report(r, r.Current(), step.Returned{}), f)
	r = apply(r, f)
	assert.Equal(t, step.Cancelled, r.Failure.Reason)
	assert.True(t, r.Failure.Held, "something was changed")
}

// A step that does its work in rounds has as many in a cleaning, where it needs the maintenance, as elsewhere.
func TestLookOfACleaningMayTakeRounds(t *testing.T) {
	r := cleaning(t)
	i := r.Current()
	for range step.MaxTaskAttempts {
		require.Equal(t, step.Begin, next(r, ready).Verb)
		r = step.Report(apply(r, ready), i, step.Returned{Again: true})
	}
	assert.Equal(t, step.StepFailed, next(r, ready).Failure.Reason)
	assert.Equal(t, step.Succeeded, next(step.Report(r, i, step.Returned{}), ready).State, "the last round counts")
}
