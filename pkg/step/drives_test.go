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

// drives is a job that erases three drives, of which the first one erases itself and the second one was sampled.
func drives(t *testing.T) (r step.Record, first int) {
	t.Helper()
	var requests []plan.Request
	var targets []plan.Target
	var updates []step.Update
	for _, name := range []string{"disk0", "disk1", "disk2"} {
		requests = append(requests, plan.Request{Name: "erase", Device: name, Arguments: []plan.Argument{{Name: "serialNumber", Value: name}}})
		targets = append(targets, plan.Target{Device: name, Class: inventory.Disk, Driver: "sim"})
		updates = append(updates, step.Update{Device: name})
	}
	list, err := plan.DefaultCatalog().Requested(requests, targets)
	require.NoError(t, err)
	r = until(step.New(list, updates...), plan.Erase)
	first = r.Current()
	r = step.Report(apply(r, ready), first, step.Returned{Data: []byte("samples"), Again: true})
	r = step.Report(apply(r, ready), first, step.Returned{Data: []byte("told"), Again: true, Lasting: true})
	require.Equal(t, first, r.Current(), "it is looked at once")
	r = apply(r, ready)
	require.Equal(t, first+1, r.Current(), "the next drive is begun beside it")
	r = step.Report(apply(r, ready), first+1, step.Returned{Data: []byte("samples"), Again: true})
	return r, first
}

var gone = step.Returned{Failure: &step.Failure{Reason: step.StepFailed, Message: "it failed"}}

// Of a drive that may have been told it is found out whether it was, also after another one has failed, and it is not told then (R003-43).
func TestDriveThatMayBeToldIsNotForgotten(t *testing.T) {
	r, first := drives(t)
	told := apply(r, ready) // and the answer is lost
	told = apply(step.Report(told, first, gone), ready)
	require.NotNil(t, told.Failure)
	require.Equal(t, first+1, told.Current())
	f := ready
	f.Interrupted = true
	asked := step.Report(apply(told, f), first+1, step.Returned{Data: []byte("told"), Again: true, Lasting: true})
	assert.Equal(t, first+1, asked.Current(), "it erases itself, and is followed")

	notTold := apply(step.Report(apply(told, f), first+1, step.Returned{Data: []byte("samples"), Again: true}), f)
	assert.Equal(t, step.Failed, notTold.Outcome, "it does not, and is left alone")
	assert.Equal(t, step.Skipped, notTold.Steps[first+1].State)
	assert.Equal(t, "its drive was not told to erase itself", notTold.Steps[first+1].Message)
	assert.Equal(t, step.Skipped, notTold.Steps[first+2].State)
}

// A drive that erases itself is followed whatever becomes of the maintenance; none is told without one.
func TestDriveIsFollowedWithoutMaintenance(t *testing.T) {
	r, first := drives(t)
	f := ready
	f.Maintenance, f.Waited = step.MaintenanceNone, time.Hour
	lost := next(r, f)
	require.NotNil(t, lost.Failure)
	assert.Equal(t, step.MaintenanceLost, lost.Failure.Reason)
	r = apply(r, f)
	require.Equal(t, first, r.Current())
	assert.Equal(t, step.Poll, next(r, f).Verb)
	f.Interrupted = true
	assert.Equal(t, step.Begin, next(r, f).Verb, "by another process")
	f.Interrupted = false
	r = step.Report(r, first, step.Returned{Message: "erased"})
	assert.Equal(t, step.Succeeded, next(r, f).State)
}

// Each drive that is given up by force is named once in the failure of the job.
func TestDrivesGivenUpAreNamed(t *testing.T) {
	r, first := drives(t)
	r = step.Report(apply(r, ready), first+1, step.Returned{Data: []byte("told"), Again: true, Lasting: true})
	f := ready
	f.Cancel, f.CancelForce = new("wrong node"), true
	for r.Outcome == "" {
		r = apply(r, f)
	}
	const unproven = "; the drive may be erasing itself, which nothing stops, and is NOT proven erased"
	assert.Equal(t, "disk1", r.Failure.Device)
	assert.Equal(t, "cancelled by force, so the step is not begun again: wrong node"+unproven+"; disk0: given up by force"+unproven, r.Failure.Message)
}
