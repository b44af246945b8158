package engine_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/enginetest"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// What fails after a request is not cleared by that very request, whatever it says (F4, I5).
func TestLaterFailureIsNotCleared(t *testing.T) {
	for name, asked := range map[string]plan.Clearance{
		"a text":                     "after reseating",
		"a time of a clock ahead":    "2099-01-01T00:00:00Z",
		"a time of a clock far back": "1999-01-01T00:00:00Z",
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, m *enginetest.Machine) {
				id := m.ReadBackNIC(inventory.ActivateNone)
				j := m.Bad(m.Job("j", id), "nic0")
				j.Retry = asked.InForce()
				requireRolledBack(t, m, m.Run(j), "j")
				for _, name := range []string{"again", "and-again"} {
					next := m.Bad(m.Job(name, id), "nic0")
					next.Retry = asked.InForce()
					requireFailed(t, m.Run(next), name, step.Quarantined, false)
				}
				assert.Equal(t, 2, m.Sim.Count(drivertest.OpWrite, "nic0"), "the image, and what ran before")
				next := m.Bad(m.Job("asked-again", id), "nic0")
				next.Retry = plan.Clearance("once more").InForce()
				requireRolledBack(t, m, m.Run(next), "asked-again")
			})
		})
	}
}
