package engine_test

import (
	"context"
	"errors"
	"slices"
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

// sentry is a guard that notes how many writes there were each time it was installed.
type sentry struct {
	m         *enginetest.Machine
	refuses   error
	installed bool
	before    []int
	// stuck is how often it cannot be removed.
	stuck, removed int
}

// Install implements engine.Guard.
func (s *sentry) Install(context.Context) error {
	s.before = append(s.before, s.m.Sim.Count(drivertest.OpWrite, "nic0"))
	s.installed = s.refuses == nil
	return s.refuses
}

// Remove implements engine.Guard.
func (s *sentry) Remove(context.Context) error {
	if s.stuck > 0 {
		s.stuck--
		return errors.New("read-only file system")
	}
	s.removed++
	s.installed = false
	return nil
}

func TestGuardIsThereBeforeTheWriteAndBeforeTheReboot(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		guard := &sentry{m: m}
		m.Guard = guard
		view := m.Run(m.Job("j", m.ReadBackNIC(inventory.ActivateReboot)))
		require.Equal(t, step.Complete, view.Job("uid-j").Record.Outcome)
		assert.Equal(t, []int{0, 1}, guard.before, "before the first write, and before the reboot")
		assert.Equal(t, &journal.Guard{}, view.Job("uid-j").Guard)
	})
}

func TestJobThatUpdatesNoNetworkAdapterNeedsNoGuard(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		guard := &sentry{m: m}
		m.Guard = guard
		view := m.Run(m.Job("j", m.Add(inventory.BIOS, "bios", inventory.ActivateReboot)))
		require.Equal(t, step.Complete, view.Job("uid-j").Record.Outcome)
		assert.Empty(t, guard.before)
		assert.Nil(t, view.Job("uid-j").Guard)
	})
}

func TestJobContinuesWithoutGuard(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		m.Guard = &sentry{m: m, refuses: errors.New("install guard: the kubelet has no directory for static pods")}
		view := m.Run(m.Job("j", m.ReadBackNIC(inventory.ActivateReboot)))
		require.Equal(t, step.Complete, view.Job("uid-j").Record.Outcome)
		assert.Equal(t, "install guard: the kubelet has no directory for static pods", view.Job("uid-j").Guard.Missing)
		flashing := slices.IndexFunc(m.Snapshots, func(s engine.Snapshot) bool {
			current := s.Job.CurrentStep()
			return s.Job.Guard != nil && current != nil && current.Kind == plan.Flash
		})
		assert.GreaterOrEqual(t, flashing, 0, "it is reported while there is somebody to report to")
	})
}

// What was found before the reboot alone is known after it: nothing else is journalled in between.
func TestWhatIsFoundAboutTheGuardBeforeTheRebootIsJournalled(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		guard := &sentry{m: m}
		m.Guard = lastRefused{guard}
		view, over := m.Live(m.Job("j", m.ReadBackNIC(inventory.ActivateReboot))) // until its reboot
		require.False(t, over)
		require.Len(t, guard.before, 2)
		require.NotNil(t, view.Job("uid-j").Guard)
		assert.Equal(t, "the kubelet has gone", view.Job("uid-j").Guard.Missing)
	})
}

// lastRefused is a guard that is refused after the write.
type lastRefused struct{ *sentry }

// Install implements engine.Guard.
func (l lastRefused) Install(ctx context.Context) error {
	if err := l.sentry.Install(ctx); err != nil || len(l.before) < 2 {
		return err
	}
	return errors.New("the kubelet has gone")
}

// A kubelet that refuses the static pod costs a minute each time.
func TestHostThatRefusedAGuardIsAskedAgainOnlyBeforeTheReboot(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		guard := &sentry{m: m, refuses: errors.New("the kubelet has not started the static pod")}
		m.Guard = guard
		view := m.Run(m.Job("j", m.ReadBackNIC(inventory.ActivateReboot), m.Add(inventory.NIC, "nic1", inventory.ActivateReboot),
			m.Add(inventory.NIC, "nic2", inventory.ActivateReboot)))
		require.Equal(t, step.Complete, view.Job("uid-j").Record.Outcome)
		assert.Equal(t, []int{0, 1}, guard.before)
	})
}

func TestGuardIsRemovedWhenNoJobIsLeftAndByADaemonThatFindsNone(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		guard := &sentry{m: m, installed: true, stuck: 2}
		m.Guard = guard
		j, err := journal.Open(m.Dir)
		require.NoError(t, err)
		defer func() { require.NoError(t, j.Close()) }()
		ctx, stop := context.WithCancel(t.Context())
		m.Stop = stop
		m.Engine = m.NewEngine(j)
		done := make(chan error, 1)
		go func() { done <- m.Engine.Run(ctx) }()
		<-time.After(10 * time.Minute)
		assert.False(t, guard.installed, "one that could not be removed is removed later")
		require.NoError(t, m.Engine.Submit(m.Job("j", m.ReadBackNIC(inventory.ActivateNone))))
		<-time.After(time.Hour)
		view, err := j.View()
		require.NoError(t, err)
		require.Equal(t, step.Complete, view.Job("uid-j").Record.Outcome)
		assert.Equal(t, []int{0}, guard.before)
		assert.False(t, guard.installed)
		assert.Equal(t, 2, guard.removed)
		stop()
		require.NoError(t, <-done)
	})
}
