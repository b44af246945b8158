package step_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// A driver that changes under a job on a held node must not make that job return the node.
func TestJobOnAHeldNodeDoesNotReturnItWhenItsListBeginsAnew(t *testing.T) {
	r := checked(until(step.Hold(taskJob(t, plan.Request{Name: "scrub"})), "scrub"))
	for i := range r.Steps {
		if r.Steps[i].Kind == plan.Release {
			require.Equal(t, step.Skipped, r.Steps[i].State)
		}
	}
	running(&r.Steps[r.Current()])
	require.Equal(t, step.Restart, next(r, drivers("2")).Verb)
	r = apply(r, drivers("2"))
	for _, s := range r.Steps {
		if s.Kind == plan.Release {
			assert.Equal(t, step.Skipped, s.State, "an earlier job holds the node and keeps holding it")
		}
	}
}

// Two jobs that hold one node could not both be superseded: the second would hold it for ever.
func TestJobOnAHeldNodeNeverHoldsIt(t *testing.T) {
	r := until(step.Hold(taskJob(t, plan.Request{Name: "scrub"}, plan.Request{Name: "reset-bios-settings"})), plan.ResetBIOSSettings)
	require.True(t, r.Wrote())
	f := ready
	f.Maintenance = step.MaintenanceNone
	a := next(r, f)
	require.NotNil(t, a.Failure)
	assert.Equal(t, step.MaintenanceLost, a.Failure.Reason)
	assert.False(t, a.Failure.Held)
}
