package engine_test

import (
	"testing"

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

// to makes a job that brings one device from what it runs to another version, on the request of a person.
func to(m *enginetest.Machine, name string, id inventory.Identity, version string, defect ...drivertest.Defect) journal.Job {
	j := retried(m.Job(name, id))
	img := drivertest.NewImage(m.T, id.BoardID, inventory.Version(version))
	if len(defect) > 0 {
		img = drivertest.NewBadImage(m.T, id.BoardID, inventory.Version(version), defect[0])
	}
	m.Image[img.Digest] = img
	u := &j.Updates[0]
	u.FromVersion, u.Version, u.Digest = string(m.Sim.Firmware(id.UniqueID).Running), version, img.Digest.String()
	j.Record = engine.NewRecord(plan.Catalog{}, j.Updates)
	return j
}

// cancelAt cancels each of the jobs when its step of the kind begins.
func cancelAt(m *enginetest.Machine, kind plan.Kind, names ...string) {
	m.OnSnapshot = func(s engine.Snapshot) {
		cur := s.Job.CurrentStep()
		for _, name := range names {
			if s.Job.Name == name && cur != nil && cur.Kind == kind {
				m.Engine.Cancel(s.Job.UID, engine.Cancellation{Reason: "not now"})
			}
		}
	}
}

// What a gate has judged healthy is what a rollback restores. Firmware that jobs left behind which were cancelled before their
// gate is not, however much of it has run since.
func TestCancelledJobsDoNotDisplaceTheLastGoodFirmware(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.ReadBackNIC(inventory.ActivateDeviceReset)
		cancelAt(m, plan.Verify, "a", "b", "c")
		requireFailed(t, m.Run(to(m, "a", id, "2.0")), "a", step.Cancelled, true)
		requireFailed(t, m.Run(to(m, "b", id, "3.0")), "b", step.Cancelled, true)
		requireFailed(t, m.Run(to(m, "c", id, "4.0")), "c", step.Cancelled, true)
		require.Equal(t, inventory.Version("4.0"), m.Sim.Firmware("nic0").Running, "nobody judged it")

		requireRolledBack(t, m, m.Run(to(m, "d", id, "5.0", drivertest.DefectLinkDown)), "d")

		view := m.Run(to(m, "e", id, "6.0"))
		require.Equal(t, step.Complete, view.Job("uid-e").Record.Outcome)
		view = m.Run(to(m, "f", id, "7.0", drivertest.DefectLinkDown))
		f := requireFailed(t, view, "f", step.Unhealthy, false)
		require.True(t, f.Record.RolledBack())
		assert.Equal(t, inventory.Version("6.0"), m.Sim.Firmware("nic0").Running, "a gate judged it healthy")
	})
}

// A drive with two slots has no room for what was good beside what runs and what is written.
func TestOverwrittenSlotIsNoWayBack(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.AddWith(inventory.Disk, "disk0", inventory.Firmware{
			Activation: inventory.ActivateDeviceReset, Rollback: inventory.RollbackSlot,
			Slots: []inventory.Slot{{Number: 1, Version: "1.0", State: inventory.SlotActive}, {Number: 2}},
		})
		cancelAt(m, plan.Verify, "a")
		requireFailed(t, m.Run(to(m, "a", id, "2.0")), "a", step.Cancelled, true)
		require.Equal(t, inventory.Version("2.0"), m.Sim.Firmware("disk0").Running)
		j := to(m, "b", id, "3.0")
		j.Record.RollbackRequired = true
		requireFailed(t, m.Run(j), "b", step.RollbackUnavailable, true)
		assert.Equal(t, 1, m.Sim.Count(drivertest.OpWrite, "disk0"))
	})
}

// broken is a machine with two adapters of which one has failed for good, and the job that holds it.
func broken(t *testing.T, m *enginetest.Machine) journal.Job {
	nic := m.Add(inventory.NIC, "nic0", inventory.ActivateDeviceReset)
	disk := m.Add(inventory.Disk, "disk0", inventory.ActivateNone)
	j := m.Bad(m.Job("j", nic, disk), "nic0")
	held := requireFailed(t, m.Run(j), "j", step.Unhealthy, true)
	require.True(t, held.Record.NeedsIntervention())
	return held
}

// A person who replaced a card and asks for another try has mended the node: what it misses now is not the fault of the next
// image.
func TestRemeasuresRepairedNode(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		broken(t, m)
		m.IDs = m.IDs[1:]
		fresh := m.Add(inventory.NIC, "nic9", inventory.ActivateDeviceReset)
		view := m.Run(retried(m.Job("again", fresh)))
		require.Equal(t, step.Complete, view.Job("uid-again").Record.Outcome, "%+v", view.Job("uid-again").Record.Failure)
		assert.Equal(t, inventory.Version("2.0"), m.Sim.Firmware("nic9").Running)
		assert.Equal(t, step.MaintenanceNone, m.Window.Phase)
	})
}

// A request alone mends nothing: what the failed job changed, and is still there, must do again what it did before.
func TestUnrepairedNodeIsUnhealthy(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		broken(t, m)
		other := m.Add(inventory.NIC, "nic9", inventory.ActivateDeviceReset)
		for _, name := range []string{"again", "once-more"} {
			j := requireFailed(t, m.Run(to(m, name, other, "2.0")), name, step.Unhealthy, true)
			assert.Contains(t, j.Record.Failure.Message, "link b8:ce:f6:00:00:nic0 of NIC model nic0 is no longer up")
		}
	})
}
