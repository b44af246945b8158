package engine_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/nodefirmware/node-firmware-operator/internal/node/engine"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/enginetest"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// A step that only reads is broken off, however long the driver would take.
// It proves R000-62, R000-65.
func TestCancelInterruptsRead(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.AddWith(inventory.NIC, "nic0", inventory.Firmware{
			Activation: inventory.ActivateDeviceReset, Rollback: inventory.RollbackReadBack,
		})
		m.SlowRead = func() { m.Engine.Cancel("uid-j", engine.Cancellation{Reason: "wrong night"}) }
		requireFailed(t, m.Run(m.Job("j", id)), "j", step.Cancelled, false)
		assert.Empty(t, m.Sim.Operations())
	})
}

// A plugin may be updated at any moment of a job: what the new one has not checked it does not write.
// It proves R003-30.
func TestPluginThatChangesWithinAJobRestartsIt(t *testing.T) {
	for name, when := range map[string]func(s step.Step) bool{
		"before the maintenance": func(s step.Step) bool { return s.Kind == plan.Maintenance && s.State == step.Running },
		"as the write begins":    func(s step.Step) bool { return s.Kind == plan.Flash && s.State == step.Running },
		"after the write":        func(s step.Step) bool { return s.Kind == plan.Flash && s.State == step.Succeeded },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, m *enginetest.Machine) {
				id := m.Add(inventory.NIC, "nic0", inventory.ActivateDeviceReset)
				changed := false
				m.OnSnapshot = func(s engine.Snapshot) {
					for _, one := range s.Job.Record.Steps {
						if !changed && when(one) {
							changed = true
							m.Sim.SetVersion("2")
						}
					}
				}
				view := m.Run(m.Job("j", id))
				j := view.Job("uid-j")
				assert.Equal(t, step.Complete, j.Record.Outcome, "%+v", j.Record.Failure)
				assert.EqualValues(t, 1, j.Record.Restarts)
				for _, u := range j.Record.Updates {
					assert.Equal(t, "2", u.DriverVersion, "the new one has checked the image")
				}
				assert.Equal(t, 1, m.Sim.Count(drivertest.OpWrite, "nic0"))
				assert.Equal(t, inventory.Version("2.0"), m.Sim.Firmware("nic0").Running)
			})
		})
	}
}

// A driver chosen by what the device says of itself has not read the device, nor said what its update needs.
func TestDriverThatDidNotReadTheDeviceDoesNotWriteIt(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.Add(inventory.NIC, "nic0", inventory.ActivateDeviceReset)
		m.Reader = "other"
		requireFailed(t, m.Run(m.Job("j", id)), "j", step.NotUpdatable, false)
		assert.Zero(t, m.Sim.Count(drivertest.OpWrite, "nic0"))
	})
}

// What reaches a device may change while a job runs, for example when an administrator locks the kernel down: the driver that takes
// over writes only what it has checked.
func TestDriverThatTakesOverChecksTheImageItself(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.Add(inventory.NIC, "nic0", inventory.ActivateDeviceReset)
		m.OnSnapshot = func(s engine.Snapshot) {
			for _, one := range s.Job.Record.Steps {
				m.Second = m.Second || one.Kind == plan.Flash && one.State == step.Running
			}
		}
		j := m.Run(m.Job("j", id)).Job("uid-j")
		assert.Equal(t, step.Complete, j.Record.Outcome, "%+v", j.Record.Failure)
		assert.EqualValues(t, 1, j.Record.Restarts)
		assert.Equal(t, "second", j.Record.Updates[0].Driver)
		assert.Equal(t, 1, m.Sim.Count(drivertest.OpWrite, "nic0"))
	})
}
