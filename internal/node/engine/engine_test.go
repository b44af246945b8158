package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/node/engine"
	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/enginetest"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// inBubble runs a test with a clock that only moves when everybody waits.
func inBubble(t *testing.T, f func(t *testing.T, m *enginetest.Machine)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, enginetest.New(t)) })
}

// fleet is a host with one device of each kind of activation the product can do.
func fleet(m *enginetest.Machine) []inventory.Identity {
	return []inventory.Identity{
		m.Add(inventory.Disk, "disk0", inventory.ActivateNone),
		m.Add(inventory.NIC, "nic0", inventory.ActivateDeviceReset),
		m.Add(inventory.BIOS, "bios", inventory.ActivateReboot),
	}
}

func requireComplete(t *testing.T, m *enginetest.Machine, view journal.View, name string) journal.Job {
	t.Helper()
	j := view.Job("uid-" + name)
	require.NotNil(t, j)
	require.Equal(t, step.Complete, j.Record.Outcome, "%+v", j.Record.Failure)
	for _, u := range j.Updates {
		assert.Equal(t, inventory.Version("2.0"), m.Sim.Firmware(u.UniqueID).Running, u.UniqueID)
		applied := view.Devices[u.UniqueID].LastApplied
		require.NotNil(t, applied, u.UniqueID)
		assert.Equal(t, u.Digest, applied.Digest)
		assert.Equal(t, fmt.Sprintf("boot-%d", m.Boot), applied.BootID)
	}
	assert.Equal(t, step.MaintenanceNone, m.Window.Phase)
	return *j
}

func requireFailed(t *testing.T, view journal.View, name string, reason step.Reason, held bool) journal.Job {
	t.Helper()
	j := view.Job("uid-" + name)
	require.NotNil(t, j)
	require.Equal(t, step.Failed, j.Record.Outcome)
	require.Equal(t, reason, j.Record.Failure.Reason, j.Record.Failure.Message)
	require.Equal(t, held, j.Held())
	return *j
}

// TestOneMaintenanceAndOneRebootForAllDevices proves R001-6.
func TestOneMaintenanceAndOneRebootForAllDevices(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		view := m.Run(m.Job("j", fleet(m)...))
		j := requireComplete(t, m, view, "j")
		assert.Equal(t, 1, m.Window.Scheduled)
		assert.Equal(t, 1, m.Window.Released)
		assert.Equal(t, 1, m.Sim.Count(drivertest.OpReboot, ""))
		assert.Equal(t, 1, j.Record.Reboots())
		assert.True(t, j.MaintenanceEnded.After(*j.MaintenanceStarted))
		require.Len(t, view.History, 1)
		assert.Equal(t, []drivertest.Operation{
			{Kind: drivertest.OpWrite, UniqueID: "bios"}, {Kind: drivertest.OpWrite, UniqueID: "nic0"},
			{Kind: drivertest.OpWrite, UniqueID: "disk0"}, {Kind: drivertest.OpActivate, UniqueID: "nic0"},
			{Kind: drivertest.OpReboot},
		}, m.Sim.Operations(), "R003-9: BIOS, NIC, disk, then activation, then the reboot")
	})
}

func TestNoNeedlessReboot(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		view := m.Run(m.Job("j", m.Add(inventory.NIC, "nic0", inventory.ActivateDeviceReset)))
		requireComplete(t, m, view, "j")
		assert.Zero(t, m.Sim.Count(drivertest.OpReboot, ""))
	})
}

func TestRebootsWhenResetNeedsIt(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.Add(inventory.NIC, "nic0", inventory.ActivateDeviceReset)
		m.Sim.Inject("nic0", drivertest.NeedReboot)
		requireComplete(t, m, m.Run(m.Job("j", id)), "j")
		assert.Equal(t, 1, m.Sim.Count(drivertest.OpReboot, ""))
	})
}

// Killed between any two steps, the job comes to the same end (R003-48, R003-49, R000-6).
func TestKilledAnywhereEndsTheSame(t *testing.T) {
	requireSameEndAnywhere(t, 40, func(m *enginetest.Machine) (points, at *int) { return &m.Points, &m.CrashAt })
}

// Told to end while anything is read, the job comes to the same end: what could not be read then says nothing about a
// device or an image.
func TestStoppedAnywhereEndsTheSame(t *testing.T) {
	requireSameEndAnywhere(t, 20, func(m *enginetest.Machine) (points, at *int) { return &m.Reads, &m.EndAt })
}

// requireSameEndAnywhere interrupts an update at each of the points that are counted, of which there must be more than the
// given number.
func requireSameEndAnywhere(t *testing.T, more int, interruption func(*enginetest.Machine) (points, at *int)) {
	t.Helper()
	interruptAnywhere(t, more, interruption, func(t *testing.T, m *enginetest.Machine, n int) {
		view := runAgain(m, m.Job("j", fleet(m)...))
		requireComplete(t, m, view, "j")
		assert.Equal(t, 1, m.Window.Scheduled, "interrupted at %d", n)
		assert.Equal(t, 1, m.Sim.Count(drivertest.OpReboot, ""), "interrupted at %d", n)
		for _, id := range m.IDs {
			assert.Equal(t, 1, m.Sim.Count(drivertest.OpWrite, id.UniqueID), "interrupted at %d", n)
		}
	})
}

// interruptAnywhere lets a machine live through its jobs again and again, and interrupts it once each time, at one point after the other.
func interruptAnywhere(t *testing.T, more int, interruption func(*enginetest.Machine) (points, at *int), live func(*testing.T, *enginetest.Machine, int)) {
	t.Helper()
	interrupted := 0
	for n := 1; ; n++ {
		over := false
		inBubble(t, func(t *testing.T, m *enginetest.Machine) {
			points, at := interruption(m)
			*at = n
			live(t, m, n)
			over = *points < n
		})
		if over || t.Failed() {
			break
		}
		interrupted++
	}
	assert.Greater(t, interrupted, more)
}

// runAgain runs the job on a machine that may die before it is journalled.
func runAgain(m *enginetest.Machine, j journal.Job) journal.View {
	view := m.Run(j)
	if view.Job(j.UID) == nil {
		view = m.Run(j)
	}
	return view
}

// A step that has waited longer than a device may be unreadable has no patience left for a read that is cut short.
func TestStopAfterWaitFailsNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		j := m.Job("j", m.Add(inventory.NIC, "nic0", inventory.ActivateDeviceReset))
		m.Window.OnReady = func() { m.Window.Err = errors.New("connection refused") } // the first write waits
		m.EndAt = 200
		go func() {
			time.Sleep(20 * time.Minute)
			m.Window.Change(func() { m.Window.Err = nil })
		}()
		_, over := m.Live(j)
		assert.False(t, over)
		assert.Equal(t, 200, m.Reads)
		requireComplete(t, m, m.Run(), "j")
	})
}

func TestWriteCutShortBetweenItsCommandsIsRepeated(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		j := m.Job("j", m.Add(inventory.Disk, "disk0", inventory.ActivateDeviceReset))
		m.BeforeCommit = func() { m.Stop() }
		_, over := m.Live(j)
		assert.False(t, over, "nothing failed but the daemon")
		m.BeforeCommit = nil
		requireComplete(t, m, m.Run(), "j")
	})
}

// A burn takes longer than a device is waited for that does not answer; the wait begins when it ends.
func TestTimeToAnswerAfterLongWrite(t *testing.T) {
	for name, restart := range map[string]bool{"followed": false, "taken over after a restart": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, m *enginetest.Machine) {
				id := m.Add(inventory.NIC, "nic0", inventory.ActivateDeviceReset)
				m.Sim.Inject("nic0", drivertest.HangWrite)
				go func() {
					time.Sleep(10 * time.Minute)
					if restart {
						m.Stop()
						time.Sleep(10 * time.Minute)
					}
					m.Sim.Inject("nic0", drivertest.Unreadable)
					m.Sim.Release("nic0")
					time.Sleep(time.Minute)
					m.Sim.Clear("nic0")
				}()
				requireComplete(t, m, m.Run(m.Job("j", id)), "j")
			})
		})
	}
}

func TestReplansDeviceWithoutObject(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		j := m.Job("j", m.Add(inventory.NIC, "nic0", inventory.ActivateDeviceReset))
		j.Updates[0].Class, j.Deadline = "", time.Time{}
		requireFailed(t, m.Run(j), "j", step.HardwareChanged, false)
		assert.Empty(t, m.Sim.Operations())
	})
}

// A record of before records had classes, and one of a step, gets them: a BIOS is blamed for what it drives.
func TestClassesOfOldRecords(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		j := m.Job("j", m.Add(inventory.BIOS, "bios", inventory.ActivateReboot))
		j.Record.Updates[0].Class = ""
		view := m.Run(j)
		requireComplete(t, m, view, "j")
		assert.Equal(t, inventory.BIOS, view.Job("uid-j").Record.Updates[0].Class)
		assert.Empty(t, j.Record.Updates[0].Class, "the record of the caller is its own")
	})
}

func TestOnlyActivatesStagedImage(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.Add(inventory.BIOS, "bios", inventory.ActivateReboot)
		fw := m.Sim.Firmware("bios")
		fw.Stored = "2.0"
		m.Sim.SetFirmware("bios", fw)
		requireComplete(t, m, m.Run(m.Job("j", id)), "j")
		assert.Zero(t, m.Sim.Count(drivertest.OpWrite, "bios"))
		assert.Equal(t, 1, m.Sim.Count(drivertest.OpReboot, ""))
	})
}

func TestNoopJobDisturbsNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.Add(inventory.BIOS, "bios", inventory.ActivateReboot)
		m.Sim.SetFirmware("bios", inventory.Firmware{Running: "2.0", Stored: "2.0", Activation: inventory.ActivateReboot})
		view := m.Run(m.Job("j", id))
		require.Equal(t, step.Complete, view.Job("uid-j").Record.Outcome)
		assert.Zero(t, m.Window.Scheduled)
		assert.Empty(t, m.Sim.Operations())
	})
}

func TestWrongImageIsNeverWrittenAndHoldsNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.Add(inventory.NIC, "nic0", inventory.ActivateDeviceReset)
		m.Sim.Inject("nic0", drivertest.WrongBoard)
		view := m.Run(m.Job("j", id))
		requireFailed(t, view, "j", step.ImageRejected, false)
		assert.Empty(t, m.Sim.Operations())
		assert.Zero(t, m.Window.Scheduled)
		require.NotNil(t, view.Devices["nic0"].LastFailure, "the same image is not planned again")
		assert.Equal(t, "ImageRejected", view.Devices["nic0"].LastFailure.Reason)
	})
}

func TestUnreachableImageFailsAtTheDeadlineAndMayBePlannedAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.Add(inventory.NIC, "nic0", inventory.ActivateDeviceReset)
		m.FetchErr = errors.New("connection refused")
		began := time.Now()
		view := m.Run(m.Job("j", id))
		requireFailed(t, view, "j", step.ImageUnavailable, false)
		assert.GreaterOrEqual(t, time.Since(began), time.Hour)
		assert.Empty(t, m.Sim.Operations())
		assert.Nil(t, view.Devices["nic0"].LastFailure)
		assert.Less(t, m.Fetches, 400, "asks every ten seconds")
		assert.Less(t, len(m.Snapshots), 10, "reports once what it waits for")
	})
}

func TestFullDiskIsNamedAndTheJobGoesOnOnceThereIsRoom(t *testing.T) {
	full := fmt.Errorf("the file system of /state is full; make room there: %w", syscall.ENOSPC)
	t.Run("until the deadline", func(t *testing.T) {
		inBubble(t, func(t *testing.T, m *enginetest.Machine) {
			id := m.Add(inventory.NIC, "nic0", inventory.ActivateDeviceReset)
			m.FetchErr = full
			view := m.Run(m.Job("j", id))
			requireFailed(t, view, "j", step.StorageFailed, false)
			assert.Contains(t, view.Job("uid-j").Record.Failure.Message, "make room there")
			assert.Empty(t, m.Sim.Operations())
			assert.Zero(t, m.Window.Scheduled, "the node was not drained for it")
			assert.Nil(t, view.Devices["nic0"].LastFailure, "the image is planned again")
		})
	})
	t.Run("with room before it", func(t *testing.T) {
		inBubble(t, func(t *testing.T, m *enginetest.Machine) {
			id := m.Add(inventory.NIC, "nic0", inventory.ActivateDeviceReset)
			m.FetchErr, m.FetchErrUntil = full, time.Now().Add(10*time.Minute)
			began := time.Now()
			requireComplete(t, m, m.Run(m.Job("j", id)), "j")
			assert.GreaterOrEqual(t, time.Since(began), 10*time.Minute)
			assert.Equal(t, 1, m.Sim.Count(drivertest.OpWrite, "nic0"))
			waited := slices.ContainsFunc(m.Snapshots, func(s engine.Snapshot) bool { return strings.Contains(s.Waiting, "make room there") })
			assert.True(t, waited, "it says what it waits for")
		})
	})
}

func TestNodeRefusesDowngradeToo(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.Add(inventory.NIC, "nic0", inventory.ActivateDeviceReset)
		m.Sim.SetFirmware("nic0", inventory.Firmware{Running: "3.0", Stored: "3.0", Format: inventory.FormatDotted})
		requireFailed(t, m.Run(m.Job("j", id)), "j", step.DowngradeForbidden, false)
		assert.Empty(t, m.Sim.Operations())
	})
}

// Other hardware in the slot is another transaction (R002-57).
func TestNeverWritesReplacedDevice(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		j := m.Job("j", m.Add(inventory.NIC, "nic0", inventory.ActivateDeviceReset))
		m.IDs = nil
		m.Add(inventory.NIC, "nic1", inventory.ActivateDeviceReset)
		requireFailed(t, m.Run(j), "j", step.HardwareChanged, false)
		assert.Empty(t, m.Sim.Operations())
	})
}

// TestWithoutMaintenanceOperatorNothingProceeds proves R001-20.
func TestWithoutMaintenanceOperatorNothingProceeds(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		m.Window.NotInstalled = true
		requireFailed(t, m.Run(m.Job("j", fleet(m)...)), "j", step.MaintenanceUnavailable, false)
		assert.Empty(t, m.Sim.Operations(), "zero writes")
		waited := false
		for _, s := range m.Snapshots {
			waited = waited || s.Waiting == "install the maintenance-operator"
		}
		assert.True(t, waited, "the reason is visible while it waits")
	})
}

func TestLieIsFoundOutAndHeld(t *testing.T) {
	for name, fault := range map[string]drivertest.Fault{
		"write": drivertest.LieWrite, "activation": drivertest.LieActivate,
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, m *enginetest.Machine) {
				nic := m.Add(inventory.NIC, "nic0", inventory.ActivateDeviceReset)
				disk := m.Add(inventory.Disk, "disk0", inventory.ActivateNone)
				m.Sim.Inject("nic0", fault)
				view := m.Run(m.Job("j", nic, disk))
				requireFailed(t, view, "j", step.VerifyFailed, true)
				assert.Equal(t, 1, m.Sim.Count(drivertest.OpWrite, "nic0"))
				assert.Equal(t, step.MaintenanceReady, m.Window.Phase, "the node stays out of service")
				require.NotNil(t, view.Devices["nic0"].LastFailure)
				assert.Contains(t, view.LastError(), "VerifyFailed")
			})
		})
	}
}

func TestFirmwareTheDeviceRefusesAtBootIsReportedWithItsReason(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.Add(inventory.BIOS, "bios", inventory.ActivateReboot)
		m.Sim.Inject("bios", drivertest.RefuseBoot)
		j := requireFailed(t, m.Run(m.Job("j", id)), "j", step.VerifyFailed, false)
		assert.Contains(t, j.Record.Failure.Message, "refused 2.0 at boot")
		assert.True(t, j.Record.RolledBack(), "it runs what ran before, and nothing had to be written for that")
		assert.Equal(t, 1, m.Sim.Count(drivertest.OpWrite, "bios"))
		assert.Equal(t, 1, m.Sim.Count(drivertest.OpReboot, ""))
	})
}

// A device that takes its image only at a second boot is not at fault.
func TestSecondBootRunsIt(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		ids := []inventory.Identity{m.ReadBackNIC(inventory.ActivateReboot), m.Add(inventory.BIOS, "bios", inventory.ActivateReboot)}
		m.Sim.Inject("bios", drivertest.Quiet)
		m.Sim.Inject("bios", drivertest.TwoBoots)
		j := requireComplete(t, m, m.Run(m.Job("j", ids...)), "j")
		assert.Equal(t, 2, m.Sim.Count(drivertest.OpReboot, ""))
		assert.Equal(t, 1, m.Sim.Count(drivertest.OpWrite, "bios"))
		assert.Equal(t, 2, j.Record.Reboots())
	})
}

// One that does not take it then either is at fault, and the job has a reboot left for its rollback.
func TestThirdBootIsForRollback(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.ReadBackNIC(inventory.ActivateReboot)
		m.Sim.Inject("nic0", drivertest.Quiet)
		m.Sim.Inject("nic0", drivertest.NeedPower)
		j := *m.Run(m.Job("j", id)).Job("uid-j")
		assert.Equal(t, step.VerifyFailed, j.Record.Failure.Reason)
		assert.Contains(t, j.Record.Failure.Message, "after two reboots the device runs 1.0 instead of 2.0")
		assert.True(t, j.Record.RolledBack(), "%+v", j.Record.Rollback)
		assert.LessOrEqual(t, m.Sim.Count(drivertest.OpReboot, ""), step.MaxReboots)
	})
}

func TestFailedWriteHoldsTheNodeAndKeepsTheRestFromBeingPlanned(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		ids := fleet(m)
		m.Sim.Inject("nic0", drivertest.FailWrite)
		view := m.Run(m.Job("j", ids...))
		j := requireFailed(t, view, "j", step.WriteFailed, true)
		assert.Equal(t, plan.Flash, j.Record.Failure.Step)
		assert.Zero(t, m.Sim.Count(drivertest.OpWrite, "disk0"))
		assert.Zero(t, m.Sim.Count(drivertest.OpReboot, ""), "R003-26: powered on and not rebooted")
		for _, id := range ids {
			assert.NotNil(t, view.Devices[id.UniqueID].LastFailure, id.UniqueID)
		}
	})
}

func TestHoldsAfterIgnoredReboot(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.Add(inventory.BIOS, "bios", inventory.ActivateReboot)
		m.IgnoresReboots = true
		view := m.Run(m.Job("j", id))
		j := requireFailed(t, view, "j", step.RebootFailed, true)
		assert.Zero(t, j.Record.Reboots())
		for _, s := range j.Record.Steps {
			if s.Kind == plan.Reboot {
				assert.EqualValues(t, 1, s.Attempt)
			}
		}
		assert.NotNil(t, view.Devices["bios"].LastFailure)
	})
}

func TestUnhealthyNodeIsHeld(t *testing.T) {
	for name, ail := range map[string]func(*enginetest.Machine){
		"link down":      func(m *enginetest.Machine) { m.LinkDown = true },
		"node not ready": func(m *enginetest.Machine) { m.OnBoot = func() { m.NodeReady = false } },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, m *enginetest.Machine) {
				ids := fleet(m)
				ail(m)
				j := requireFailed(t, m.Run(m.Job("j", ids...)), "j", step.Unhealthy, true)
				assert.NotEmpty(t, j.Record.Failure.Message)
			})
		})
	}
}

// TestReleasesHeldNodeOnRequest proves R003-27.
func TestReleasesHeldNodeOnRequest(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.Add(inventory.NIC, "nic0", inventory.ActivateDeviceReset)
		m.Sim.Inject("nic0", drivertest.FailWrite)
		requireFailed(t, m.Run(m.Job("j", id)), "j", step.WriteFailed, true)
		j, err := journal.Open(m.Dir)
		require.NoError(t, err)
		require.NoError(t, m.NewEngine(j).Release("uid-j"))
		require.NoError(t, j.Close())
		view := m.Run()
		requireFailed(t, view, "j", step.WriteFailed, false)
		assert.Equal(t, step.MaintenanceNone, m.Window.Phase)
		require.Len(t, view.History, 1)
		assert.Contains(t, view.History[0].Message, "returned to service by request")
	})
}

func TestNewerJobTakesTheHeldNodeOverInTheSameMaintenance(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		ids := fleet(m)
		m.Sim.Inject("nic0", drivertest.FailWrite)
		requireFailed(t, m.Run(m.Job("first", ids...)), "first", step.WriteFailed, true)
		m.Sim.Clear("nic0")
		view := m.Run(retried(m.Job("second", ids...)))
		requireComplete(t, m, view, "second")
		first := requireFailed(t, view, "first", step.WriteFailed, false)
		assert.Equal(t, "second", first.SupersededBy)
		assert.Equal(t, 1, m.Window.Scheduled)
		assert.Equal(t, 1, m.Sim.Count(drivertest.OpReboot, ""))
		assert.Equal(t, 1, m.Sim.Count(drivertest.OpWrite, "bios"), "what is stored is not written again")
		assert.Nil(t, view.Devices["nic0"].LastFailure)
	})
}

// retried is a job that a person requested after the last failure.
func retried(j journal.Job) journal.Job {
	j.Retry = &j.UID
	return j
}

// Whoever plans it: an image that failed on a device is not written to it again until a person requests a retry (I5).
func TestRefusesFailedUntilRetry(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.Add(inventory.NIC, "nic0", inventory.ActivateDeviceReset)
		m.Sim.Inject("nic0", drivertest.FailWrite)
		requireFailed(t, m.Run(m.Job("first", id)), "first", step.WriteFailed, true)
		m.Sim.Clear("nic0")
		view := m.Run(m.Job("second", id))
		requireFailed(t, view, "second", step.Quarantined, true)
		assert.Equal(t, "first", view.Devices["nic0"].LastFailure.Job, "what happened is not overwritten")
		requireComplete(t, m, m.Run(retried(m.Job("third", id))), "third")
		assert.Equal(t, 2, m.Sim.Count(drivertest.OpWrite, "nic0"))
	})
}

func TestRejectedRetryKeepsNodeHeld(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.Add(inventory.NIC, "nic0", inventory.ActivateDeviceReset)
		m.Sim.Inject("nic0", drivertest.FailWrite)
		requireFailed(t, m.Run(m.Job("first", id)), "first", step.WriteFailed, true)
		m.Sim.Inject("nic0", drivertest.WrongBoard)
		requireFailed(t, m.Run(retried(m.Job("second", id))), "second", step.ImageRejected, true)
		assert.Equal(t, step.MaintenanceReady, m.Window.Phase)
	})
}

// TestCancelWorksUntilFirstWrite proves R000-62.
func TestCancelWorksUntilFirstWrite(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		ids := fleet(m)
		m.Window.OnReady = func() { m.Engine.Cancel("uid-j", engine.Cancellation{Reason: "wrong night"}) }
		view := m.Run(m.Job("j", ids...))
		requireFailed(t, view, "j", step.Cancelled, false)
		assert.Empty(t, m.Sim.Operations())
		assert.Equal(t, 1, m.Window.Released)
		assert.NotNil(t, view.Devices["bios"].LastFailure, "what was cancelled is not planned again by itself")
	})
}

// A write is not interrupted: the job ends right after it, and the node waits for a person (R003-25).
func TestCancelDuringTheWriteEndsTheJobRightAfterIt(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.Add(inventory.NIC, "nic0", inventory.ActivateDeviceReset)
		m.Sim.Inject("nic0", drivertest.HangWrite)
		go func() {
			time.Sleep(10 * time.Minute)
			m.Engine.Cancel("uid-j", engine.Cancellation{Reason: "wrong night"})
			m.Sim.Release("nic0")
		}()
		requireFailed(t, m.Run(m.Job("j", id)), "j", step.Cancelled, true)
		assert.Equal(t, inventory.Version("2.0"), m.Sim.Firmware("nic0").Stored)
		assert.Zero(t, m.Sim.Count(drivertest.OpActivate, "nic0"))
	})
}

// The daemon is asked to end in the middle of a write: it waits for a while, then leaves the write running, and its
// successor waits for it (R000-6).
func TestWriteOutlivesTheProcess(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.Add(inventory.NIC, "nic0", inventory.ActivateDeviceReset)
		m.Sim.Inject("nic0", drivertest.HangWrite)
		go func() {
			time.Sleep(10 * time.Minute)
			m.Stop()
			time.Sleep(10 * time.Minute)
			m.Sim.Release("nic0")
		}()
		began := time.Now()
		_, over := m.Live(m.Job("j", id))
		assert.False(t, over)
		assert.Less(t, time.Since(began), 12*time.Minute, "waits for no longer than its grace")
		assert.True(t, m.Sim.Busy("nic0"))
		requireComplete(t, m, m.Run(), "j")
		assert.Equal(t, 1, m.Sim.Count(drivertest.OpWrite, "nic0"))
	})
}

// The pod with the process that followed a plugin's write was deleted; the plugin writes on. Nothing is done to the node, and
// nothing is written again, until it has ended.
func TestPluginWriteOutlivesPod(t *testing.T) {
	for name, cancel := range map[string]bool{"and the job goes on": false, "and the job is cancelled": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, m *enginetest.Machine) {
				m.Unfollowed = true
				id := m.Add(inventory.NIC, "nic0", inventory.ActivateDeviceReset)
				m.Sim.Inject("nic0", drivertest.HangWrite)
				go func() {
					time.Sleep(10 * time.Minute)
					m.Stop()
					time.Sleep(2 * time.Hour)
					if cancel {
						m.Engine.Cancel("uid-j", engine.Cancellation{Reason: "wrong night"})
						time.Sleep(time.Hour)
					}
					assert.Zero(t, m.Window.Released)
					m.Sim.Release("nic0")
				}()
				_, over := m.Live(m.Job("j", id))
				assert.False(t, over)
				assert.True(t, m.Sim.Busy("nic0"))
				if view := m.Run(); cancel {
					requireFailed(t, view, "j", step.Cancelled, true)
				} else {
					requireComplete(t, m, view, "j")
				}
				assert.Equal(t, 1, m.Sim.Count(drivertest.OpWrite, "nic0"))
			})
		})
	}
}

// The worker of a write was killed: its end was not seen, and the device is read to find out.
func TestReadsBackUnobservedWrite(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		m.LoseEnds = true
		id := m.Add(inventory.NIC, "nic0", inventory.ActivateDeviceReset)
		requireComplete(t, m, m.Run(m.Job("j", id)), "j")
		assert.Equal(t, 1, m.Sim.Count(drivertest.OpWrite, "nic0"))
	})
}

func TestRunningJobGoesOnWhileTheAPIServerIsAway(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		ids := fleet(m)
		m.Window.OnReady = func() { m.Window.OnReady = func() { m.Window.Err = errors.New("connection refused") } }
		go func() {
			time.Sleep(30 * time.Minute)
			m.Window.Change(func() { m.Window.Err = nil })
		}()
		began := time.Now()
		requireComplete(t, m, m.Run(m.Job("j", ids...)), "j")
		assert.GreaterOrEqual(t, time.Since(began), 30*time.Minute, "only the release waits")
	})
}

func TestNothingNewBeginsWhileTheAPIServerIsAway(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		m.Window.Err = errors.New("connection refused")
		go func() {
			time.Sleep(2 * time.Hour) // the release needs it
			m.Window.Change(func() { m.Window.Err = nil })
		}()
		requireFailed(t, m.Run(m.Job("j", fleet(m)...)), "j", step.TimedOut, false)
		assert.Empty(t, m.Sim.Operations())
		assert.Less(t, len(m.Snapshots), 30, "reports once what it waits for")
	})
}

func TestMaintenanceTakenAwayStopsTheNextWrite(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		ids := fleet(m)
		m.Sim.Inject("bios", drivertest.HangWrite)
		go func() {
			time.Sleep(time.Minute)
			m.Window.Change(func() { m.Window.Phase = step.MaintenanceEnding })
			m.Sim.Release("bios")
		}()
		requireFailed(t, m.Run(m.Job("j", ids...)), "j", step.MaintenanceLost, true)
		assert.Zero(t, m.Sim.Count(drivertest.OpWrite, "nic0"))
	})
}

// A Node that is registered again may have workloads, though its maintenance is ready.
func TestNothingIsWrittenOnceTheNodeIsRegisteredAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		m.Window.Node = "first"
		ids, boot := fleet(m), m.Boot
		m.Sim.Inject("bios", drivertest.HangWrite)
		go func() {
			time.Sleep(time.Minute)
			m.Window.Change(func() { m.Window.Node = "second" })
			m.Sim.Release("bios")
		}()
		j := requireFailed(t, m.Run(m.Job("j", ids...)), "j", step.MaintenanceLost, true)
		assert.Contains(t, j.Record.Failure.Message, "registered again")
		assert.Equal(t, "first", j.Node, "the journal has it, for a process that is started again")
		assert.Zero(t, m.Sim.Count(drivertest.OpWrite, "nic0"))
		assert.Equal(t, boot, m.Boot)
	})
}

// One job at a time has the node (R003-47).
// It proves R000-54.
func TestSecondJobWaitsForTheFirst(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		first := m.Job("first", m.Add(inventory.NIC, "nic0", inventory.ActivateDeviceReset))
		m.Sim.Inject("nic0", drivertest.HangWrite)
		go func() {
			time.Sleep(time.Minute)
			m.Stop()
		}()
		m.Live(first)
		j, err := journal.Open(m.Dir)
		require.NoError(t, err)
		require.Error(t, m.NewEngine(j).Submit(m.Job("second")))
		require.NoError(t, j.Close())
		m.Sim.Release("nic0")
		requireComplete(t, m, m.Run(), "first")
	})
}

func TestRunPicksUpWhatIsSubmitted(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		j, err := journal.Open(m.Dir)
		require.NoError(t, err)
		defer func() { require.NoError(t, j.Close()) }()
		e := m.NewEngine(j)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- e.Run(ctx) }()
		require.NoError(t, e.Submit(m.Job("j", m.Add(inventory.NIC, "nic0", inventory.ActivateDeviceReset))))
		time.Sleep(time.Hour)
		view, err := j.View()
		require.NoError(t, err)
		requireComplete(t, m, view, "j")
		cancel()
		require.NoError(t, <-done)
	})
}
