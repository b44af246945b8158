package engine_test

import (
	"fmt"
	"strings"
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

// What a flash changed of the settings that the job does not give the device is remembered with what it was, until the device stores that again.
func TestSettingsThatAFlashChangedAreRemembered(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.ReadBackNIC(inventory.ActivateReboot)
		m.Sim.Give("nic0", number("VFS", "8", inventory.ActivateReboot), number("LINK", "2", inventory.ActivateReboot),
			number("SAME", "0", inventory.ActivateNone), number("BACK", "3", inventory.ActivateNone))
		m.Sim.Inject("nic0", drivertest.FlashResets)
		view := m.Run(told(m.Job("j", id), journal.Setting{Name: "VFS", Value: "8"}))
		requireComplete(t, m, view, "j")
		assert.Equal(t, []journal.Setting{{Name: "BACK", Value: "3"}, {Name: "LINK", Value: "2"}}, view.Devices["nic0"].Drift)

		img := drivertest.NewImage(t, id.BoardID, "3.0")
		m.Image[img.Digest] = img
		second := m.Job("second", id)
		second.Updates[0].Version, second.Updates[0].FromVersion, second.Updates[0].Digest = "3.0", "2.0", img.Digest.String()
		m.Sim.Tell("nic0", "SAME", "5")
		m.OnBoot = func() { m.Sim.Tell("nic0", "BACK", "3") }
		view = m.Run(told(second))
		require.Equal(t, step.Complete, view.Job(second.UID).Record.Outcome)
		assert.Equal(t, []journal.Setting{{Name: "LINK", Value: "2"}, {Name: "SAME", Value: "5"}, {Name: "VFS", Value: "8"}}, view.Devices["nic0"].Drift,
			"what was before the first of the two, what only the second changed, and no more what is as it was")
	})
}

// A setting that stands for others covers them, and where all that is not declared gets its default nothing is left that could drift.
func TestDeclaredSettingsDoNotDrift(t *testing.T) {
	for name, change := range map[string]func(*journal.Job){
		"the one that stands for it is declared": func(j *journal.Job) { *j = told(*j, journal.Setting{Name: "numVFs", Value: "8"}) },
		"the others get their defaults":          func(j *journal.Job) { j.Updates[0].ResetUnlisted = true },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, m *enginetest.Machine) {
				id := m.ReadBackNIC(inventory.ActivateReboot)
				stands := number("numVFs", "8", inventory.ActivateReboot)
				stands.Sets = []string{"VFS"}
				m.Sim.Give("nic0", number("VFS", "8", inventory.ActivateReboot), stands)
				m.Sim.Inject("nic0", drivertest.FlashResets)
				j := m.Job("j", id)
				change(&j)
				view := m.Run(j)
				requireComplete(t, m, view, "j")
				assert.Empty(t, view.Devices["nic0"].Drift)
			})
		})
	}
}

// A device that got its firmware back, and lost its settings on the way, is no different.
func TestSettingsThatARollbackChangedAreRemembered(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.ReadBackNIC(inventory.ActivateReboot)
		m.Sim.Give("nic0", number("LINK", "2", inventory.ActivateReboot))
		m.Sim.Inject("nic0", drivertest.FlashResets)
		view := m.Run(m.Bad(m.Job("j", id), "nic0"))
		requireRolledBack(t, m, view, "j")
		assert.Equal(t, []journal.Setting{{Name: "LINK", Value: "2"}}, view.Devices["nic0"].Drift)
	})
}

// What is not known is not guessed, and what is remembered has a bound.
func TestDriftIsOnlyWhatIsKnown(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(m *enginetest.Machine)
		drift   int
	}{
		"a device without settings": {func(*enginetest.Machine) {}, 0},
		"one whose settings cannot be read any more": {func(m *enginetest.Machine) {
			m.Sim.Give("nic0", number("LINK", "2", inventory.ActivateReboot))
			m.OnBoot = func() { m.Sim.Inject("nic0", drivertest.NoSettings) }
		}, 0},
		"one with more than are remembered": {func(m *enginetest.Machine) {
			for i := range 100 {
				m.Sim.Give("nic0", number(fmt.Sprintf("P%02d", i), "2", inventory.ActivateReboot))
			}
		}, 64},
		"a value that is too long": {func(m *enginetest.Machine) {
			m.Sim.Give("nic0", inventory.Parameter{Name: "TEXT", Current: inventory.Read(strings.Repeat("x", 513)), Default: inventory.Read("")})
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, m *enginetest.Machine) {
				id := m.ReadBackNIC(inventory.ActivateReboot)
				c.prepare(m)
				m.Sim.Inject("nic0", drivertest.FlashResets)
				view := m.Run(m.Job("j", id))
				requireComplete(t, m, view, "j")
				assert.Len(t, view.Devices["nic0"].Drift, c.drift)
			})
		})
	}
}

// What is given to a device later does not drift any more, and a process that ends in the middle of the look finds it the next time.
func TestDriftEndsWhereItIsGiven(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.ReadBackNIC(inventory.ActivateReboot)
		m.Sim.Give("nic0", number("LINK", "2", inventory.ActivateReboot), number("VFS", "8", inventory.ActivateReboot))
		m.Sim.Inject("nic0", drivertest.FlashResets)
		stopped, judging := false, false
		m.OnSnapshot = func(s engine.Snapshot) {
			c := s.Job.CurrentStep()
			judging = c != nil && c.Kind == plan.Health
		}
		m.OnParameters = func() {
			if judging && !stopped {
				stopped = true
				m.Stop()
			}
		}
		view := m.Run(m.Job("j", id))
		requireComplete(t, m, view, "j")
		require.True(t, stopped)
		require.Equal(t, []journal.Setting{{Name: "LINK", Value: "2"}, {Name: "VFS", Value: "8"}}, view.Devices["nic0"].Drift)

		view = m.Run(settingsOnly(m, "given", id, journal.Setting{Name: "LINK", Value: "2"}))
		require.Equal(t, step.Complete, view.Job("uid-given").Record.Outcome)
		assert.Equal(t, []journal.Setting{{Name: "VFS", Value: "8"}}, view.Devices["nic0"].Drift)

		reset := settingsOnly(m, "reset", id)
		reset.Updates[0].ResetUnlisted = true
		reset.Record = engine.NewRecord(plan.Catalog{}, reset.Updates)
		view = m.Run(reset)
		require.Equal(t, step.Complete, view.Job("uid-reset").Record.Outcome)
		assert.Empty(t, view.Devices["nic0"].Drift)
	})
}
