package step_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// Steps change no firmware, so that an unhealthy host says nothing about any.
func TestStepsBlameNoFirmware(t *testing.T) {
	r := until(taskJob(t, plan.Request{Name: "scrub"}), plan.Health)
	running(&r.Steps[r.Current()])
	f := ready
	f.Unhealthy, f.Waited = []step.Complaint{{Device: "disk", Message: "it is gone"}}, time.Hour
	a := next(r, f)
	require.NotNil(t, a.Failure)
	assert.Empty(t, a.Failure.Blames)
	assert.True(t, a.Failure.Held)

	r = until(taskJob(t, plan.Request{Name: "scrub"}), plan.Preflight)
	running(&r.Steps[0])
	r.Steps[0].Returned = &step.Returned{Again: true, Failure: &step.Failure{Reason: step.ReadFailed, Device: "disk", Message: "mute"}}
	for i := range r.Steps {
		if r.Steps[i].Kind == "scrub" {
			r.Steps[i].Attempt = 1
		}
	}
	a = next(r, f)
	if a.Failure != nil {
		assert.Empty(t, a.Failure.Blames)
	}
}
