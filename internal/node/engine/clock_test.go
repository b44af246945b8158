package engine_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/enginetest"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// The clock of a node may lag behind that of whoever asks: what fails after a request is not cleared by that very request
// (F4, I5).
func TestRequestClearsNothingThatFailsAfterIt(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.ReadBackNIC(inventory.ActivateNone)
		asked := time.Now().Add(24 * time.Hour)
		j := m.Bad(m.Job("j", id), "nic0")
		j.RetryRequested = asked
		requireRolledBack(t, m, m.Run(j), "j")
		for _, name := range []string{"again", "and-again"} {
			next := m.Bad(m.Job(name, id), "nic0")
			next.RetryRequested = asked
			requireFailed(t, m.Run(next), name, step.Quarantined, false)
		}
		assert.Equal(t, 2, m.Sim.Count(drivertest.OpWrite, "nic0"), "the image, and what ran before")
	})
}

// The API stores times in whole seconds, and a request clears what failed in its second. What fails in the job that
// followed the request in the same second is later all the same.
func TestFailureInTheSecondOfARequestIsLaterThanTheRequest(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.Add(inventory.NIC, "nic0", inventory.ActivateDeviceReset)
		asked := time.Now()
		time.Sleep(300 * time.Millisecond) // sleeps: under the synctest of inBubble
		m.Sim.Inject("nic0", drivertest.WrongBoard)
		first := m.Job("first", id)
		first.RetryRequested = asked
		requireFailed(t, m.Run(first), "first", step.ImageRejected, false)
		m.Sim.Clear("nic0")
		second := m.Job("second", id)
		second.RetryRequested = asked
		requireFailed(t, m.Run(second), "second", step.Quarantined, false)
	})
}
