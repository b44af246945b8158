package drivertest_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

const (
	card  = "card-1"
	board = "MT_0000000359"
)

func simulated(kind inventory.Activation) (*drivertest.Simulated, inventory.Identity) {
	return simulatedWith(inventory.Firmware{Activation: kind})
}

// simulatedWith is a driver with one device that runs 1.0.0 and is otherwise as given.
func simulatedWith(fw inventory.Firmware) (*drivertest.Simulated, inventory.Identity) {
	sim := drivertest.NewSimulated("simulated")
	id := inventory.Identity{Class: inventory.NIC, UniqueID: card, BoardID: board}
	fw.Running, fw.Format = "1.0.0", inventory.FormatDotted
	sim.Add(id, fw)
	return sim, id
}

func TestAHungWriteOutlivesItsContextAndEndsOnRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim, id := simulated(inventory.ActivateReboot)
		sim.Inject(card, drivertest.HangWrite)
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error)
		go func() {
			_, err := sim.Write(ctx, id, drivertest.NewImage(t, board, "2.0.0"), nil)
			failed <- err
		}()
		synctest.Wait()
		cancel()
		require.ErrorIs(t, <-failed, command.ErrStillRunning)
		require.True(t, sim.Busy(card))
		_, err := sim.Write(t.Context(), id, drivertest.NewImage(t, board, "2.0.0"), nil)
		require.ErrorIs(t, err, command.ErrBusy)
		assert.Equal(t, inventory.Version("1.0.0"), sim.Firmware(card).Stored)

		sim.Release(card)
		synctest.Wait()
		assert.False(t, sim.Busy(card))
		assert.Equal(t, inventory.Version("2.0.0"), sim.Firmware(card).Stored)
		assert.Equal(t, 1, sim.Count(drivertest.OpWrite, card))
	})
}

func TestADeviceThatRefusesItsImageAtBootSaysSo(t *testing.T) {
	sim, id := simulated(inventory.ActivateReboot)
	sim.Inject(card, drivertest.RefuseBoot)
	_, err := sim.Write(t.Context(), id, drivertest.NewImage(t, board, "2.0.0"), nil)
	require.NoError(t, err)
	sim.Reboot()
	fw := sim.Firmware(card)
	assert.Equal(t, inventory.Version("1.0.0"), fw.Running)
	assert.False(t, fw.Pending())
	assert.Contains(t, fw.LastAttempt, "2.0.0")
}

func TestOnlyAPowerCycleActivatesADeviceThatNeedsOne(t *testing.T) {
	sim, id := simulated(inventory.ActivatePowerCycle)
	need, err := sim.Write(t.Context(), id, drivertest.NewImage(t, board, "2.0.0"), nil)
	require.NoError(t, err)
	assert.Equal(t, inventory.ActivatePowerCycle, need)
	sim.Reboot()
	assert.Equal(t, inventory.Version("1.0.0"), sim.Firmware(card).Running)
	sim.PowerCycle()
	assert.Equal(t, inventory.Version("2.0.0"), sim.Firmware(card).Running)
}

func TestSimulatedKnowsOnlyItsOwn(t *testing.T) {
	sim, id := simulated(inventory.ActivateReboot)
	assert.Equal(t, driver.SupportVendor, sim.Support(id))
	assert.Equal(t, driver.SupportNone, sim.Support(inventory.Identity{UniqueID: "other"}))
	sim.Remove(card)
	_, _, err := sim.Inspect(t.Context(), id)
	require.ErrorContains(t, err, "not there")
}
