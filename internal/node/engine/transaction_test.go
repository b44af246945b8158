package engine_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
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

// A good update archives what runs before the first byte, reads its target back, reboots once and rolls nothing back; what
// it leaves is one archive, named by the device, the image and the boot in which that ran (R002-5, R002-8, R002-49).
func TestGoodUpdateArchivesFirstReadsBackAndRebootsOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.ReadBackNIC(inventory.ActivateReboot)
		j := m.Job("j", id)
		flashing := false
		m.OnSnapshot = func(s engine.Snapshot) {
			if c := s.Job.CurrentStep(); c == nil || c.Kind != plan.Flash || flashing {
				return
			}
			flashing = true
			assert.Zero(t, m.Sim.Count(drivertest.OpWrite, "nic0"), "the step is journalled before the first byte")
			img, kept, err := m.Archive.Image("nic0", "1.0")
			require.NoError(t, err)
			assert.NoError(t, img.Verify())
			assert.Equal(t, "boot-1", kept.BootID)
		}
		view := m.Run(j)
		done := requireComplete(t, m, view, "j")
		assert.True(t, flashing)
		assert.Nil(t, done.Record.Rollback)
		assert.Equal(t, []drivertest.Operation{{Kind: drivertest.OpWrite, UniqueID: "nic0"}, {Kind: drivertest.OpReboot}}, m.Sim.Operations())
		for _, s := range done.Record.Steps {
			if s.Kind == plan.Verify {
				assert.Equal(t, "the device runs 2.0", s.Message)
			}
		}
		entries, err := m.Archive.List()
		require.NoError(t, err)
		require.Len(t, entries, 1, "what ran before the healthy reboot, and nothing else")
		_, kept, err := m.Archive.Image("nic0", "1.0")
		require.NoError(t, err)
		assert.Equal(t, "boot-1", kept.BootID, "the boot before")
		assert.Equal(t, "j", kept.Job)
	})
}

// An archive that cannot be written means no flash, and the node is never taken out of service. No reboot and no later job
// hides that: what failed stays on record, and no verdict is made of it (R002-6, R002-20).
func TestArchiveThatCannotBeWrittenIsNotHiddenByAReboot(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.ReadBackNIC(inventory.ActivateReboot)
		require.NoError(t, os.WriteFile(filepath.Join(m.Dir, "archive"), nil, 0o600))
		view := m.Run(m.Job("j", id))
		failed := requireFailed(t, view, "j", step.ArchiveFailed, false)
		assert.Empty(t, m.Sim.Operations())
		assert.Zero(t, m.Window.Scheduled)

		m.Boot++
		m.Sim.Reboot()
		again := m.Run()
		assert.Equal(t, failed.Record, requireFailed(t, again, "j", step.ArchiveFailed, false).Record)
		assert.Equal(t, view.Devices["nic0"].LastFailure, again.Devices["nic0"].LastFailure)
		assert.Nil(t, again.Verdict)
		assert.Zero(t, m.Sim.Count(drivertest.OpWrite, "nic0"))
	})
}

// A daemon that dies in every write uses its attempts up all the same, over its restarts and over jobs, because they are
// counted outside what they test (R002-15, R002-16).
func TestDaemonThatDiesInEveryWriteRunsOutOfAttempts(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.Add(inventory.NIC, "nic0", inventory.ActivateDeviceReset)
		writes := 0
		m.BeforeCommit = func() { writes++; m.Stop() }
		live := func(j journal.Job) journal.View {
			view, over := m.Live(j)
			for lives := 0; !over; lives++ {
				require.Less(t, lives, 20, "the job ends")
				view, over = m.Live()
			}
			return view
		}
		first := live(m.Job("first", id)).Job("uid-first")
		assert.Equal(t, step.Failed, first.Record.Outcome)
		assert.Equal(t, step.MaxAttempts, writes, "a write that was cut short is begun once more")
		for _, name := range []string{"second", "third"} {
			view := live(m.Job(name, id))
			assert.Equal(t, step.Failed, view.Job("uid-"+name).Record.Outcome)
		}
		assert.LessOrEqual(t, writes, engine.MaxWrites)
	})
}

// Ten restarts in the middle of a write are one write (R002-47).
func TestTenRestartsAreOneWrite(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.Add(inventory.NIC, "nic0", inventory.ActivateReboot)
		m.Sim.Inject("nic0", drivertest.HangWrite)
		submit := []journal.Job{m.Job("j", id)}
		for range 10 {
			go func() {
				<-time.After(time.Minute)
				m.Stop()
			}()
			_, over := m.Live(submit...)
			require.False(t, over)
			submit = nil
		}
		m.Sim.Release("nic0")
		requireComplete(t, m, m.Run(), "j")
		assert.Equal(t, 1, m.Sim.Count(drivertest.OpWrite, "nic0"))
		assert.Equal(t, 1, m.Sim.Count(drivertest.OpReboot, ""))
	})
}

// What is written back is the archive of this very transaction, and each attempt starts from the same image (R002-51,
// R002-55).
func TestRollbackRestoresItsOwnArchiveAndEachAttemptStartsFromIt(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.ReadBackNIC(inventory.ActivateReboot)
		first := m.Bad(m.Job("first", id), "nic0")
		requireRolledBack(t, m, m.Run(first), "first")
		second := retried(m.Bad(m.Job("second", id), "nic0"))
		requireRolledBack(t, m, m.Run(second), "second")
		_, kept, err := m.Archive.Image("nic0", "1.0")
		require.NoError(t, err)
		require.Len(t, m.Written["nic0"], 4)
		for i, bad := range []journal.Job{first, second} {
			assert.Equal(t, bad.Updates[0].Digest, m.Written["nic0"][2*i].String())
			assert.Equal(t, kept.Digest, m.Written["nic0"][2*i+1].String(), "the image that ran before, byte for byte")
		}
	})
}

// Other hardware in the slot has a history of its own: the record and the archive of what was there stay as they were, and
// the new device begins with none (R002-57).
func TestReplacedHardwareBeginsANewTransaction(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		requireComplete(t, m, m.Run(m.Job("old", m.ReadBackNIC(inventory.ActivateDeviceReset))), "old")
		m.Sim.Remove("nic0")
		m.IDs = nil
		id := m.AddWith(inventory.NIC, "nic1", inventory.Firmware{Activation: inventory.ActivateDeviceReset, Rollback: inventory.RollbackReadBack})
		view := m.Run(m.Job("new", id))
		requireComplete(t, m, view, "new")
		assert.Equal(t, "old", view.Devices["nic0"].LastApplied.Job)
		assert.Equal(t, "new", view.Devices["nic1"].LastApplied.Job)
		for uid, job := range map[string]string{"nic0": "old", "nic1": "new"} {
			_, kept, err := m.Archive.Image(uid, "1.0")
			require.NoError(t, err)
			assert.Equal(t, job, kept.Job)
		}
	})
}

// A node that cannot be repaired by itself stays as it is, out of service and powered on, until a person acts: nothing is
// done in an hour, over restarts of the daemon (R002-27, R002-28, R003-26).
func TestHeldNodeWaitsForPerson(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.Add(inventory.NIC, "nic0", inventory.ActivateReboot)
		requireFailed(t, m.Run(m.Bad(m.Job("j", id), "nic0")), "j", step.Unhealthy, true)
		before := m.Sim.Operations()
		for range 3 {
			j, err := journal.Open(m.Dir)
			require.NoError(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			require.NoError(t, m.NewEngine(j).Run(ctx))
			cancel()
			require.NoError(t, j.Close())
		}
		assert.Equal(t, before, m.Sim.Operations())
		assert.False(t, m.RebootWanted)
		assert.Equal(t, step.MaintenanceReady, m.Window.Phase)
		assert.Zero(t, m.Window.Released)
	})
}

// The steps begin by themselves once the node has left service, all of them run while it is out, and it is seen healthy
// before it is schedulable again (R003-1, R003-21, R003-37).
func TestStepsRunOutOfService(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		ran := map[plan.Kind]bool{}
		cleanBeforeAvailable := false
		m.OnSnapshot = func(s engine.Snapshot) {
			if c := s.Job.CurrentStep(); c != nil {
				switch c.Kind {
				case plan.Flash, plan.Activate, plan.Reboot, plan.Verify, plan.Health:
					ran[c.Kind] = true
					assert.Equal(t, step.MaintenanceReady, m.Window.Phase, "%s", c.Kind)
				}
			}
			for _, st := range s.Job.Record.Steps {
				cleanBeforeAvailable = cleanBeforeAvailable ||
					st.Kind == plan.Health && st.State == step.Succeeded && m.Window.Phase == step.MaintenanceReady
			}
		}
		requireComplete(t, m, m.Run(m.Job("j", fleet(m)...)), "j")
		assert.Len(t, ran, 5)
		assert.True(t, cleanBeforeAvailable)
		assert.Equal(t, 1, m.Window.Released)
	})
}

// What the node reports is what it used: the image, the template or pin, and the source that its job was made from, whatever is
// desired by then (R004-5, R004-11).
func TestDeviceKeepsOnRecordWhatItsFirmwareCameFrom(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		j := m.Job("j", m.Add(inventory.NIC, "nic0", inventory.ActivateReboot))
		j.Updates[0].Origin = []journal.Origin{
			{Kind: "NodeFirmware", Name: "n1", UID: "uid-of-the-pin", Generation: 7, Rule: "r", Hash: "0123456789abcdef"},
			{Kind: "FirmwareSource", Name: "s", UID: "uid-of-the-source", Generation: 3},
		}
		view := m.Run(j)
		requireComplete(t, m, view, "j")
		applied := view.Devices["nic0"].LastApplied
		assert.Equal(t, j.Updates[0].Origin, applied.Origin)
		assert.Equal(t, j.Updates[0].Digest, applied.Digest)
		assert.Equal(t, "j", applied.Job)
	})
}

// A daemon that starts while the API server is away finishes what it began: the write is followed, the device activated and
// read back, and only the return of the node to service waits (R002-39).
func TestRecoveryNeedsNoAPIServer(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.Add(inventory.NIC, "nic0", inventory.ActivateDeviceReset)
		m.Sim.Inject("nic0", drivertest.HangWrite)
		go func() {
			<-time.After(10 * time.Minute)
			m.Window.Change(func() { m.Window.Err = errors.New("connection refused") })
			m.Stop()
		}()
		_, over := m.Live(m.Job("j", id))
		require.False(t, over)
		verified := time.Duration(0)
		began := time.Now()
		m.OnSnapshot = func(s engine.Snapshot) {
			for _, st := range s.Job.Record.Steps {
				if st.Kind == plan.Verify && st.State == step.Succeeded && verified == 0 {
					verified = time.Since(began)
				}
			}
		}
		go func() {
			<-time.After(time.Minute)
			m.Sim.Release("nic0")
			<-time.After(time.Hour)
			m.Window.Change(func() { m.Window.Err = nil })
		}()
		requireComplete(t, m, m.Run(), "j")
		assert.Equal(t, 1, m.Sim.Count(drivertest.OpWrite, "nic0"))
		assert.Positive(t, verified)
		assert.Less(t, verified, 30*time.Minute, "the device was read back while the API server was away")
	})
}
