package engine_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/enginetest"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// The reboot of a job takes a journal in memory away, and with it the way back. No job begins there. One that wrote before goes on.
func TestVolatileRefusesJobs(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		m.Volatile = "the state directory /s is in memory (tmpfs)"
		view := m.Run(m.Job("j", m.Add(inventory.NIC, "nic0", inventory.ActivateReboot)))
		failure := requireFailed(t, view, "j", step.JobRejected, false).Record.Failure
		assert.Equal(t, m.Volatile, failure.Message)
		assert.Zero(t, m.Window.Scheduled)
		assert.Empty(t, m.Sim.Operations())
		assert.Nil(t, view.Devices["nic0"].LastFailure, "it is planned again by itself")

		m.Volatile = ""
		j := m.Job("begun", m.IDs...)
		m.OnBoot = func() { m.Volatile = "lost its disk" }
		requireComplete(t, m, m.Run(j), "begun")
	})
}
