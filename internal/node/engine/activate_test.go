package engine_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/enginetest"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
)

// A card that is in use is not reset: the job reboots the node for it, which it had not planned to, and says why.
func TestRebootsForUnresettableCard(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		m.NoReset = &driver.NotEnoughError{Needs: inventory.ActivateReboot, Reason: "InUse: nic0 has 8 virtual functions"}
		done := requireComplete(t, m, m.Run(m.Job("j", m.ReadBackNIC(inventory.ActivateDeviceReset))), "j")
		assert.Contains(t, stepOf(done, plan.Activate, false).Message, "Reboot, because InUse: nic0 has 8 virtual functions")
		assert.Equal(t, 2, m.Boot)
	})
}
