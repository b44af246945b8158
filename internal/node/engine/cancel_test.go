package engine_test

import (
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

// A read that does not end is ended with the grace period, or by force before that (R000-66).
func TestGraceAndForceEndARead(t *testing.T) {
	for name, c := range map[string]struct {
		force bool
		ends  time.Duration
	}{"after the grace period": {false, 5 * time.Minute}, "by force": {true, 2 * time.Minute}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, m *enginetest.Machine) {
				id := m.AddWith(inventory.NIC, "nic0", inventory.Firmware{
					Activation: inventory.ActivateDeviceReset, Rollback: inventory.RollbackReadBack,
				})
				var asked time.Time
				m.SlowRead = func() {
					asked = time.Now()
					m.Engine.Cancel("uid-j", engine.Cancellation{Reason: "wrong night", Grace: 5 * time.Minute})
					m.Engine.Cancel("uid-j", engine.Cancellation{Reason: "wrong night", Grace: time.Hour}) // each look at the job asks again
					s, ok := m.Engine.Current()
					require.True(t, ok)
					require.NotNil(t, s.Cancelling)
					assert.Equal(t, engine.Awaited{Reason: step.GracePeriod, Until: asked.Add(5 * time.Minute)}, *s.Cancelling)
					if c.force {
						time.AfterFunc(2*time.Minute, func() { m.Engine.Cancel("uid-j", engine.Cancellation{Reason: "now", Force: true}) })
					}
				}
				j := requireFailed(t, m.Run(m.Job("j", id)), "j", step.Cancelled, false)
				assert.GreaterOrEqual(t, j.Finished.Sub(asked), c.ends)
				assert.Less(t, j.Finished.Sub(asked), c.ends+time.Minute)
				assert.Equal(t, c.force, j.CancelForce)
				assert.Empty(t, m.Sim.Operations())
			})
		})
	}
}

// A step that ends within the grace period has succeeded, and the next one does not begin (R000-66).
func TestStepThatEndsWithinItsGraceHasSucceeded(t *testing.T) {
	for name, c := range map[string]struct {
		grace time.Duration
		want  step.State
	}{"with a grace period": {30 * time.Minute, step.Succeeded}, "without": {0, step.StepFault}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, m *enginetest.Machine) {
				ids := fleet(m)
				m.OnSnapshot = func(s engine.Snapshot) {
					if at := s.Job.CurrentStep(); at != nil && at.Kind == plan.Maintenance && at.State == step.Running {
						m.Engine.Cancel("uid-j", engine.Cancellation{Reason: "wrong night", Grace: c.grace})
					}
				}
				j := requireFailed(t, m.Run(m.Job("j", ids...)), "j", step.Cancelled, false)
				assert.Equal(t, c.want, stateOf(j, plan.Maintenance))
				assert.Empty(t, m.Sim.Operations())
			})
		})
	}
}

// A step that is journalled has begun: the grace period does not end its attempt right away (R000-66).
func TestNewStepHasItsGrace(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.ReadBackNIC(inventory.ActivateDeviceReset)
		m.OnSnapshot = func(s engine.Snapshot) {
			if at := s.Job.CurrentStep(); at != nil && at.Kind == plan.Archive && at.State == step.Running {
				m.Engine.Cancel("uid-j", engine.Cancellation{Reason: "wrong night", Grace: time.Hour})
			}
		}
		j := requireFailed(t, m.Run(m.Job("j", id)), "j", step.Cancelled, false)
		assert.Equal(t, step.Succeeded, stateOf(j, plan.Archive))
		assert.Zero(t, m.Sim.Count(drivertest.OpWrite, "nic0"))
	})
}

// Force is refused while a write runs, and says so: the write ends as it does, and the job right after it (R000-66).
func TestForceDoesNotEndAWrite(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.Add(inventory.NIC, "nic0", inventory.ActivateDeviceReset)
		m.Sim.Inject("nic0", drivertest.HangWrite)
		go func() {
			time.Sleep(10 * time.Minute)
			m.Engine.Cancel("uid-j", engine.Cancellation{Reason: "wrong night"})
			assert.Equal(t, &engine.Awaited{Reason: step.WriteRunning}, cancelling(m))
			m.Engine.Cancel("uid-j", engine.Cancellation{Reason: "now", Force: true, Grace: time.Minute})
			time.Sleep(2 * time.Hour)
			synctest.Wait()
			assert.Equal(t, &engine.Awaited{Reason: step.WriteRunning, Force: true}, cancelling(m))
			assert.True(t, m.Sim.Busy("nic0"))
			m.Sim.Release("nic0")
		}()
		j := requireFailed(t, m.Run(m.Job("j", id)), "j", step.Cancelled, true)
		assert.True(t, j.CancelForce)
		assert.Equal(t, inventory.Version("2.0"), m.Sim.Firmware("nic0").Stored, "the write was not broken off")
		assert.Equal(t, 1, m.Sim.Count(drivertest.OpWrite, "nic0"))
		assert.Zero(t, m.Sim.Count(drivertest.OpActivate, "nic0"))
	})
}

// The daemon ends in the middle of a write of a job that is cancelled. Its successor knows that, waits for the write, and may be
// told to use force.
func TestForceAfterARestartWaitsForTheWriteThatRuns(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.Add(inventory.NIC, "nic0", inventory.ActivateDeviceReset)
		m.Sim.Inject("nic0", drivertest.HangWrite)
		go func() {
			time.Sleep(10 * time.Minute)
			m.Stop()
			time.Sleep(2 * time.Hour)
			assert.Equal(t, &engine.Awaited{Reason: step.WriteRunning}, cancelling(m))
			m.Engine.Cancel("uid-j", engine.Cancellation{Reason: "now", Force: true})
			time.Sleep(time.Hour)
			assert.Equal(t, &engine.Awaited{Reason: step.WriteRunning, Force: true}, cancelling(m))
			m.Sim.Release("nic0")
		}()
		view, over := m.Live(m.Job("j", id))
		assert.False(t, over)
		cancelled := *view.Job("uid-j")
		cancelled.Cancel = new("wrong night")
		jr, err := journal.Open(m.Dir)
		require.NoError(t, err)
		require.NoError(t, jr.Save(cancelled))
		require.NoError(t, jr.Close())
		j := requireFailed(t, m.Run(), "j", step.Cancelled, true)
		assert.True(t, j.CancelForce)
		assert.Equal(t, "now", *j.Cancel)
		assert.Equal(t, 1, m.Sim.Count(drivertest.OpWrite, "nic0"))
		assert.Equal(t, inventory.Version("2.0"), m.Sim.Firmware("nic0").Stored)
	})
}

func stateOf(j journal.Job, kind plan.Kind) step.State {
	for _, s := range j.Record.Steps {
		if s.Kind == kind {
			return s.State
		}
	}
	return ""
}

func cancelling(m *enginetest.Machine) *engine.Awaited {
	s, _ := m.Engine.Current()
	return s.Cancelling
}
