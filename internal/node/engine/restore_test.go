package engine_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/node/archive"
	"github.com/nodefirmware/node-firmware-operator/internal/node/engine"
	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/enginetest"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// restore makes a job that brings a device back to the newest entry of the version, in place of what version 2.0 was desired.
func restore(m *enginetest.Machine, name string, id inventory.Identity, version string) journal.Job {
	j := journal.Job{Name: name, UID: "uid-" + name, Accepted: time.Now(), Deadline: time.Now().Add(time.Hour)}
	for _, e := range entries(m) {
		if e.Manifest.UniqueID == id.UniqueID && string(e.Manifest.Version) == version && !e.Unhealthy && j.Updates == nil {
			j.Updates = []journal.Update{{
				Class: id.Class, Device: "node-" + id.UniqueID, UniqueID: id.UniqueID, Version: version, Digest: e.Manifest.Digest,
				AllowDowngrade: true, Archived: e.Name, Desired: &journal.Desired{Version: "2.0", Digest: desiredDigest(m, id)},
			}}
		}
	}
	require.NotNil(m.T, j.Updates, "%s is not archived", version)
	j.Record = engine.NewRecord(plan.Catalog{}, j.Updates)
	return j
}

func desiredDigest(m *enginetest.Machine, id inventory.Identity) string {
	return drivertest.NewImage(m.T, id.BoardID, "2.0").Digest.String()
}

func entries(m *enginetest.Machine) []archive.Entry {
	all, err := m.Archive.List()
	require.NoError(m.T, err)
	return all
}

// TestRestoreGoesBackOnce proves R002-11: one write back, and no update again until a person asks for it.
func TestRestoreGoesBackOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.ReadBackNIC(inventory.ActivateReboot)
		requireComplete(t, m, m.Run(m.Job("update", id)), "update")
		view := m.Run(restore(m, "restore", id, "1.0"))
		require.Equal(t, step.Complete, view.Job("uid-restore").Record.Outcome, "%+v", view.Job("uid-restore").Record.Failure)
		assert.Equal(t, inventory.Version("1.0"), m.Sim.Firmware("nic0").Running)
		assert.Equal(t, 2, m.Sim.Count(drivertest.OpWrite, "nic0"))
		assert.Equal(t, step.MaintenanceNone, m.Window.Phase)
		assert.Equal(t, 2, m.Window.Released, "it drains as an update does")
		known := view.Devices["nic0"]
		assert.Equal(t, "1.0", known.LastApplied.Version)
		require.NotNil(t, known.LastFailure)
		assert.Equal(t, "Restored", known.LastFailure.Reason)
		assert.Equal(t, desiredDigest(m, id), known.LastFailure.Digest)

		again := requireFailed(t, m.Run(m.Job("again", id)), "again", step.JobRejected, false)
		assert.Contains(t, again.Record.Failure.Message, "a person restored other firmware in its place in job restore")
		assert.Equal(t, known, m.Run().Devices["nic0"], "it counts nowhere")
		requireComplete(t, m, m.Run(retried(m.Job("asked", id))), "asked")
	})
}

// So it is where no image of the desired version was known.
func TestRestoreGoesBackOnceWithoutAnImage(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.ReadBackNIC(inventory.ActivateDeviceReset)
		requireComplete(t, m, m.Run(m.Job("update", id)), "update")
		j := restore(m, "restore", id, "1.0")
		j.Updates[0].Desired.Digest = ""
		known := m.Run(j).Devices["nic0"]
		require.NotNil(t, known.LastFailure)
		assert.Equal(t, "Restored", known.LastFailure.Reason)
		assert.Equal(t, "2.0", known.LastFailure.Version)
		requireFailed(t, m.Run(m.Job("again", id)), "again", step.JobRejected, false)
		other := to(m, "other", id, "3.0")
		other.Retry = nil
		require.Equal(t, step.Complete, m.Run(other).Job("uid-other").Record.Outcome, "another version is desired")
	})
}

// A restore that is cancelled while it holds the node leaves the same mark.
func TestHeldRestoreKeepsAVersionWithoutImageAway(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.ReadBackNIC(inventory.ActivateDeviceReset)
		requireComplete(t, m, m.Run(m.Job("update", id)), "update")
		cancelAt(m, plan.Verify, "restore")
		j := restore(m, "restore", id, "1.0")
		j.Updates[0].Desired.Digest = ""
		view := m.Run(j)
		requireFailed(t, view, "restore", step.Cancelled, true)
		require.NotNil(t, view.Devices["nic0"].LastFailure)
		assert.Equal(t, "Restored", view.Devices["nic0"].LastFailure.Reason, "any other reason would be about an image")
	})
}

// What a person restored stays though something that it does not explain holds the node: nothing is flashed over it unasked.
func TestRestoreStaysWhereSomethingElseHoldsTheNode(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.ReadBackNIC(inventory.ActivateReboot)
		m.Add(inventory.Disk, "disk0", inventory.ActivateNone)
		requireComplete(t, m, m.Run(m.Job("update", id)), "update")
		all := m.IDs
		m.OnBoot = func() { m.IDs = all[:1] }
		view := m.Run(restore(m, "restore", id, "1.0"))
		requireFailed(t, view, "restore", step.Unhealthy, true)
		assert.Equal(t, inventory.Version("1.0"), m.Sim.Firmware("nic0").Running)
		require.NotNil(t, view.Devices["nic0"].LastFailure)
		assert.Equal(t, "Restored", view.Devices["nic0"].LastFailure.Reason)
		assert.Equal(t, desiredDigest(m, id), view.Devices["nic0"].LastFailure.Digest)
	})
}

// The archive keeps two images of a device. The one that is being restored is not displaced by what runs.
func TestRestoredImageIsNotPrunedByItsOwnJob(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.ReadBackNIC(inventory.ActivateDeviceReset)
		for _, v := range []string{"2.0", "3.0"} {
			require.Equal(t, step.Complete, m.Run(to(m, "to-"+v, id, v)).Job("uid-to-"+v).Record.Outcome)
		}
		view := m.Run(restore(m, "restore", id, "1.0"))
		require.Equal(t, step.Complete, view.Job("uid-restore").Record.Outcome, "%+v", view.Job("uid-restore").Record.Failure)
		assert.Equal(t, inventory.Version("1.0"), m.Sim.Firmware("nic0").Running)
	})
}

// A restore is the way out of a job that holds the node: it takes the node over, and returns it once it is healthy again.
func TestRestoreEndsAHold(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.ReadBackNIC(inventory.ActivateDeviceReset)
		cancelAt(m, plan.Verify, "update")
		requireFailed(t, m.Run(m.Job("update", id)), "update", step.Cancelled, true)
		require.Equal(t, inventory.Version("2.0"), m.Sim.Firmware("nic0").Running)

		view := m.Run(restore(m, "restore", id, "1.0"))
		require.Equal(t, step.Complete, view.Job("uid-restore").Record.Outcome, "%+v", view.Job("uid-restore").Record.Failure)
		assert.Equal(t, "restore", view.Job("uid-update").SupersededBy)
		assert.Nil(t, view.Held())
		assert.Equal(t, inventory.Version("1.0"), m.Sim.Firmware("nic0").Running)
		assert.Equal(t, step.MaintenanceNone, m.Window.Phase)
		assert.Equal(t, "Restored", view.Devices["nic0"].LastFailure.Reason)
		assert.Empty(t, view.Devices["nic0"].LastGood)
	})
}

// A device that a job left unhealthy, and whose rollback did not help, is what a restore is for.
func TestRestoreClearsWhatAJobLeftUnhealthy(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.ReadBackNIC(inventory.ActivateDeviceReset)
		m.LinkDown = false
		j := m.Bad(m.Job("update", id), "nic0")
		writes := 0
		m.AtWrite = func(driver.Image) {
			if writes++; writes > 1 {
				m.Sim.Inject("nic0", drivertest.FailWrite)
			}
		}
		requireFailed(t, m.Run(j), "update", step.Unhealthy, true)
		m.AtWrite = nil
		m.Sim.Clear("nic0")
		require.NotNil(t, m.Run().Devices["nic0"].Unhealthy)

		view := m.Run(restore(m, "restore", id, "1.0"))
		require.Equal(t, step.Complete, view.Job("uid-restore").Record.Outcome, "%+v", view.Job("uid-restore").Record.Failure)
		assert.Nil(t, view.Devices["nic0"].Unhealthy)
		assert.Nil(t, view.Held())
		assert.False(t, m.Sim.LinkDown("nic0"))
	})
}

// What is restored is judged as an update is: where it makes the node unhealthy, what ran before runs again.
func TestUnhealthyRestoreIsRolledBack(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.ReadBackNIC(inventory.ActivateDeviceReset)
		bad := drivertest.NewBadImage(t, id.BoardID, "0.9", drivertest.DefectLinkDown)
		require.NoError(t, m.Archive.Keep(t.Context(), archive.Manifest{
			UniqueID: "nic0", Class: inventory.NIC, BoardID: id.BoardID, Version: "0.9", BootID: "old", Rollback: inventory.RollbackReadBack,
		}, copyOf(bad.Path)))
		view := m.Run(restore(m, "restore", id, "0.9"))
		requireFailed(t, view, "restore", step.Unhealthy, false)
		assert.Equal(t, inventory.Version("1.0"), m.Sim.Firmware("nic0").Running)
		assert.Equal(t, step.MaintenanceNone, m.Window.Phase)
		if f := view.Devices["nic0"].LastFailure; f != nil {
			assert.Equal(t, desiredDigest(m, id), f.Digest, "what failed is no image of a source")
		}
	})
}

// The image of another board, of other hardware, and one that is damaged are refused before the node is disturbed.
func TestRestoreRefusesWhatIsNotOfTheDevice(t *testing.T) {
	for name, spoil := range map[string]func(*journal.Update){
		"gone":          func(u *journal.Update) { u.Archived = "nic0/9_9" },
		"another image": func(u *journal.Update) { u.Digest = "sha256:" + fmt.Sprintf("%064d", 1) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, m *enginetest.Machine) {
				id := m.ReadBackNIC(inventory.ActivateDeviceReset)
				requireComplete(t, m, m.Run(m.Job("update", id)), "update")
				j := restore(m, "restore", id, "1.0")
				spoil(&j.Updates[0])
				view := m.Run(j)
				requireFailed(t, view, "restore", step.ImageRejected, false)
				assert.Nil(t, view.Devices["nic0"].LastFailure, "the desired image did not fail")
				assert.Equal(t, 1, m.Sim.Count(drivertest.OpWrite, "nic0"))
				assert.Equal(t, 1, m.Window.Scheduled)
			})
		})
	}
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.ReadBackNIC(inventory.ActivateDeviceReset)
		img := drivertest.NewImage(t, id.BoardID, "0.9")
		require.NoError(t, m.Archive.Keep(t.Context(), archive.Manifest{
			UniqueID: "nic0", Class: inventory.NIC, BoardID: "another", Version: "0.9", BootID: "old", Rollback: inventory.RollbackReadBack,
		}, copyOf(img.Path)))
		j := requireFailed(t, m.Run(restore(m, "restore", id, "0.9")), "restore", step.ImageRejected, false)
		assert.Contains(t, j.Record.Failure.Message, `board "another"`)
	})
}

// copyOf fills an entry of the archive with the file.
func copyOf(from string) func(context.Context, string) error {
	return func(_ context.Context, to string) error {
		raw, err := os.ReadFile(from)
		return errors.Join(err, os.WriteFile(to, raw, 0o600))
	}
}

// A restore ends the same wherever the power is cut, on a node that a failed job holds.
func TestRestoreSurvivesPowerCutsAnywhere(t *testing.T) {
	points := 0
	run := func(t *testing.T, at int) {
		inBubble(t, func(t *testing.T, m *enginetest.Machine) {
			id := m.ReadBackNIC(inventory.ActivateReboot)
			cancelAt(m, plan.Verify, "update")
			requireFailed(t, m.Run(m.Job("update", id)), "update", step.Cancelled, true)
			from := m.Points
			if at > 0 {
				m.CrashAt = from + at
			}
			j := restore(m, "restore", id, "1.0")
			view := m.Run(j)
			if view.Job(j.UID) == nil {
				view = m.Run(j)
			}
			require.Equal(t, step.Complete, view.Job("uid-restore").Record.Outcome, "at %d: %+v", at, view.Job("uid-restore").Record.Failure)
			assert.Equal(t, inventory.Version("1.0"), m.Sim.Firmware("nic0").Running)
			assert.Equal(t, 1, m.Window.Released)
			assert.Equal(t, "Restored", view.Devices["nic0"].LastFailure.Reason)
			assert.Nil(t, view.Held())
			points = m.Points - from
		})
	}
	run(t, 0)
	require.Greater(t, points, 10)
	for at, end := 1, points; at <= end; at++ {
		run(t, at)
	}
}

// backup makes a job that backs the devices up.
func backup(name string, ids ...inventory.Identity) journal.Job {
	j := journal.Job{Name: name, UID: "uid-" + name, Accepted: time.Now(), Deadline: time.Now().Add(time.Hour), Backup: true}
	for _, id := range ids {
		j.Updates = append(j.Updates, journal.Update{Class: id.Class, Device: "node-" + id.UniqueID, UniqueID: id.UniqueID})
	}
	j.Record = engine.NewBackup(plan.Catalog{}, j.Updates)
	return j
}

// A backup reads what can be read, says what cannot, and leaves the node in service.
func TestBackupReadsInService(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		nic, disk := m.ReadBackNIC(inventory.ActivateReboot), m.Add(inventory.Disk, "disk0", inventory.ActivateNone)
		view := m.Run(backup("backup", nic, disk))
		j := view.Job("uid-backup")
		require.Equal(t, step.Complete, j.Record.Outcome, "%+v", j.Record.Failure)
		all := entries(m)
		require.Len(t, all, 1)
		assert.Equal(t, inventory.Version("1.0"), all[0].Manifest.Version)
		assert.Equal(t, "backup", all[0].Manifest.Job)
		require.Len(t, j.Record.Steps, 2)
		assert.Contains(t, j.Record.Steps[1].Message, "cannot be restored: the driver sim cannot read its image")
		assert.Zero(t, m.Window.Scheduled, "the node stays in service")
		assert.Zero(t, m.Sim.Count(drivertest.OpWrite, "nic0"))

		named := backup("named", disk)
		named.Record.RollbackRequired = true
		requireFailed(t, m.Run(named), "named", step.RollbackUnavailable, false)
	})
}

// R002-72: what a failed job left is not backed up, and the node stays held.
func TestBackupRefusesWhatAFailedJobLeft(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.ReadBackNIC(inventory.ActivateDeviceReset)
		cancelAt(m, plan.Verify, "update")
		requireFailed(t, m.Run(m.Job("update", id)), "update", step.Cancelled, true)
		before := len(entries(m))
		view := m.Run(backup("backup", id))
		requireFailed(t, view, "backup", step.ArchiveFailed, false)
		assert.True(t, view.Job("uid-update").Held())
		assert.Len(t, entries(m), before)
		assert.Equal(t, step.MaintenanceReady, m.Window.Phase)
	})
}

// The settings of the archive come back with its firmware, in the same transaction, and stay until a person asks for those that are declared.
func TestRestoreBringsSettingsBackToo(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.ReadBackNIC(inventory.ActivateReboot)
		volatile := number("RT", "1", inventory.ActivateNone)
		volatile.Volatile = true
		m.Sim.Give("nic0", number("VFS", "4", inventory.ActivateReboot), number("MORE", "7", inventory.ActivateReboot), volatile)
		update := told(m.Job("update", id), journal.Setting{Name: "VFS", Value: "8"})
		update.Updates[0].Configuration = "sha256:declared"
		requireComplete(t, m, m.Run(update), "update")
		assert.Equal(t, []archive.Setting{{Name: "MORE", Value: "7"}, {Name: "VFS", Value: "4"}}, entries(m)[0].Manifest.Settings)
		m.Sim.Tell("nic0", "MORE", "9")

		j := restore(m, "restore", id, "1.0")
		j.Updates[0].ArchivedSettings, j.Updates[0].Configuration, j.Updates[0].Declared = true, "sha256:declared", []string{"VFS"}
		j.Record = engine.NewRecord(plan.Catalog{}, j.Updates)
		view := m.Run(j)
		require.Equal(t, step.Complete, view.Job("uid-restore").Record.Outcome, "%+v", view.Job("uid-restore").Record.Failure)
		assert.Equal(t, "4", current(m, id, "VFS"))
		assert.Equal(t, "7", current(m, id, "MORE"))
		assert.Equal(t, 2, m.Sim.Count(drivertest.OpReboot, ""), "one for the update and one for the restore")
		assert.Equal(t, string(plan.ReasonRestored), view.Devices["nic0"].SettingsFailure.Reason)
		assert.Nil(t, view.Devices["nic0"].Configured)

		again := settingsOnly(m, "again", id, journal.Setting{Name: "VFS", Value: "8"})
		again.Updates[0].Configuration = "sha256:declared"
		failed := requireFailed(t, m.Run(again), "again", step.JobRejected, false)
		assert.Contains(t, failed.Record.Failure.Message, "a person restored other settings in its place in job restore")
	})
}

// TestOnTheGoodImageOnlySettingsComeBack proves R002-50.
func TestOnTheGoodImageOnlySettingsComeBack(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.ReadBackNIC(inventory.ActivateReboot)
		m.Sim.Give("nic0", number("VFS", "4", inventory.ActivateReboot), number("MORE", "7", inventory.ActivateReboot))
		require.Equal(t, step.Complete, m.Run(backup("backup", id)).Job("uid-backup").Record.Outcome)
		before, _ := m.Sim.Parameters(t.Context(), id)
		m.Sim.Tell("nic0", "VFS", "9")
		m.Sim.Tell("nic0", "MORE", "1")
		m.Sim.Reboot()
		require.Equal(t, "9", current(m, id, "VFS"))
		reboots := m.Sim.Count(drivertest.OpReboot, "")

		j := restore(m, "restore", id, "1.0")
		j.Updates[0].ArchivedSettings = true
		j.Record = engine.NewRecord(plan.Catalog{}, j.Updates)
		view := m.Run(j)
		require.Equal(t, step.Complete, view.Job("uid-restore").Record.Outcome, "%+v", view.Job("uid-restore").Record.Failure)
		after, _ := m.Sim.Parameters(t.Context(), id)
		assert.Equal(t, before, after)
		assert.Zero(t, m.Sim.Count(drivertest.OpWrite, "nic0"), "the image is there already")
		assert.Equal(t, reboots+1, m.Sim.Count(drivertest.OpReboot, ""))
	})
}

// Of what a job left that no health gate found good, the archive has what the device had before.
func TestArchivedSettingsAreThoseThatWereGood(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.ReadBackNIC(inventory.ActivateReboot)
		m.Sim.Give("nic0", number("VFS", "8", inventory.ActivateReboot), number("MORE", "7", inventory.ActivateReboot))
		j, err := journal.Open(m.Dir)
		require.NoError(t, err)
		require.NoError(t, j.Save(journal.Job{Name: "earlier", UID: "uid-earlier", Record: step.Record{Outcome: step.Complete}},
			journal.Device{UniqueID: "nic0", GoodSettings: []journal.Setting{{Name: "VFS", Value: "4"}}}))
		require.NoError(t, j.Close())
		require.Equal(t, step.Complete, m.Run(backup("backup", id)).Job("uid-backup").Record.Outcome)
		assert.Equal(t, []archive.Setting{{Name: "MORE", Value: "7"}, {Name: "VFS", Value: "4"}}, entries(m)[0].Manifest.Settings)
	})
}

// Declared settings that the archive does not change are not displaced, and none keeps firmware from being restored.
func TestSettingsStandInNoRestoresWay(t *testing.T) {
	for name, c := range map[string]struct {
		declared  []string
		given     func(m *enginetest.Machine)
		restored  string
		displaced bool
	}{
		"a declared one is changed":       {[]string{"VFS"}, func(*enginetest.Machine) {}, "4", true},
		"another one is":                  {[]string{"RT"}, func(*enginetest.Machine) {}, "4", false},
		"it would need a power cycle":     {[]string{"VFS"}, func(m *enginetest.Machine) { m.Sim.Costs("nic0", "VFS", inventory.ActivatePowerCycle) }, "8", false},
		"the settings are not to be read": {[]string{"VFS"}, func(m *enginetest.Machine) { m.Sim.Inject("nic0", drivertest.NoSettings) }, "8", false},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, m *enginetest.Machine) {
				id := m.ReadBackNIC(inventory.ActivateReboot)
				m.Sim.Give("nic0", number("VFS", "4", inventory.ActivateReboot))
				requireComplete(t, m, m.Run(m.Job("update", id)), "update")
				m.Sim.Tell("nic0", "VFS", "8")
				m.Sim.Reboot()
				c.given(m)
				j := restore(m, "restore", id, "1.0")
				j.Updates[0].ArchivedSettings, j.Updates[0].Configuration, j.Updates[0].Declared = true, "sha256:declared", c.declared
				j.Record = engine.NewRecord(plan.Catalog{}, j.Updates)
				view := m.Run(j)
				require.Equal(t, step.Complete, view.Job("uid-restore").Record.Outcome, "%+v", view.Job("uid-restore").Record.Failure)
				assert.Equal(t, inventory.Version("1.0"), m.Sim.Firmware("nic0").Running)
				assert.Equal(t, c.restored, m.Sim.Parameter("nic0", "VFS").Current.String())
				assert.Equal(t, c.displaced, view.Devices["nic0"].SettingsFailure != nil)
			})
		})
	}
}
