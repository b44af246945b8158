package engine_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/enginetest"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

func requireRolledBack(t *testing.T, m *enginetest.Machine, view journal.View, name string) journal.Job {
	t.Helper()
	j := requireFailed(t, view, name, step.Unhealthy, false)
	require.True(t, j.Record.RolledBack(), "%+v", j.Record.Rollback)
	assert.Equal(t, inventory.Version("1.0"), m.Sim.Firmware("nic0").Running)
	assert.False(t, m.Sim.LinkDown("nic0"))
	assert.Equal(t, step.MaintenanceNone, m.Window.Phase, "the node is back in service")
	require.NotNil(t, view.Verdict)
	assert.Equal(t, journal.Healthy, view.Verdict.Result)
	assert.Equal(t, string(step.Unhealthy), view.Devices["nic0"].LastFailure.Reason)
	assert.Nil(t, view.Devices["nic0"].Unhealthy)
	return *view.Job(j.UID)
}

// An image that takes the link down is taken back by itself, once, and the image is at fault (R002-5, R002-9, R002-26).
func TestImageThatTakesTheLinkDownIsRolledBack(t *testing.T) {
	for _, activation := range []inventory.Activation{inventory.ActivateNone, inventory.ActivateDeviceReset, inventory.ActivateReboot} {
		t.Run(activation.String(), func(t *testing.T) {
			inBubble(t, func(t *testing.T, m *enginetest.Machine) {
				id := m.ReadBackNIC(activation)
				view := m.Run(m.Bad(m.Job("j", id), "nic0"))
				j := requireRolledBack(t, m, view, "j")
				assert.Equal(t, 2, m.Sim.Count(drivertest.OpWrite, "nic0"), "the image, and what ran before")
				assert.Equal(t, []string{"node-nic0"}, j.Record.Failure.Blames)
				assert.LessOrEqual(t, m.Sim.Count(drivertest.OpReboot, ""), 2)
				assert.Equal(t, 1, m.Window.Scheduled, "all of it in one maintenance")
				view = m.Run(m.Bad(m.Job("again", id), "nic0"))
				requireFailed(t, view, "again", step.Quarantined, false)
				assert.Equal(t, 2, m.Sim.Count(drivertest.OpWrite, "nic0"), "it is never written again by itself")
			})
		})
	}
}

// What runs is archived before the first byte is written, under the boot it ran in, and what was at fault is kept as
// evidence that is never restored (R002-8, R002-35, R002-49, R002-51).
func TestArchiveHoldsWhatRanBeforeAndTheEvidence(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.ReadBackNIC(inventory.ActivateReboot)
		m.Run(m.Bad(m.Job("j", id), "nic0"))
		entries, err := m.Archive.List()
		require.NoError(t, err)
		require.Len(t, entries, 2)
		img, good, err := m.Archive.Image("nic0", "1.0")
		require.NoError(t, err)
		assert.Equal(t, "boot-1", good.BootID)
		assert.Equal(t, "j", good.Job)
		assert.NoError(t, img.Verify())
		_, _, err = m.Archive.Image("nic0", "2.0")
		assert.Error(t, err, "evidence is not restored")
	})
}

// Killed between any two steps of update and rollback, the job comes to the same end (R002-24, R002-47, R003-48).
func TestKilledAnywhereInARollbackComesToTheSameEnd(t *testing.T) {
	for n := 1; ; n++ {
		over := false
		inBubble(t, func(t *testing.T, m *enginetest.Machine) {
			m.CrashAt = n
			id := m.ReadBackNIC(inventory.ActivateReboot)
			j := m.Bad(m.Job("j", id), "nic0")
			view := m.Run(j)
			if view.Job(j.UID) == nil {
				view = m.Run(j)
			}
			requireRolledBack(t, m, view, "j")
			assert.Equal(t, 2, m.Sim.Count(drivertest.OpWrite, "nic0"), "killed at %d", n)
			assert.Equal(t, 2, m.Sim.Count(drivertest.OpReboot, ""), "killed at %d", n)
			assert.Equal(t, 1, m.Window.Scheduled, "killed at %d", n)
			over = m.Points < n
		})
		if over || t.Failed() {
			assert.Greater(t, n, 50)
			return
		}
	}
}

// Only the card whose link went down is rolled back: the other devices keep what was verified on them.
func TestRollsBackOnlyFaultyDevice(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		disk, bios := m.Add(inventory.Disk, "disk0", inventory.ActivateNone), m.Add(inventory.BIOS, "bios", inventory.ActivateReboot)
		nic := m.ReadBackNIC(inventory.ActivateDeviceReset)
		view := m.Run(m.Bad(m.Job("j", disk, nic, bios), "nic0"))
		j := requireRolledBack(t, m, view, "j")
		assert.Equal(t, []string{"node-nic0"}, j.Record.Rollback.Devices)
		for _, uid := range []string{"disk0", "bios"} {
			assert.Equal(t, inventory.Version("2.0"), m.Sim.Firmware(uid).Running, uid)
			require.NotNil(t, view.Devices[uid].LastApplied, uid)
			assert.Nil(t, view.Devices[uid].LastFailure, uid)
		}
		assert.Nil(t, view.Devices["nic0"].LastApplied)
	})
}

// Devices with slots go back to the slot; nothing is read out of them.
func TestSlotIsTakenBack(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.AddWith(inventory.NIC, "nic0", inventory.Firmware{
			Activation: inventory.ActivateDeviceReset, Rollback: inventory.RollbackSlot,
			Slots: []inventory.Slot{{Number: 1, Version: "1.0", State: inventory.SlotActive}, {Number: 2, State: inventory.SlotIdle}},
		})
		requireRolledBack(t, m, m.Run(m.Bad(m.Job("j", id), "nic0")), "j")
		assert.Equal(t, 1, m.Sim.Count(drivertest.OpWrite, "nic0"))
		assert.Equal(t, 1, m.Sim.Count(drivertest.OpRevert, "nic0"))
	})
}

// Where the device can neither be read nor keeps a slot, an image of the running version from a source is used.
func TestImageOfTheRunningVersionIsWrittenBack(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.AddWith(inventory.NIC, "nic0", inventory.Firmware{Activation: inventory.ActivateReboot, Rollback: inventory.RollbackImage})
		j := m.Bad(m.Job("j", id), "nic0")
		old := drivertest.NewImage(t, id.BoardID, "1.0")
		m.Image[old.Digest] = old
		j.Updates[0].RollbackDigest = old.Digest.String()
		requireRolledBack(t, m, m.Run(j), "j")
		_, m1, err := m.Archive.Image("nic0", "1.0")
		require.NoError(t, err)
		assert.Equal(t, inventory.RollbackImage, m1.Rollback)
	})
}

// What the driver does not declare is never rolled back: the node waits for a person, nothing more is done to the device,
// and no new target is flashed to it, over reboots too (R002-1, R002-2, R002-27, R002-52, R002-53, R002-54, R002-56).
func TestWithoutAWayBackTheNodeWaitsForAPerson(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.Add(inventory.NIC, "nic0", inventory.ActivateReboot)
		view := m.Run(m.Bad(m.Job("j", id), "nic0"))
		j := requireFailed(t, view, "j", step.Unhealthy, true)
		assert.True(t, j.Record.NeedsIntervention())
		assert.Equal(t, step.RollbackUnavailable, j.Record.Rollback.Failure.Reason)
		assert.Equal(t, step.MaintenanceReady, m.Window.Phase)
		require.NotNil(t, view.Devices["nic0"].Unhealthy)
		operations := len(m.Sim.Operations())
		for range 3 {
			m.Boot++
			requireFailed(t, m.Run(), "j", step.Unhealthy, true)
		}
		requireFailed(t, m.Run(m.Job("other image", id)), "other image", step.DeviceUnhealthy, true)
		assert.Len(t, m.Sim.Operations(), operations, "nothing is done")

		m.Sim.SetFirmware("nic0", inventory.Firmware{Running: "1.0", Activation: inventory.ActivateReboot}) // a person repairs it
		view = m.Run(retried(m.Job("third", id)))
		requireComplete(t, m, view, "third")
		assert.Nil(t, view.Devices["nic0"].Unhealthy)
	})
}

// When what ran before does not make the host healthy either, everything stops (R002-28), and what a later job would bring
// back is still what ran before, not what is at fault (R002-55, R002-72).
func TestWhenTheOldFirmwareFailsTooEverythingStops(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.ReadBackNIC(inventory.ActivateReboot)
		m.OnBoot = func() { m.NodeReady = false }
		view := m.Run(m.Job("j", id))
		j := requireFailed(t, view, "j", step.Unhealthy, true)
		assert.Empty(t, j.Record.Failure.Blames, "it is as unhealthy with either")
		assert.Nil(t, view.Devices["nic0"].Unhealthy)
		assert.Equal(t, step.Unhealthy, j.Record.Rollback.Failure.Reason)
		assert.Equal(t, inventory.Version("1.0"), m.Sim.Firmware("nic0").Running)
		assert.Equal(t, 2, m.Sim.Count(drivertest.OpWrite, "nic0"))
		assert.LessOrEqual(t, m.Sim.Count(drivertest.OpReboot, ""), 3, "R002-25")
		again := requireFailed(t, m.Run(retried(m.Job("again", id))), "again", step.Unhealthy, true)
		assert.Equal(t, inventory.Version("1.0"), again.Record.Updates[0].From)
	})
}

// An archive that cannot be made keeps the device from being written, and the node in service (R002-6).
func TestNoWriteWithoutArchive(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.ReadBackNIC(inventory.ActivateDeviceReset)
		m.Sim.Inject("nic0", drivertest.FailArchive)
		requireFailed(t, m.Run(m.Job("j", id)), "j", step.ArchiveFailed, false)
		assert.Empty(t, m.Sim.Operations())
		assert.Zero(t, m.Window.Scheduled)
	})
}

// A device that cannot be read now: what an earlier job archived will do, nothing archived means no way back, and an archive
// that cannot be read means neither, so that nothing is written.
func TestUnreadableArchiveNotAbsent(t *testing.T) {
	unsupported := fmt.Errorf("it stores another image than it runs: %w", driver.ErrNotSupported)
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		m.NotNow = func() error { return unsupported }
		j := requireComplete(t, m, m.Run(m.Job("j", m.ReadBackNIC(inventory.ActivateDeviceReset))), "j")
		assert.Equal(t, inventory.RollbackNone, j.Record.Updates[0].Rollback)
	})
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.ReadBackNIC(inventory.ActivateDeviceReset)
		dir := filepath.Join(m.Dir, "archive")
		m.NotNow = func() error { // the disk fails meanwhile
			require.NoError(t, os.RemoveAll(dir))
			require.NoError(t, os.WriteFile(dir, nil, 0o600))
			return unsupported
		}
		requireFailed(t, m.Run(m.Job("j", id)), "j", step.ArchiveFailed, false)
		assert.Empty(t, m.Sim.Operations())
	})
}

func TestPolicyCanRequireAWayBack(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		j := m.Job("j", m.Add(inventory.NIC, "nic0", inventory.ActivateDeviceReset))
		j.Record.RollbackRequired = true
		got := requireFailed(t, m.Run(j), "j", step.RollbackUnavailable, false)
		assert.Contains(t, got.Record.Failure.Message, "policy requires")
		assert.Empty(t, m.Sim.Operations())
		assert.Zero(t, m.Window.Scheduled)
	})
}

// The attempts of an image are counted before each write and survive the death of the daemon (R002-15, R002-16).
func TestCountsAttemptBeforeWriting(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.Add(inventory.NIC, "nic0", inventory.ActivateDeviceReset)
		m.Sim.Inject("nic0", drivertest.HangWrite)
		m.BeforeCommit = func() { m.Stop() }
		view, over := m.Live(m.Job("j", id))
		assert.False(t, over)
		require.NotNil(t, view.Devices["nic0"].Attempts)
		assert.Equal(t, 1, view.Devices["nic0"].Attempts.Writes)
		flash := view.Active().CurrentStep()
		assert.Equal(t, plan.Flash, flash.Kind)
		assert.EqualValues(t, 1, flash.Attempt)
	})
}

// TestVerdictNamesItsBoot proves R002-31.
func TestVerdictNamesItsBoot(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		view := m.Run(m.Job("j", fleet(m)...))
		require.NotNil(t, view.Verdict)
		assert.Equal(t, "boot-2", view.Verdict.BootID)
		assert.Equal(t, journal.Healthy, view.Verdict.Result)
		assert.Equal(t, "j", view.Verdict.Job)
		assert.Nil(t, view.Devices["bios"].Attempts, "success clears the attempts (R002-26)")
	})
}

// Firmware at fault that cannot be read as evidence, and keeps whoever reads it waiting, is replaced all the same.
func TestEvidenceThatHangsDoesNotStandInTheWayOfTheRollback(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.ReadBackNIC(inventory.ActivateReboot)
		m.HangsRead = true
		requireRolledBack(t, m, m.Run(m.Bad(m.Job("j", id), "nic0")), "j")
	})
}

// A drive that dies while an adapter is updated says nothing about the adapter's image: nothing is restored, and nobody is blamed.
func TestForeignDriveDies(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.ReadBackNIC(inventory.ActivateReboot)
		m.Add(inventory.Disk, "disk0", inventory.ActivateNone)
		all := m.IDs
		m.OnBoot = func() { m.IDs = all[:1] }
		view := m.Run(m.Job("j", id))
		j := requireFailed(t, view, "j", step.Unhealthy, true)
		assert.Nil(t, j.Record.Rollback)
		assert.Empty(t, j.Record.Failure.Blames)
		assert.Contains(t, j.Record.Failure.Message, "This job changed nothing that explains it (it changed node-nic0)")
		assert.Equal(t, inventory.Version("2.0"), m.Sim.Firmware("nic0").Running)
		assert.Nil(t, view.Devices["nic0"].LastFailure)

		m.IDs = all // a person replaces the drive
		requireComplete(t, m, m.Run(retried(m.Job("again", id))), "again")
		assert.Equal(t, 1, m.Sim.Count(drivertest.OpWrite, "nic0"))
	})
}

// A link that no firmware brings up again acquits the new one, which a person may then try again.
func TestLinkDownBothWays(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.ReadBackNIC(inventory.ActivateReboot)
		m.LinkDown = true
		view := m.Run(m.Job("j", id))
		j := requireFailed(t, view, "j", step.Unhealthy, true)
		assert.Equal(t, []string{"node-nic0"}, j.Record.Rollback.Devices)
		assert.Empty(t, j.Record.Failure.Blames)
		assert.Contains(t, j.Record.Failure.Message, "The previous firmware runs again on node-nic0 and the node is as unhealthy with it, so no image is blamed")
		assert.Nil(t, view.Devices["nic0"].Unhealthy)
		require.NotNil(t, view.Devices["nic0"].LastFailure, "it is not tried again by itself")

		m.LinkDown = false // a person plugs the cable in
		requireComplete(t, m, m.Run(retried(m.Job("again", id))), "again")
	})
}

// What is wrong with a held node already is not the doing of the job that is to mend it.
func TestHeldNodeRemembersWhatIsWrong(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.ReadBackNIC(inventory.ActivateReboot)
		m.OnBoot = func() { m.NodeReady = false }
		requireFailed(t, m.Run(m.Job("j", id)), "j", step.Unhealthy, true)
		again := requireFailed(t, m.Run(retried(m.Job("again", id))), "again", step.Unhealthy, true)
		assert.Nil(t, again.Record.Rollback, "the node was not Ready before")
		assert.Empty(t, again.Record.Failure.Blames)
	})
}

// So it is where the job goes on with what was there before the one that holds the node.
func TestTakeoverKnowsWhatIsWrong(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		nic := m.ReadBackNIC(inventory.ActivateReboot)
		bios := m.AddWith(inventory.BIOS, "bios0", inventory.Firmware{Activation: inventory.ActivateReboot, Rollback: inventory.RollbackReadBack})
		m.Add(inventory.Disk, "disk0", inventory.ActivateNone)
		all := m.IDs
		m.OnBoot = func() { m.IDs = all[:2] }
		requireFailed(t, m.Run(m.Job("j", nic)), "j", step.Unhealthy, true)
		next := requireFailed(t, m.Run(m.Job("next", bios)), "next", step.Unhealthy, true)
		assert.Nil(t, next.Record.Rollback, "the drive was gone before")
		assert.Empty(t, next.Record.Failure.Blames)
		assert.Contains(t, next.Record.Failure.Message, "disk0", "it is still missed")
	})
}

// An array whose drive the job changes is the drive's; any other is not.
func TestArrayIsItsDrives(t *testing.T) {
	for of, blamed := range map[string]bool{"disk0": true, "disk1": false} {
		inBubble(t, func(t *testing.T, m *enginetest.Machine) {
			id := m.AddWith(inventory.Disk, "disk0", inventory.Firmware{Activation: inventory.ActivateReboot, Rollback: inventory.RollbackReadBack})
			md := &mirror{of: of, sick: func() bool { return m.Boot == 2 }}
			m.Uses, m.Arrays = md, md
			view := m.Run(m.Job("j", id))
			j := requireFailed(t, view, "j", step.Unhealthy, !blamed)
			assert.Equal(t, blamed, j.Record.RolledBack(), j.Record.Failure.Message)
		})
	}
}

// mirror is an array with one drive of the machine.
type mirror struct {
	of   string
	sick func() bool
}

func (m *mirror) array() inventory.Array { return inventory.Array{Name: "md0", Degraded: m.sick()} }

func (m *mirror) Arrays(context.Context) ([]inventory.Array, error) {
	return []inventory.Array{m.array()}, nil
}

func (m *mirror) Use(_ context.Context, id inventory.Identity) (inventory.Use, error) {
	if id.UniqueID != m.of {
		return inventory.Use{}, nil
	}
	return inventory.Use{Arrays: []inventory.Array{{Name: "md0"}}}, nil
}
