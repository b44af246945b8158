package step_test

import (
	"maps"
	"math/rand/v2"
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
	for seed := range uint64(2_000) {
		requireSound(t, seed, func(w *world) {
			random, reason, round := rand.New(rand.NewPCG(seed, 0x63616e63)), "wrong night", 0
			at, forceAt := random.IntN(61), random.IntN(91)
			graceUntil := at + random.IntN(21)
			w.person = func(f *step.Facts) {
				if round++; round < min(at, forceAt) {
					return
				}
				f.Cancel, f.CancelForce = &reason, round >= forceAt
				f.CancelGrace = !f.CancelForce && round < graceUntil
			}
			w.watch = w.judgeCancellation
		})
	}
}

// judgeCancellation judges what is decided about a job that a person cancelled.
func (w *world) judgeCancellation(r step.Record, f step.Facts, a step.Action) {
	i := r.Current()
	if f.Cancel == nil || r.Failure != nil || i < 0 || r.Steps[i].Kind == plan.Release {
		return
	}
	s := r.Steps[i]
	if s.State == step.Running && !s.Interruptible && len(step.CancelAwaits(r, f.CancelGrace)) == 0 {
		w.violate("R000-62", "%s is waited for, and nothing says so", s.Kind)
	}
	if a.Failure != nil && a.Failure.Reason == step.Cancelled {
		if s.State != step.Pending && !s.Interruptible || len(a.Failure.Blames) > 0 {
			w.violate("R000-62", "%s was cancelled while it ran, and %v are blamed", s.Kind, a.Failure.Blames)
		}
		if d := w.device(s.Device); d != nil && s.Writes() && w.now < d.until {
			w.violate("R000-66", "a write to %s was cancelled", s.Device)
		}
	}
	if a.Verb == step.Begin && s.State != step.Running && (r.Wrote() || s.Kind != plan.Verify && s.Kind != plan.Health) {
		w.violate("R000-66", "%s began", s.Kind)
	}
}

// After a cancellation by force no step of a driver that changes something does another round, whatever dies when (R000-66).
func TestEveryScheduleUnderForce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &stage{
			t: t, r: taskJob(t, plan.Request{Name: "verify-inventory"}, plan.Request{Name: "scrub"}, plan.Request{Name: "reset-bios-settings"}),
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
