package steps_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/node/engine"
	"github.com/nodefirmware/node-firmware-operator/internal/node/erase"
	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/internal/node/steps"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// newDrives is a host with three drives. A job that does not end ends with its process.
func newDrives(t *testing.T) *drive {
	d := newDrive(t, driver.EraseCrypto)
	d.dies = 20000
	d.plug("disk1", "S2", driver.EraseCrypto)
	d.plug("disk2", "S3", driver.EraseCrypto)
	return d
}

// toldTo counts how often a drive began to erase itself.
func (d *drive) toldTo(name string) int { return d.sim.Count(drivertest.OpErase, name) }

// proven lists the drives that the job has proven erased.
func proven(j journal.Job) []string {
	var out []string
	for _, s := range j.Record.Steps {
		if erase.ReadProof(s.Data) != nil && s.State == step.Succeeded {
			out = append(out, s.Device)
		}
	}
	return out
}

// R003-43: all drives of a node erase themselves at the same time, each is proven as soon as it is done, and all say how far they are.
func TestDrivesAreErasedSideBySide(t *testing.T) {
	d := newDrives(t)
	d.sim.Inject("disk0", drivertest.HangErase)
	before, beside := 0, false
	j := d.life(d.job(), func(s engine.Snapshot) bool {
		for i, u := range s.Beside {
			beside = beside || u.Percent > 0 && s.Job.Record.Steps[i].Device == "disk2"
		}
		done := proven(s.Job)
		if len(done) == 0 {
			before = d.toldTo("disk0") + d.toldTo("disk1") + d.toldTo("disk2")
		}
		if len(done) == 2 {
			assert.ElementsMatch(t, []string{"disk1", "disk2"}, done, "the one that takes long keeps none from being proven")
			d.sim.Cure("disk0", drivertest.HangErase)
		}
		return false
	})
	require.Equal(t, step.Complete, j.Record.Outcome, "%+v", j.Record.Failure)
	assert.Equal(t, 3, before, "none was done before the last one had begun")
	assert.True(t, beside, "how far the last one is")
	assert.Equal(t, []string{"disk0", "disk1", "disk2"}, proven(j))
}

// R003-43, R003-48: a drive that fails keeps none of those that erase themselves from being proven, and is named; so is each that fails.
func TestDriveThatFailsStopsNoOther(t *testing.T) {
	d := newDrives(t)
	d.sim.Inject("disk0", drivertest.FailErase)
	d.sim.Inject("disk2", drivertest.LieErase)
	j := d.erase()
	d.fails(j, "the drive is NOT proven erased: its erasure by")
	assert.Contains(t, j.Record.Failure.Message, "; disk2: the drive is NOT proven erased, though it says so")
	assert.True(t, j.Record.Failure.Held)
	assert.Equal(t, []string{"disk1"}, proven(j))
}

// A drive that is not begun any more after another one failed is said to be not reached; those before it are followed.
func TestDriveIsNotBegunAfterAnotherFailed(t *testing.T) {
	d := newDrives(t)
	j := d.life(d.job(), func(s engine.Snapshot) bool {
		if d.toldTo("disk0") == 1 && d.toldTo("disk1") == 0 {
			d.sim.Inject("disk1", drivertest.FailWrite)
		}
		return false
	})
	d.fails(j, "nothing was erased: ")
	assert.Equal(t, []string{"disk0"}, proven(j))
	assert.Zero(t, d.toldTo("disk1")+d.toldTo("disk2"))
	assert.Equal(t, "not reached", j.Record.Steps[4].Message)
}

// A cancellation waits for the drives that erase themselves, and begins no other. By force it ends the job, which names each of them.
func TestCancellationWaitsForAllDrives(t *testing.T) {
	for name, force := range map[string]bool{"it waits": false, "by force": true} {
		t.Run(name, func(t *testing.T) {
			d := newDrives(t)
			d.sim.Inject("disk0", drivertest.HangErase)
			d.sim.Inject("disk1", drivertest.HangErase)
			awaited := false
			j := d.life(d.job(), func(s engine.Snapshot) bool {
				if d.toldTo("disk1") == 1 && d.toldTo("disk2") == 0 {
					d.cancels(force)
				}
				if s.Cancelling != nil && s.Percent != nil {
					awaited = awaited || s.Cancelling.Reason == step.WriteRunning
					d.sim.Cure("disk0", drivertest.HangErase)
					d.sim.Cure("disk1", drivertest.HangErase)
				}
				return false
			})
			require.Equal(t, step.Failed, j.Record.Outcome)
			assert.Equal(t, step.Cancelled, j.Record.Failure.Reason)
			assert.Zero(t, d.toldTo("disk2"))
			if force {
				assert.Empty(t, proven(j))
				assert.Equal(t, "disk1", j.Record.Failure.Device)
				const unproven = "; the drive may be erasing itself, which nothing stops, and is NOT proven erased"
				assert.Equal(t, "cancelled by force, so the step is not begun again: cancelled by a person"+unproven+"; disk0: given up by force"+unproven,
					j.Record.Failure.Message)
				return
			}
			assert.True(t, awaited)
			assert.Equal(t, []string{"disk0", "disk1"}, proven(j))
		})
	}
}

// R003-43, R003-48: wherever the process or the power ends, each drive is told once and proven.
func TestDrivesKilledAnywhereAreToldOnce(t *testing.T) {
	survived := false
	for at := 1; !survived; at++ {
		require.Less(t, at, 1000)
		d := newDrive(t, driver.EraseCrypto)
		d.plug("disk1", "S2", driver.EraseCrypto)
		d.sim.NoLog("disk1") // a SAS drive
		d.dies = at
		if at%2 == 0 {
			d.power = func() { d.boots++; d.sim.PowerCycle() }
		}
		j := d.erase()
		survived = d.points < at
		require.Equal(t, step.Complete, j.Record.Outcome, "killed at %d: %+v", at, j.Record.Failure)
		require.Len(t, proven(j), 2, "killed at %d", at)
		for i := range 2 {
			require.Equal(t, 1, d.toldTo(fmt.Sprint("disk", i)), "killed at %d", at)
		}
	}
}

// A drive whose answer is lost, and whose job is cancelled at that moment, may have begun: it is followed.
func TestDriveThatMayHaveBegunIsFollowedAfterACancellation(t *testing.T) {
	d := newDrive(t, driver.EraseCrypto)
	d.told = func() error {
		d.cancels(false)
		return errors.New("no answer")
	}
	j := d.erase()
	require.Equal(t, step.Failed, j.Record.Outcome)
	assert.Equal(t, step.Cancelled, j.Record.Failure.Reason)
	assert.Equal(t, []string{"disk0"}, proven(j))
	assert.Equal(t, 1, d.begun())
}

// Of drives that erase themselves the one that makes no progress is named, and one that is gone ends its step, also while another one is looked at.
func TestDriveBesideThatIsStuckIsNamed(t *testing.T) {
	d := newDrives(t)
	d.deadline, d.limits = time.Millisecond, step.DefaultLimits()
	d.limits.Read = 20 * time.Millisecond
	d.sim.Inject("disk0", drivertest.HangErase)
	d.sim.Inject("disk1", drivertest.HangErase)
	away := &without{Machine: d.tasks.Machine}
	d.tasks.Machine = away
	j := d.life(d.job(), func(s engine.Snapshot) bool {
		if slices.ContainsFunc(d.overdue, func(says string) bool { return strings.HasPrefix(says, "disk0, disk1 made no progress for ") }) {
			away.name = "disk1"
		}
		if s.Job.Record.Failure != nil {
			d.sim.Cure("disk0", drivertest.HangErase)
		}
		return false
	})
	d.fails(j, "no device with the unique id disk1 is on this node")
	assert.Equal(t, []string{"disk0", "disk2"}, proven(j))
}

// without is a machine without a device.
type without struct {
	steps.Machine
	name string
}

// Find implements steps.Machine.
func (w *without) Find(ctx context.Context, class inventory.Class, uniqueID string) (inventory.Device, bool, error) {
	if uniqueID == w.name {
		return inventory.Device{}, false, nil
	}
	return w.Machine.Find(ctx, class, uniqueID)
}
