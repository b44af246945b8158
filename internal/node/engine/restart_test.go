package engine_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/enginetest"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// Firmware at fault does not hide behind a driver that changed between the reboot and the read-back: the check that begins
// anew finds no other hardware and no other plan, but what this job wrote.
// It proves R003-30.
func TestDriverThatChangesAfterTheRebootDoesNotHideWhoIsAtFault(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(m *enginetest.Machine)
	}{
		"the device says it runs something else": {func(m *enginetest.Machine) {
			fw := m.Sim.Firmware("nic0")
			fw.Running, fw.Stored = "2.0.1", "2.0.1"
			m.Sim.SetFirmware("nic0", fw)
		}},
		"the device is gone": {func(m *enginetest.Machine) { m.IDs = nil }},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, m *enginetest.Machine) {
				id := m.ReadBackNIC(inventory.ActivateReboot)
				m.OnBoot = func() {
					m.Sim.SetVersion("after the upgrade")
					c.spoil(m)
				}
				j := m.Job("j", id)
				got := m.Run(j).Job(j.UID)
				require.NotNil(t, got.Record.Failure)
				assert.EqualValues(t, 1, got.Record.Restarts)
				assert.Equal(t, []string{"node-nic0"}, got.Record.Failure.Blames, got.Record.Failure.Message)
			})
		})
	}
}
