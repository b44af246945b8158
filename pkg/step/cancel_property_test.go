package step_test

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// Whenever a person cancels, gracefully, with a grace period or by force, and whatever dies when: no write is ended, no step
// begins, and the job ends as it may end (R000-62, R000-66).
func TestEveryCancelledSchedule(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, r := newWorld(t)
		reason, round := "wrong night", 0
		at, forceAt := rapid.IntRange(0, 60).Draw(t, "cancelled in round"), rapid.IntRange(0, 90).Draw(t, "by force in round")
		graceUntil := at + rapid.IntRange(0, 20).Draw(t, "rounds of grace")
		w.person = func(f *step.Facts) {
			if round++; round < min(at, forceAt) {
				return
			}
			f.Cancel, f.CancelForce = &reason, round >= forceAt
			f.CancelGrace = !f.CancelForce && round < graceUntil
		}
		w.watch = func(r step.Record, f step.Facts, a step.Action) {
			i := r.Current()
			if f.Cancel == nil || r.Failure != nil || i < 0 || r.Steps[i].Kind == plan.Release {
				return
			}
			s := r.Steps[i]
			if s.State == step.Running && !s.Interruptible {
				assert.NotEmpty(t, step.CancelAwaits(r, f.CancelGrace), "%s is waited for, and nothing says so", s.Kind)
			}
			if a.Failure != nil && a.Failure.Reason == step.Cancelled {
				assert.True(t, s.State == step.Pending || s.Interruptible, "%s was cancelled while it ran", s.Kind)
				assert.Empty(t, a.Failure.Blames)
				if d := w.devices[s.Device]; d != nil && s.Writes() {
					require.Zero(t, d.orphan, "a write to %s was cancelled", s.Device)
				}
			}
			if a.Verb == step.Begin {
				assert.True(t, s.State == step.Running || !r.Wrote() && (s.Kind == plan.Verify || s.Kind == plan.Health), "%s began", s.Kind)
			}
		}
		run(t, w, &r)
		judgeEnd(t, w, r)
	})
}

// After a cancellation by force no step of a driver that changes something does another round, whatever dies when (R000-66).
func TestEveryScheduleOfStepsCancelledByForce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &stage{
			t: t, r: taskJob(t, plan.Request{Name: "verify-inventory"}, plan.Request{Name: "erase"}, plan.Request{Name: "reset-bios-settings"}),
			f: ready, maintenance: step.MaintenanceNone, changed: map[string]int{}, done: map[string]byte{},
		}
		reason, forceAt, before := "wrong night", rapid.IntRange(0, 30).Draw(t, "by force in round"), map[string]int{}
		for round := 0; w.r.Outcome == ""; round++ {
			require.Less(t, round, 500, "the job does not end: %+v", w.r)
			if round == forceAt {
				w.f.Cancel, w.f.CancelForce = &reason, true
				before = maps.Clone(w.changed)
			}
			w.round()
		}
		if w.f.CancelForce {
			assert.Equal(t, before, w.changed, "something was changed after the cancellation")
		}
		w.judge()
	})
}
