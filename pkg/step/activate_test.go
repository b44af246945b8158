package step_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// Why a node reboots for a card that others of its kind do not need a reboot for is said in the job.
func TestSaysWhyActivationReboots(t *testing.T) {
	const why = "InUse: 0000:3b:00.0 has 8 virtual functions, which a reset would remove"
	f := ready
	nic := step.Device{Running: "1", Stored: "2", Activation: inventory.ActivateReboot, ActivationMessage: why}
	f.Devices = map[string]step.Device{"nic": nic, "disk": nic}
	a := next(needs(at(plan.Activate, nil), inventory.ActivateReboot), f)
	assert.Equal(t, step.Skipped, a.State)
	assert.Equal(t, "the reboot activates it, because "+why, a.Message)

	tried := func(message string) step.Action {
		r := at(plan.Activate, func(s *step.Step) {
			s.State, s.Attempt = step.Running, 1
			s.Returned = &step.Returned{Needs: inventory.ActivateReboot, Message: message}
		})
		return next(needs(r, inventory.ActivateDeviceReset), f)
	}
	assert.Equal(t, "the device needs a more disruptive activation: Reboot, because the tool said so", tried("the tool said so").Message)
	assert.Equal(t, "the device needs a more disruptive activation: Reboot, because "+why, tried("").Message)
	nic.ActivationMessage = ""
	f.Devices = map[string]step.Device{"nic": nic, "disk": nic}
	a = tried("")
	assert.Equal(t, "the device needs a more disruptive activation: Reboot", a.Message)
	assert.Equal(t, inventory.ActivateReboot, a.Needs)
}
