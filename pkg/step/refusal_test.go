package step_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// Of a device that keeps a record of its last update, the version and that record decide. What is left over from an earlier
// attempt says nothing of this one.
func TestADeviceThatRunsTheTargetAndReportsAFailureIsNotBelieved(t *testing.T) {
	for name, c := range map[string]struct {
		needs   inventory.Activation
		attempt int32
		wroteIn string
		refusal string
		state   step.State
	}{
		"it took what was written":             {inventory.ActivateReboot, 1, "boot-1", "", step.Succeeded},
		"it reports that the update failed":    {inventory.ActivateReboot, 1, "boot-1", "status 1", step.StepFault},
		"no boot has judged what was written":  {inventory.ActivateReboot, 1, "boot-2", "status 1", step.Succeeded},
		"nothing was written":                  {inventory.ActivateNone, 0, "boot-1", "status 1", step.Succeeded},
		"what was written needed no boot":      {inventory.ActivateNone, 1, "boot-1", "status 1", step.Succeeded},
		"it was there already and only waited": {inventory.ActivateReboot, 0, "boot-1", "status 1", step.StepFault},
	} {
		t.Run(name, func(t *testing.T) {
			r := at(plan.Verify, running)
			r.Updates[0].Needs = c.needs
			for i := range r.Steps {
				if s := &r.Steps[i]; s.Kind == plan.Flash && s.Device == "nic" {
					s.Attempt, s.BootID = c.attempt, c.wroteIn
				}
			}
			want := r.Updates[0].Version
			a := step.Next(r, step.Facts{BootID: "boot-2", Devices: map[string]step.Device{"nic": {Running: want, Stored: want, Refusal: c.refusal}}},
				step.DefaultLimits())
			assert.Equal(t, c.state, a.State, a.Message)
			if c.state == step.StepFault {
				require.NotNil(t, a.Failure)
				assert.Equal(t, step.VerifyFailed, a.Failure.Reason)
				assert.Equal(t, []string{"nic"}, a.Failure.Blames, "the previous firmware is being restored")
				assert.Contains(t, a.Message, "runs "+string(want)+", but status 1")
			}
		})
	}
}
