package drivertest_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// A step goes on from what was kept, over any end of the process, and repeating its last call changes nothing
// (R003-6, R003-55).
func TestStepGoesOnFromWhatWasKept(t *testing.T) {
	sim := drivertest.NewSimulated("sim")
	id := inventory.Identity{Class: inventory.Disk, UniqueID: "disk0"}
	sim.Add(id, inventory.Firmware{Running: "1.0"})
	assert.Empty(t, sim.Steps(), "a driver without steps brings none (R003-41)")
	sim.Offer(drivertest.Step{Step: driver.Step{Name: "scrub", Changes: true}, Calls: 2, Reboot: true, Padding: 3})
	require.Equal(t, []driver.Step{{Name: "scrub", Changes: true}}, sim.Steps())

	first, err := sim.RunStep(t.Context(), driver.StepCall{Identity: id, Name: "scrub"})
	require.NoError(t, err)
	assert.True(t, first.Again)
	assert.False(t, first.Reboot)
	assert.Len(t, first.Data, 4)
	for range 2 {
		last, err := sim.RunStep(t.Context(), driver.StepCall{Identity: id, Name: "scrub", Data: first.Data})
		require.NoError(t, err)
		assert.False(t, last.Again)
		assert.True(t, last.Reboot)
		assert.Equal(t, "2 of 2 done", last.Message)
	}
	assert.Equal(t, 3, sim.Count(drivertest.OpStep, "disk0"))

	_, err = sim.RunStep(t.Context(), driver.StepCall{Identity: id, Name: "polish"})
	require.ErrorIs(t, err, driver.ErrNotSupported)
	sim.Offer(drivertest.Step{Step: driver.Step{Name: "scrub"}, Err: errors.New("the drive refused")})
	_, err = sim.RunStep(t.Context(), driver.StepCall{Identity: id, Name: "scrub"})
	require.ErrorContains(t, err, "the drive refused")
	assert.Len(t, sim.Steps(), 1)
}
