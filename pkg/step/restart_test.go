package step_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// checked is the record of a job whose images version 1 of the driver checked.
func checked(r step.Record) step.Record {
	for i := range r.Updates {
		r.Updates[i].Driver, r.Updates[i].DriverVersion = "sim", "1"
	}
	return r
}

// drivers are facts of a new process with that version of the driver.
func drivers(version string) step.Facts {
	f := ready
	f.Interrupted, f.Drivers = true, map[string]string{"sim": version}
	f.Devices = map[string]step.Device{"nic": {Running: "1", Stored: "1"}, "disk": {Running: "1", Stored: "1"}}
	return f
}

// TestDriverThatChangedRestartsAtTheFirstStep proves R003-30.
func TestDriverThatChangedRestartsAtTheFirstStep(t *testing.T) {
	r := checked(at(plan.Flash, running))
	assert.Equal(t, step.Begin, next(r, drivers("1")).Verb, "the same driver goes on")
	a := next(r, drivers("2"))
	require.Equal(t, step.Restart, a.Verb)
	r = apply(r, drivers("2"))
	assert.EqualValues(t, 1, r.Restarts)
	assert.Zero(t, r.Current(), "the first step")
	for _, s := range r.Steps {
		if s.Kind == plan.Maintenance {
			assert.Equal(t, step.Succeeded, s.State, "the node stays in maintenance")
			continue
		}
		assert.Equal(t, step.Pending, s.State)
	}
	assert.Equal(t, int32(1), r.Steps[flashOf(r)].Attempt, "what was counted stays counted")
	for _, u := range r.Updates {
		assert.Empty(t, u.DriverVersion, "the images are checked by the new driver")
	}
	f := drivers("2")
	r = apply(r, f)
	assert.Equal(t, step.Running, r.Steps[0].State)
	f.Interrupted = false
	r = apply(step.Report(r, 0, step.Returned{Drivers: map[string]step.Driver{"nic": {Name: "sim", Version: "2"}, "disk": {Name: "sim", Version: "2"}}}), f)
	assert.Equal(t, step.Succeeded, r.Steps[0].State)
	assert.NotEqual(t, step.Restart, next(r, drivers("2")).Verb)
}

// A plugin may change while the process goes on.
// It proves R003-30.
func TestDriverChangeRestartsJob(t *testing.T) {
	f := drivers("2")
	f.Interrupted = false
	r := checked(at(plan.Flash, running))
	i := r.Current()
	r.Steps[i].State, r.Steps[i].Attempt = step.Pending, 0
	assert.Equal(t, step.Restart, next(r, f).Verb)
}

func flashOf(r step.Record) int {
	for i, s := range r.Steps {
		if s.Kind == plan.Flash {
			return i
		}
	}
	return -1
}

// TestDriverChangeDoesNotRestart proves R003-30.
func TestDriverChangeDoesNotRestart(t *testing.T) {
	for name, c := range map[string]struct {
		record func() step.Record
		facts  func(*step.Facts)
	}{
		"the process that began it": {func() step.Record { return at(plan.Flash, running) }, func(f *step.Facts) { f.Interrupted = false }},
		"while a write goes on": {func() step.Record { return at(plan.Flash, running) },
			func(f *step.Facts) {
				f.Devices = map[string]step.Device{"nic": {WriteRunning: true}, "disk": {WriteRunning: true}}
			}},
		"after a failure": {func() step.Record {
			r := at(plan.Health, running)
			r.Failure = &step.Failure{Reason: step.Unhealthy, Step: plan.Health, Held: true}
			return r
		}, nil},
		"more than three times": {func() step.Record {
			r := at(plan.Flash, running)
			r.Restarts = 3
			return r
		}, nil},
		"when the node goes back": {func() step.Record { return at(plan.Release, running) }, nil},
		"without a checked image": {func() step.Record {
			r := at(plan.Preflight, running)
			for i := range r.Updates {
				r.Updates[i].Driver, r.Updates[i].DriverVersion = "", ""
			}
			return r
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := c.record()
			if name != "without a checked image" {
				r = checked(r)
			}
			f := drivers("2")
			if c.facts != nil {
				c.facts(&f)
			}
			assert.NotEqual(t, step.Restart, next(r, f).Verb)
		})
	}
}

// However often drivers change and the process dies: a device is not written more often than without that.
func TestRestartsAddNoAttempts(t *testing.T) {
	r := checked(at(plan.Flash, runningTwice))
	r = apply(r, drivers("2"))
	r = until(r, plan.Flash)
	f := drivers("2")
	f.Interrupted = false
	f.Devices["nic"] = step.Device{Running: "1", Stored: "1", Activation: inventory.ActivateReboot}
	a := next(r, f)
	require.NotNil(t, a.Failure, a.Message)
	assert.Equal(t, step.AttemptsExhausted, a.Failure.Reason)
}
