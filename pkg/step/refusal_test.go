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

// A device that still runs what it ran before may take its image at the next boot: the host reboots once more, and the rollback has
// its reboot still.
func TestSecondBootBeforeBlame(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*step.Record, *step.Device)
		verb   step.Verb
	}{
		"it says nothing":                   {func(*step.Record, *step.Device) {}, step.RebootAgain},
		"it says that it dropped the image": {func(_ *step.Record, d *step.Device) { d.Refusal = "status 1" }, step.Settle},
		"it runs something else":            {func(_ *step.Record, d *step.Device) { d.Running = "3" }, step.Settle},
		"nobody knows what it ran":          {func(r *step.Record, _ *step.Device) { r.Updates[0].From = "" }, step.Settle},
		"it had its second boot":            {func(r *step.Record, _ *step.Device) { r.SecondBoot = true }, step.Settle},
		"no boot was to activate it":        {func(r *step.Record, _ *step.Device) { r.Updates[0].Needs = inventory.ActivateNone }, step.Settle},
		"another device has failed": {func(r *step.Record, _ *step.Device) {
			r.Failure = &step.Failure{Reason: step.VerifyFailed, Step: plan.Verify}
		}, step.Settle},
		"it does not answer":                  {func(_ *step.Record, d *step.Device) { d.Unreadable = "EIO" }, step.Settle},
		"only the rollback's reboot was left": {func(r *step.Record, _ *step.Device) { rebooted(r, step.MaxReboots-1) }, step.Settle},
	} {
		t.Run(name, func(t *testing.T) {
			r := at(plan.Verify, running)
			r.Updates[0].Needs, r.Updates[0].From = inventory.ActivateReboot, "1"
			rebooted(&r, 1)
			dev := step.Device{Running: "1"}
			c.change(&r, &dev)
			f := step.Facts{BootID: "boot-2", Waited: time.Hour, Maintenance: step.MaintenanceReady, Devices: map[string]step.Device{"nic": dev}}
			a := step.Next(r, f, step.DefaultLimits())
			require.Equal(t, c.verb, a.Verb, a.Message)
			if c.verb == step.Settle {
				require.NotNil(t, a.Failure)
				// Nobody knows whether the image is at fault where the second boot could not be tried.
				assert.Equal(t, name == "only the rollback's reboot was left", len(a.Failure.Blames) == 0, a.Failure.Message)
				return
			}
			assert.Contains(t, a.Message, "the device still runs 1; some take their image only at a second boot")
			r = step.Apply(r, a, f.BootID, time.Unix(0, 0))
			assert.Equal(t, plan.Reboot, r.Steps[r.Current()].Kind)
			assert.Equal(t, 1, r.Reboots())
			f.Devices["disk"] = step.Device{Running: "2"}
			require.Equal(t, step.Begin, step.Next(r, f, step.DefaultLimits()).Verb)
		})
	}
}

// rebooted makes the update's reboot one that was requested so often.
func rebooted(r *step.Record, times int32) {
	for i := range r.Steps {
		if r.Steps[i].Kind == plan.Reboot {
			r.Steps[i].State, r.Steps[i].Attempt = step.Succeeded, times
		}
	}
}
