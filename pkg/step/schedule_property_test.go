package step_test

import (
	"flag"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/bench"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// schedules is how many schedules TestEverySchedulePropertyHolds plays; for more: -args -schedules 1000000.
var schedules = flag.Uint64("schedules", 20_000, "how many random schedules are played")

// TestEverySchedulePropertyHolds proves R001-6, R003-48: whatever dies when, no invariant of the update transaction is violated.
func TestEverySchedulePropertyHolds(t *testing.T) {
	for seed := range *schedules {
		requireSound(t, seed, sound)
	}
}

// What once violated an invariant, and lies beyond the schedules above, is run for ever.
func TestOnceFailedSchedulesHold(t *testing.T) {
	for _, seed := range []uint64{36_830, 55_349, 83_622} { // a node judged again that may have been returned already
		requireSound(t, seed, sound)
	}
}

func requireSound(t *testing.T, seed uint64, change func(*world)) {
	t.Helper()
	if w, _ := play(seed, change); len(w.violations) > 0 {
		t.Fatalf("seed %d: %s: %s\n%s", seed, w.violations[0].invariant, w.violations[0].message, strings.Join(w.trace, "\n"))
	}
}

func TestSeedFixesSchedule(t *testing.T) {
	for seed := range uint64(50) {
		_, first := play(seed, sound)
		_, second := play(seed, sound)
		require.Equal(t, first, second)
	}
}

// The schedules are worth something: they come to every end a job may have.
func TestSchedulesComeToEveryEnd(t *testing.T) {
	ends := map[string]int{}
	for seed := range uint64(3_000) {
		_, r := play(seed, sound)
		ends[string(r.Outcome)]++
		if r.RolledBack() {
			ends["rolled back"]++
		}
		if r.NeedsIntervention() {
			ends["needs intervention"]++
		}
		if r.Released {
			ends["released"]++
		}
		if r.Restarts > 0 {
			ends["restarted"]++
		}
		if r.Failure != nil {
			ends[string(r.Failure.Reason)]++
		}
	}
	for _, end := range []string{
		"Complete", "Failed", "rolled back", "needs intervention", "released", "restarted", "Unhealthy", "VerifyFailed", "WriteFailed",
		"ActivationFailed", "RebootFailed", "MaintenanceLost", "ArchiveFailed", "RollbackUnavailable", "PowerCycleRequired",
		"Cancelled", "MaintenanceUnavailable", "TimedOut", "HardwareChanged",
	} {
		assert.NotZero(t, ends[end], end)
	}
	t.Log(ends)
}

// A machine with a fault is found out.
func TestFaultyMachinesAreFoundOut(t *testing.T) {
	for fault, machine := range map[string]decider{
		"writes without asking for the maintenance": func(r step.Record, f step.Facts, l step.Limits) step.Action {
			f.Maintenance = step.MaintenanceReady
			return step.Next(r, f, l)
		},
		"does not look for writes that go on": func(r step.Record, f step.Facts, l step.Limits) step.Action {
			for name, d := range f.Devices {
				d.WriteRunning = false
				f.Devices[name] = d
			}
			return step.Next(r, f, l)
		},
		"takes every host for healthy": func(r step.Record, f step.Facts, l step.Limits) step.Action {
			f.HealthKnown, f.Unhealthy = true, nil
			return step.Next(r, f, l)
		},
		"does not count": func(r step.Record, f step.Facts, l step.Limits) step.Action {
			r = r.Clone()
			for i := range r.Steps {
				r.Steps[i].Attempt = min(r.Steps[i].Attempt, 1)
			}
			return step.Next(r, f, l)
		},
		"writes before it archives": func(r step.Record, f step.Facts, l step.Limits) step.Action {
			if i := r.Current(); i >= 0 && r.Steps[i].Kind == plan.Archive {
				r = r.Clone()
				r.Steps[i].State = step.StepFault
			}
			return step.Next(r, f, l)
		},
		"holds no node": func(r step.Record, f step.Facts, l step.Limits) step.Action {
			a := step.Next(r, f, l)
			if a.Failure != nil {
				held := *a.Failure
				held.Held, a.Failure = false, &held
			}
			return a
		},
	} {
		t.Run(fault, func(t *testing.T) {
			for seed := range uint64(2_000) {
				if w, _ := play(seed, func(w *world) { w.next = machine }); len(w.violations) > 0 {
					return
				}
			}
			t.Fatal("not found out in 2000 schedules")
		})
	}
}

// TestBenchmarks: each benchmark runs.
func TestBenchmarks(t *testing.T) { bench.Once(t) }

func BenchmarkSchedule(b *testing.B) {
	for i := range b.N {
		play(uint64(i), sound) //nolint:gosec // not negative
	}
}
