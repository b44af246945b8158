package engine_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/node/engine"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/enginetest"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

var errNoSystemd = errors.New("there is no systemd here")

func TestAHostThatDoesNotProtectWritesRefusesThemWhereThePolicySaysSo(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		m.Protection = func() error { return errNoSystemd }
		id := m.Add(inventory.NIC, "nic0", inventory.ActivateReboot)
		j := m.Job("j", id)
		j.ProtectionRequired = true
		view := m.Run(j)
		failed := requireFailed(t, view, "j", step.WriteUnprotected, false)
		for _, says := range []string{"node-nic0", "nothing was changed", "requires WriteProtection", "no systemd here"} {
			assert.Contains(t, failed.Record.Failure.Message, says)
		}
		assert.Empty(t, m.Sim.Operations())
		assert.Zero(t, m.Window.Scheduled, "the node was not drained for it")
		assert.Nil(t, view.Devices["nic0"].LastFailure, "the image is not at fault")

		again := m.Job("again", id)
		requireComplete(t, m, m.Run(again), "again")
	})
}

func TestWritesOnProtectingHost(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		asked := 0
		m.Protection = func() error { asked++; return nil }
		j := m.Job("j", m.Add(inventory.NIC, "nic0", inventory.ActivateReboot))
		j.ProtectionRequired = true
		requireComplete(t, m, m.Run(j), "j")
		assert.GreaterOrEqual(t, asked, 2, "before the maintenance and at the write")
	})
}

func TestProtectionIsNotAskedForWhereNothingIsToBeDone(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		m.Protection = func() error { return errNoSystemd }
		j := m.Job("j", m.Add(inventory.NIC, "nic0", inventory.ActivateReboot))
		m.Sim.SetFirmware("nic0", inventory.Firmware{Running: "2.0", Stored: "2.0", Activation: inventory.ActivateReboot})
		j.ProtectionRequired = true
		require.Equal(t, step.Complete, m.Run(j).Job("uid-j").Record.Outcome)
	})
}

// A host may stop protecting writes after the preflight.
func TestAWriteThatIsNoLongerProtectedDoesNotBegin(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		asked := 0
		m.Protection = func() error {
			if asked++; asked > 1 {
				return errNoSystemd
			}
			return nil
		}
		j := m.Job("j", m.Add(inventory.NIC, "nic0", inventory.ActivateReboot))
		j.ProtectionRequired = true
		view := m.Run(j)
		requireFailed(t, view, "j", step.WriteUnprotected, true) // as after every failure of a step that writes
		assert.Zero(t, m.Sim.Count(drivertest.OpWrite, "nic0"))
		assert.Equal(t, inventory.Version("1.0"), m.Sim.Firmware("nic0").Running)
		assert.Nil(t, view.Devices["nic0"].Unhealthy)
	})
}

// What was found to be bad is worse than a write that a person could end.
func TestARollbackIsNotRefusedForLackOfProtection(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.ReadBackNIC(inventory.ActivateReboot)
		j := to(m, "j", id, "2.0", drivertest.DefectLinkDown)
		j.ProtectionRequired = true
		m.Protection = func() error {
			if m.Sim.Count(drivertest.OpWrite, id.UniqueID) > 0 {
				return errNoSystemd
			}
			return nil
		}
		requireRolledBack(t, m, m.Run(j), "j")
	})
}

var _ engine.Protector = (*enginetest.Machine)(nil)
