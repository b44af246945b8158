package drivertest_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// withRollback is a simulated device that runs 1.0.0, activates at a boot and supports the given kind of rollback.
func withRollback(kind inventory.Rollback) (*drivertest.Simulated, inventory.Identity) {
	return simulatedWith(inventory.Firmware{Activation: inventory.ActivateReboot, Rollback: kind})
}

func write(t *testing.T, sim *drivertest.Simulated, id inventory.Identity, img driver.Image) {
	t.Helper()
	require.NoError(t, sim.Check(t.Context(), id, img))
	_, err := sim.Write(t.Context(), id, img, nil)
	require.NoError(t, err)
}

func TestAFirmwareThatKillsTheLinksDoesSoWhileItRuns(t *testing.T) {
	sim, id := withRollback(inventory.RollbackReadBack)
	write(t, sim, id, drivertest.NewBadImage(t, board, "2.0.0", drivertest.DefectLinkDown))
	assert.False(t, sim.LinkDown(card), "it is only stored")
	sim.Reboot()
	assert.True(t, sim.LinkDown(card))
	sim.Reboot()
	assert.True(t, sim.LinkDown(card), "another boot of the same firmware changes nothing")
	write(t, sim, id, drivertest.NewImage(t, board, "1.0.0"))
	assert.True(t, sim.LinkDown(card))
	sim.Reboot()
	assert.False(t, sim.LinkDown(card))
	assert.Equal(t, inventory.Version("1.0.0"), sim.Firmware(card).Running)
}

func TestAFirmwareThatBricksItsDeviceLeavesNothingToAskOrWrite(t *testing.T) {
	sim, id := withRollback(inventory.RollbackReadBack)
	write(t, sim, id, drivertest.NewBadImage(t, board, "2.0.0", drivertest.DefectUnreadable))
	sim.Reboot()
	good := drivertest.NewImage(t, board, "1.0.0")
	_, _, err := sim.Inspect(t.Context(), id)
	require.ErrorContains(t, err, "does not answer")
	require.ErrorContains(t, sim.Check(t.Context(), id, good), "does not answer")
	_, err = sim.Write(t.Context(), id, good, nil)
	require.ErrorContains(t, err, "does not answer")
	require.ErrorContains(t, sim.Archive(t.Context(), id, filepath.Join(t.TempDir(), "image")), "does not answer")
	assert.Equal(t, 1, sim.Count(drivertest.OpWrite, card))
	assert.Equal(t, inventory.Version("2.0.0"), sim.Firmware(card).Running)
}

func TestWhatIsArchivedIsWhatRuns(t *testing.T) {
	sim, id := withRollback(inventory.RollbackReadBack)
	write(t, sim, id, drivertest.NewBadImage(t, board, "2.0.0", drivertest.DefectLinkDown))
	before, after := filepath.Join(t.TempDir(), "image"), filepath.Join(t.TempDir(), "image")
	require.NoError(t, sim.Archive(t.Context(), id, before))
	sim.Reboot()
	require.NoError(t, sim.Archive(t.Context(), id, after))
	require.ErrorIs(t, sim.Archive(t.Context(), id, after), os.ErrExist, "what was archived is not replaced")
	assert.Equal(t, 3, sim.Archives(card))

	content, err := os.ReadFile(before)
	require.NoError(t, err)
	assert.Equal(t, drivertest.ImageBytes(board, "1.0.0"), content)
	want := drivertest.NewBadImage(t, board, "2.0.0", drivertest.DefectLinkDown)
	want.Path = after
	assert.NoError(t, want.Verify(), "the defect is archived with the firmware")
}

func TestFailedArchiveLeavesNoFile(t *testing.T) {
	for name, fault := range map[string]drivertest.Fault{"failed": drivertest.FailArchive, "silent": drivertest.Unreadable} {
		t.Run(name, func(t *testing.T) {
			sim, id := withRollback(inventory.RollbackReadBack)
			sim.Inject(card, fault)
			path := filepath.Join(t.TempDir(), "image")
			require.ErrorAs(t, sim.Archive(t.Context(), id, path), new(*command.Error))
			assert.NoFileExists(t, path)
			assert.Empty(t, sim.Operations())
		})
	}
}

// TestASlotKeepsWhatRanBefore proves R002-2.
func TestASlotKeepsWhatRanBefore(t *testing.T) {
	sim, id := withRollback(inventory.RollbackSlot)
	write(t, sim, id, drivertest.NewBadImage(t, board, "2.0.0", drivertest.DefectLinkDown))
	sim.Reboot()
	require.True(t, sim.LinkDown(card))
	assert.Equal(t, []inventory.Slot{
		{Number: 1, Version: "1.0.0", State: inventory.SlotIdle}, {Number: 2, Version: "2.0.0", State: inventory.SlotActive},
	}, sim.Firmware(card).Slots)

	sim.Inject(card, drivertest.FailRevert)
	_, err := sim.Revert(t.Context(), id, "1.0.0")
	require.ErrorAs(t, err, new(*command.Error))
	assert.False(t, sim.Firmware(card).Pending())
	sim.Clear(card)
	for range 2 {
		need, err := sim.Revert(t.Context(), id, "1.0.0")
		require.NoError(t, err)
		assert.Equal(t, inventory.ActivateReboot, need)
	}
	assert.Equal(t, 2, sim.Count(drivertest.OpRevert, card), "the second time the device held it already")
	sim.Reboot()
	assert.False(t, sim.LinkDown(card))
	assert.Equal(t, inventory.Version("1.0.0"), sim.Firmware(card).Running)
	assert.Equal(t, []inventory.Slot{
		{Number: 1, Version: "1.0.0", State: inventory.SlotActive}, {Number: 2, Version: "2.0.0", State: inventory.SlotIdle},
	}, sim.Firmware(card).Slots)
}

func TestAHungRevertOutlivesItsContextAndEndsOnRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim, id := withRollback(inventory.RollbackSlot)
		write(t, sim, id, drivertest.NewImage(t, board, "2.0.0"))
		sim.Reboot()
		sim.Inject(card, drivertest.HangWrite)
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error)
		go func() {
			_, err := sim.Revert(ctx, id, "1.0.0")
			failed <- err
		}()
		synctest.Wait()
		cancel()
		require.ErrorIs(t, <-failed, command.ErrStillRunning)
		_, err := sim.Revert(t.Context(), id, "1.0.0")
		require.ErrorIs(t, err, command.ErrBusy)
		assert.False(t, sim.Firmware(card).Pending())
		sim.Release(card)
		synctest.Wait()
		assert.Equal(t, inventory.Version("1.0.0"), sim.Firmware(card).Stored)
		assert.Equal(t, 1, sim.Count(drivertest.OpRevert, card))
	})
}

func TestRevertTakesBackStaged(t *testing.T) {
	sim, id := withRollback(inventory.RollbackSlot)
	write(t, sim, id, drivertest.NewImage(t, board, "2.0.0"))
	need, err := sim.Revert(t.Context(), id, "1.0.0")
	require.NoError(t, err)
	assert.Equal(t, inventory.ActivateNone, need)
	sim.Reboot()
	assert.Equal(t, inventory.Version("1.0.0"), sim.Firmware(card).Running)
}

// TestOnlyDeclaredRollbackWorks proves R002-2.
func TestOnlyDeclaredRollbackWorks(t *testing.T) {
	for _, kind := range []inventory.Rollback{
		inventory.RollbackNone, inventory.RollbackReadBack, inventory.RollbackSlot, inventory.RollbackImage,
	} {
		t.Run(kind.String(), func(t *testing.T) {
			sim, id := withRollback(kind)
			assert.Equal(t, kind, sim.Firmware(card).Rollback)
			path := filepath.Join(t.TempDir(), "image")
			if err := sim.Archive(t.Context(), id, path); kind != inventory.RollbackReadBack {
				require.ErrorIs(t, err, driver.ErrNotSupported)
				assert.NoFileExists(t, path)
			}
			_, err := sim.Revert(t.Context(), id, "1.0.0")
			if kind != inventory.RollbackSlot {
				require.ErrorIs(t, err, driver.ErrNotSupported)
			}
			_, err = sim.Revert(t.Context(), id, "0.9.0")
			require.ErrorIs(t, err, driver.ErrNotSupported, "no slot holds it")
			assert.Empty(t, sim.Operations())
		})
	}
}
