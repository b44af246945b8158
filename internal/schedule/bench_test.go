package schedule_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/nodefirmware/node-firmware-operator/internal/schedule"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/bench"
)

// TestBenchmarks: each benchmark runs.
func TestBenchmarks(t *testing.T) { bench.Once(t) }

// BenchmarkDecide10000 is one pass over 10,000 nodes, each with a queued job, and 50 policies. Each policy admits as many
// nodes as its budget of 10 % allows.
func BenchmarkDecide10000(b *testing.B) { benchmark(b, newFleetOf(10_000, 0), 1000) }

// BenchmarkDecideWithWindows10000 is the same pass where each policy has windows that allow and deny, and a budget for each rack.
func BenchmarkDecideWithWindows10000(b *testing.B) {
	benchmark(b, newFleetOf(10_000, withWindows), 1000)
}

// BenchmarkDecideWithWaves10000 is a pass in the middle of rollouts, with all that a policy can have.
func BenchmarkDecideWithWaves10000(b *testing.B) {
	benchmark(b, newFleetOf(10_000, withWindows|withWaves), 400)
}

// BenchmarkDecideShut10000 is a pass while no policy admits anything, as it comes with every event for most of the week.
func BenchmarkDecideShut10000(b *testing.B) {
	benchmark(b, newFleetOf(10_000, withWindows|withWaves|shut), 0)
}

// benchmark reports the processor time too, which other work on the machine changes less than the time on the wall.
func benchmark(b *testing.B, f schedule.Facts, admits int) {
	b.Helper()
	begun := processorTime(b)
	for b.Loop() {
		if d := schedule.Decide(f); len(d.Admit) != admits {
			b.Fatalf("admits %d", len(d.Admit))
		}
	}
	b.ReportMetric(float64((processorTime(b)-begun).Microseconds())/1000/float64(b.N), "cpu-ms/op")
}

// processorTime is what the process has taken so far, the collection of garbage included.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
