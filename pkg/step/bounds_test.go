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

// A node whose devices all run their targets stays in service, and what differs later is not written outside a maintenance,
// whoever holds one (R001-20).
func TestNodeWithNothingToDoStaysInServiceAndIsNotWritten(t *testing.T) {
	done := step.Device{Running: "2", Stored: "2"}
	f := ready
	f.Devices = map[string]step.Device{"nic": done, "disk": done}
	r := at(plan.Maintenance, nil)
	a := next(r, f)
	require.Equal(t, step.Skipped, a.State, a.Message)

	r = apply(r, f)
	f.Devices = map[string]step.Device{"nic": {Running: "1", Stored: "1"}, "disk": done}
	for r.Steps[r.Current()].Device != "nic" {
		r = apply(r, f)
	}
	a = next(r, f)
	require.NotNil(t, a.Failure, "verb %d: %s", a.Verb, a.Message)
	assert.Equal(t, step.MaintenanceLost, a.Failure.Reason)
	assert.False(t, a.Failure.Held, "the node was never out of service")
}

// A job that has written nothing by its deadline ends, wherever it waits, and the node goes back.
func TestUnwrittenJobEndsAtDeadline(t *testing.T) {
	f := ready
	f.Devices = map[string]step.Device{"nic": {Running: "1"}, "disk": {Running: "1"}}
	f.Maintenance, f.MaintenanceMessage = step.MaintenanceRequested, "draining"
	for _, kind := range []plan.Kind{plan.Preflight, plan.Archive, plan.Maintenance, plan.Flash} {
		f.Expired = false
		assert.Nil(t, next(at(kind, nil), f).Failure, "%s", kind)
		f.Expired = true
		a := next(at(kind, running), f)
		if kind == plan.Flash { // a write that runs is never given up
			a = next(at(kind, nil), f)
		}
		require.NotNil(t, a.Failure, "%s: %s", kind, a.Message)
		assert.Equal(t, step.TimedOut, a.Failure.Reason)
		assert.False(t, a.Failure.Held)
	}
	f.Maintenance = step.MaintenanceNotInstalled
	assert.Equal(t, step.MaintenanceUnavailable, next(at(plan.Maintenance, running), f).Failure.Reason)
}

// The reboots of a job are counted over its restarts (R002-25).
func TestJobRequestsNoFourthReboot(t *testing.T) {
	staged := step.Device{Running: "1", Stored: "2", Activation: inventory.ActivateReboot}
	f := ready
	f.Devices = map[string]step.Device{"nic": staged, "disk": staged}
	for attempts := range int32(step.MaxReboots + 1) {
		a := next(needs(at(plan.Reboot, func(s *step.Step) { s.Attempt = attempts }), inventory.ActivateReboot), f)
		if attempts < step.MaxReboots {
			assert.Equal(t, step.Begin, a.Verb, a.Message)
			continue
		}
		require.NotNil(t, a.Failure)
		assert.Equal(t, step.RebootFailed, a.Failure.Reason)
	}
}

// A step that only looks does its work in rounds, and not without end.
func TestGivesUpEndlessStep(t *testing.T) {
	r := taskJob(t, plan.Request{Name: "verify-inventory"})
	for range step.MaxTaskAttempts {
		require.Equal(t, step.Begin, next(r, ready).Verb)
		r = step.Report(apply(r, ready), 0, step.Returned{Again: true})
	}
	end := next(r, ready)
	require.NotNil(t, end.Failure)
	assert.Equal(t, step.StepFailed, end.Failure.Reason)
}

// A list of steps is not begun anew more often than its bound allows, however often a driver changes.
func TestListIsNotBegunAnewForEver(t *testing.T) {
	f := ready
	f.Drivers = map[string]string{"sim": "2"}
	f.Devices = map[string]step.Device{"nic": {Running: "1"}, "disk": {Running: "1"}}
	for restarts := range int32(step.MaxRestarts + 1) {
		r := at(plan.Maintenance, nil)
		r.Restarts = restarts
		for i := range r.Updates {
			r.Updates[i].Driver, r.Updates[i].DriverVersion = "sim", "1"
		}
		a := step.Next(r, f, step.Limits{Read: time.Minute})
		assert.Equal(t, restarts < step.MaxRestarts, a.Verb == step.Restart, "after %d restarts", restarts)
	}
}
