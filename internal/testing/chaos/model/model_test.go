package model_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/bench"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/chaos/model"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

func TestNoScheduleViolatesAnInvariant(t *testing.T) {
	for seed := range uint64(20_000) {
		requireSound(t, seed)
	}
}

// What once violated an invariant, and lies beyond the schedules above, is run for ever.
func TestSchedulesThatOnceFailedAreSound(t *testing.T) {
	for _, seed := range []uint64{36_830, 55_349, 83_622} { // a node judged again that may have been returned already
		requireSound(t, seed)
	}
}

func requireSound(t *testing.T, seed uint64) {
	t.Helper()
	if r := model.Run(seed); len(r.Violations) > 0 {
		t.Fatalf("seed %d: %s: %s\n%s", seed, r.Violations[0].Invariant, r.Violations[0].Message, strings.Join(r.Trace, "\n"))
	}
}

func TestScheduleOfASeedIsAlwaysTheSame(t *testing.T) {
	for seed := range uint64(50) {
		first, second := model.Run(seed), model.Run(seed)
		require.Equal(t, first, second)
	}
}

// The schedules are worth something: they come to every end a job may have.
func TestSchedulesComeToEveryEnd(t *testing.T) {
	ends := map[string]int{}
	for seed := range uint64(3_000) {
		r := model.Run(seed).Record
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
	for fault, machine := range map[string]model.Decider{
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
				if len(model.RunWith(seed, machine).Violations) > 0 {
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
		model.Run(uint64(i)) //nolint:gosec // not negative
	}
}
