package engine_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/node/engine"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/enginetest"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// uses answers what uses each drive, by unique id.
type uses struct {
	of     map[string]inventory.Use
	arrays []inventory.Array
	err    error
}

func (u *uses) Use(_ context.Context, id inventory.Identity) (inventory.Use, error) {
	return u.of[id.UniqueID], u.err
}

func (u *uses) Arrays(context.Context) ([]inventory.Array, error) { return u.arrays, nil }

func member(a inventory.Array) inventory.Use { return inventory.Use{Arrays: []inventory.Array{a}} }

// waited reports whether the job said that it waits for something with the text.
func waited(m *enginetest.Machine, text string) bool {
	return slices.ContainsFunc(m.Snapshots, func(s engine.Snapshot) bool { return strings.Contains(s.Waiting, text) })
}

func TestADriveOfADegradedArrayIsLeftAloneUntilTheArrayIsWhole(t *testing.T) {
	for name, a := range map[string]inventory.Array{
		"degraded": {Name: "md0", Degraded: true}, "resyncing": {Name: "md0", Rebuilds: "resync"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, m *enginetest.Machine) {
				id := m.Add(inventory.Disk, "disk0", inventory.ActivateDeviceReset)
				u := &uses{of: map[string]inventory.Use{"disk0": member(a)}}
				m.Uses = u
				m.OnSnapshot = func(s engine.Snapshot) {
					if strings.Contains(s.Waiting, "md0") {
						assert.Zero(t, m.Sim.Count(drivertest.OpWrite, "disk0"))
						assert.Zero(t, m.Window.Scheduled, "the node stays in service while it waits")
						u.of["disk0"] = member(inventory.Array{Name: "md0"})
					}
				}
				requireComplete(t, m, m.Run(m.Job("j", id)), "j")
				assert.True(t, waited(m, "md0"), "the reason is visible while it waits")
			})
		})
	}
}

// The array loses another drive after the image was written: the reset would take it down.
func TestADriveIsNotResetWhileItsArrayRebuilds(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.Add(inventory.Disk, "disk0", inventory.ActivateDeviceReset)
		u := &uses{of: map[string]inventory.Use{}}
		m.Uses = u
		m.OnSnapshot = func(s engine.Snapshot) {
			switch {
			case !s.Transition: // the drive is busy with what reports its progress
			case strings.Contains(s.Waiting, "recover"):
				assert.Zero(t, m.Sim.Count(drivertest.OpActivate, "disk0"))
				u.of["disk0"] = inventory.Use{}
			case m.Sim.Count(drivertest.OpActivate, "disk0") == 0 && m.Sim.Count(drivertest.OpWrite, "disk0") > 0:
				u.of["disk0"] = member(inventory.Array{Name: "md0", Degraded: true, Rebuilds: "recover"})
			}
		}
		requireComplete(t, m, m.Run(m.Job("j", id)), "j")
		assert.True(t, waited(m, "recover"))
	})
}

func TestADriveThatTheHostUsesIsActivatedByAReboot(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.Add(inventory.Disk, "disk0", inventory.ActivateDeviceReset)
		m.Uses = &uses{of: map[string]inventory.Use{"disk0": {By: []string{"sda2 is mounted on /"}}}}
		j := requireComplete(t, m, m.Run(m.Job("j", id)), "j")
		assert.Zero(t, m.Sim.Count(drivertest.OpActivate, "disk0"), "it is not reset under its file system")
		assert.Equal(t, 1, m.Sim.Count(drivertest.OpReboot, ""))
		said := slices.ContainsFunc(j.Record.Steps, func(s step.Step) bool { return strings.Contains(s.Message, "sda2 is mounted on /") })
		assert.True(t, said, "the reason is in the journal")
	})
}

// A mirror survives a drive, but nothing on the node would say or undo what became of it.
func TestADriveThatCarriesTheNodeIsActivatedByItsReboot(t *testing.T) {
	for name, use := range map[string]inventory.Use{
		"alone":    {By: []string{"sda2 is mounted on /"}, Carries: "/"},
		"mirrored": {Arrays: []inventory.Array{{Name: "md0"}}, Carries: "/var/lib/etcd"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, m *enginetest.Machine) {
				id := m.Add(inventory.Disk, "disk0", inventory.ActivateDeviceReset)
				m.Uses = &uses{of: map[string]inventory.Use{"disk0": use}}
				j := requireComplete(t, m, m.Run(m.Job("j", id)), "j")
				assert.Zero(t, m.Sim.Count(drivertest.OpActivate, "disk0"))
				assert.Equal(t, 1, m.Sim.Count(drivertest.OpReboot, ""))
				said := slices.ContainsFunc(j.Record.Steps, func(s step.Step) bool { return strings.Contains(s.Message, "it carries "+use.Carries+" of the node") })
				assert.True(t, said)
			})
		})
	}
}

func TestADriveThatWouldStartItsFirmwareUnderTheNodeIsRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.Add(inventory.Disk, "disk0", inventory.ActivateDeviceReset)
		fw := m.Sim.Firmware("disk0")
		fw.AtWrite = true
		m.Sim.SetFirmware("disk0", fw)
		other := m.Add(inventory.Disk, "disk1", inventory.ActivateNone)
		m.Uses = &uses{of: map[string]inventory.Use{"disk0": {Carries: "/"}, "disk1": {By: []string{"sdb1 is mounted on /srv"}}}}
		failed := requireFailed(t, m.Run(m.Job("j", id)), "j", step.NotUpdatable, false)
		assert.Contains(t, failed.Record.Failure.Message, "boots from another drive")
		assert.Zero(t, m.Sim.Count(drivertest.OpWrite, "disk0"))
		requireComplete(t, m, m.Run(m.Job("other", other)), "other")
	})
}

// What cannot be read is not absent.
func TestADriveWhoseUseCannotBeReadIsNotTouched(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.Add(inventory.Disk, "disk0", inventory.ActivateDeviceReset)
		m.Uses = &uses{err: errors.New("read proc/1/mountinfo: input/output error")}
		j := requireFailed(t, m.Run(m.Job("j", id)), "j", step.ReadFailed, false)
		assert.Contains(t, j.Record.Failure.Message, "mountinfo")
		assert.Zero(t, m.Sim.Count(drivertest.OpWrite, "disk0"))
	})
}

func TestOneDriveOfArrayPerJob(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		a, b := m.Add(inventory.Disk, "disk0", inventory.ActivateDeviceReset), m.Add(inventory.Disk, "disk1", inventory.ActivateDeviceReset)
		whole := member(inventory.Array{Name: "md0"})
		m.Uses = &uses{of: map[string]inventory.Use{"disk0": whole, "disk1": whole}}
		j := requireFailed(t, m.Run(m.Job("j", a, b)), "j", step.HardwareChanged, false)
		assert.True(t, j.Record.Failure.Reason.Passing(), "it is planned again, one by one")
		assert.Contains(t, j.Record.Failure.Message, "node-disk0 and node-disk1 are both drives of md0")
		assert.Zero(t, m.Sim.Count(drivertest.OpWrite, "disk0"))
		requireComplete(t, m, m.Run(m.Job("k", a)), "k")
	})
}

// New firmware that makes a drive drop out of its array is at fault, though the drive itself answers.
func TestRollsBackDriveLeavingArray(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.AddWith(inventory.Disk, "disk0", inventory.Firmware{
			Activation: inventory.ActivateDeviceReset, Rollback: inventory.RollbackSlot,
		})
		u := &uses{of: map[string]inventory.Use{"disk0": member(inventory.Array{Name: "md0"})}, arrays: []inventory.Array{{Name: "md0"}}}
		m.Uses, m.Arrays = u, u
		m.OnSnapshot = func(s engine.Snapshot) {
			if !s.Transition { // the drive is busy with what reports its progress
				return
			}
			broken := m.Sim.Firmware("disk0").Running == "2.0"
			u.arrays = []inventory.Array{{Name: "md0", Degraded: broken}}
			if broken { // it is no active member any more
				u.of = nil
			}
		}
		j := requireFailed(t, m.Run(m.Job("j", id)), "j", step.Unhealthy, false)
		assert.Contains(t, j.Record.Failure.Message, "array md0 is degraded")
		assert.True(t, j.Record.RolledBack())
	})
}

// TestADriveThatNeedsItsPowerRemovedAsksForIt: its image is not at fault, and nothing is rolled back.
func TestADriveThatNeedsItsPowerRemovedAsksForIt(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.AddWith(inventory.Disk, "disk0", inventory.Firmware{Activation: inventory.ActivateReboot, Rollback: inventory.RollbackSlot})
		m.Sim.Inject("disk0", drivertest.NeedPower)
		view := m.Run(m.Job("j", id))
		j := requireFailed(t, view, "j", step.PowerCycleRequired, true)
		assert.Contains(t, j.Record.Failure.Message, "cut its power")
		assert.Empty(t, j.Record.Failure.Blames)
		assert.Nil(t, j.Record.Rollback)
		assert.Nil(t, view.Devices["disk0"].Unhealthy)

		m.Sim.PowerCycle()
		retry := m.Job("k", id)
		asked := "again"
		retry.Retry = &asked
		view = m.Run(retry)
		requireComplete(t, m, view, "k")
		assert.Equal(t, 1, m.Sim.Count(drivertest.OpWrite, "disk0"), "nothing is written again")
		require.False(t, view.Job("uid-j").Held())
	})
}
