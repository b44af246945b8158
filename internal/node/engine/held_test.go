package engine_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/maintenance"
	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/enginetest"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// stepsJob is a job that changes the drive by a step this host does not know.
func stepsJob(t *testing.T, name, digest string) journal.Job {
	c, err := plan.NewCatalog(nil, plan.Definition{Kind: "scrub", Interface: "sim", Changes: true})
	require.NoError(t, err)
	steps, err := c.Requested([]plan.Request{{Name: "scrub"}}, []plan.Target{{Device: "node-disk0", Class: inventory.Disk, Driver: "sim"}})
	require.NoError(t, err)
	return journal.Job{
		Name: name, UID: "uid-" + name, Accepted: time.Now(), Requested: []journal.RequestedStep{{Name: "scrub"}},
		Updates: []journal.Update{{Class: inventory.Disk,
			Device: "node-disk0", UniqueID: "disk0", Version: "2.0", Digest: digest,
		}},
		Record: step.New(steps, step.Update{Device: "node-disk0"}),
	}
}

// A node must not be returned to service under the steps that run on it: the requested release waits for them.
func TestReleaseWaitsForSteps(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.Add(inventory.Disk, "disk0", inventory.ActivateNone)
		m.Sim.Inject("disk0", drivertest.FailWrite)
		requireFailed(t, m.Run(m.Job("a", id)), "a", step.WriteFailed, true)
		j, err := journal.Open(m.Dir)
		require.NoError(t, err)
		e := m.NewEngine(j)
		require.NoError(t, e.Submit(stepsJob(t, "b", "sha256:1")))
		require.NoError(t, e.Release("uid-a"))
		view, err := j.View()
		require.NoError(t, err)
		assert.True(t, view.Job("uid-a").Held())
		require.NoError(t, j.Close())

		view = m.Run()
		requireFailed(t, view, "b", step.StepFailed, false)
		assert.True(t, view.Job("uid-a").Held())
		assert.Zero(t, m.Window.Released)
		j, err = journal.Open(m.Dir)
		require.NoError(t, err)
		require.NoError(t, m.NewEngine(j).Release("uid-a"))
		require.NoError(t, j.Close())
		assert.False(t, m.Run().Job("uid-a").Held())
		assert.Equal(t, 1, m.Window.Released)
	})
}

// A node that its steps left held keeps no image from a device to which none is assigned: there is none, and a failure without an image
// would say that the device is unhealthy.
func TestHeldStepsBlameNoImage(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		m.Add(inventory.Disk, "disk0", inventory.ActivateNone)
		view := m.Run(stepsJob(t, "steps", ""))
		requireFailed(t, view, "steps", step.StepFailed, true)
		assert.Nil(t, view.Devices["disk0"].LastFailure)
	})
}

// A step that fails says nothing about the image that its device should run.
func TestFailedStepDoesNotKeepTheImageFromBeingPlanned(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.Add(inventory.Disk, "disk0", inventory.ActivateNone)
		j := m.Job("update", id)
		steps := stepsJob(t, "steps", j.Updates[0].Digest)
		steps.Cancel = new(string)
		requireFailed(t, m.Run(steps), "steps", step.Cancelled, false)
		requireComplete(t, m, m.Run(j), "update")
	})
}

// The cordon of a maintenance that is taken away can be told from a person's as long as its job, or one after it, has the node.
func TestCordonIsRemembered(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.Add(inventory.Disk, "disk0", inventory.ActivateNone)
		m.Window.Node, m.Window.Cordon = "u", maintenance.Cordon{Node: "u", By: "manager"}
		m.Sim.Inject("disk0", drivertest.FailWrite)
		view := m.Run(m.Job("a", id))
		requireFailed(t, view, "a", step.WriteFailed, true)
		require.Equal(t, m.Window.Cordon, view.Job("uid-a").Cordon)

		j, err := journal.Open(m.Dir)
		require.NoError(t, err)
		require.NoError(t, m.NewEngine(j).Submit(m.Job("b", id)))
		view, err = j.View()
		require.NoError(t, err)
		assert.Equal(t, m.Window.Cordon, view.Job("uid-b").Cordon, "before it has asked for a maintenance")
		require.NoError(t, j.Close())
	})
}
