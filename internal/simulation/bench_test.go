package simulation_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/simulation"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/bench"
)

// TestBenchmarks: each benchmark runs.
func TestBenchmarks(t *testing.T) { bench.Once(t) }

// BenchmarkWindows10000 simulates a rollout over 10,000 nodes of three pools, each with windows of its own, with failures and outages.
func BenchmarkWindows10000(b *testing.B) {
	o := options(threePools(bench.Size(10_000, 60)), windowed("cpu", "5%", "0 20 * * 6", "12h", "Europe/Berlin"),
		windowed("gpu", "2%", "0 22 * * *", "6h", "Europe/Paris"), windowed("storage", "1%", "0 4 * * 1-5", "3h", "America/New_York"))
	o.Work.Duration.Default, o.Work.Spread, o.Work.SlowBoot, o.Work.SlowBootFor = 25*time.Minute, 0.2, 0.01, 20*time.Minute
	o.Work.Failure = simulation.ByModel[float64]{Default: 0.01}
	o.Work.Person, o.Work.Outages, o.Work.OutageFor, o.Work.Reaction = 8*time.Hour, 0.1, 2*time.Hour, 20*time.Second
	begun := processorTime(b)
	for b.Loop() {
		r, err := simulation.Run(b.Context(), o)
		require.NoError(b, err)
		require.Equal(b, simulation.Complete, r.Report.Ending)
		b.ReportMetric(float64(r.Report.Passes), "passes/op")
	}
	b.ReportMetric((processorTime(b)-begun).Seconds()/float64(b.N), "cpu-s/op")
}

// processorTime is what the process has taken so far, the collection of garbage included.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkRollout5000 simulates a rollout over 5,000 nodes with failures, of which 2 % may be unavailable at once.
func BenchmarkRollout5000(b *testing.B) {
	o := options(fleet(bench.Size(5000, 50)), policy("default", "2%"))
	o.Work.Spread, o.Work.SlowBoot, o.Work.SlowBootFor = 0.2, 0.01, 20*time.Minute
	o.Work.Failure = simulation.ByModel[float64]{Default: 0.01}
	o.Work.Reaction = 20 * time.Second
	for b.Loop() {
		r, err := simulation.Run(b.Context(), o)
		require.NoError(b, err)
		require.Equal(b, simulation.Complete, r.Report.Ending)
		b.ReportMetric(r.Report.Ratio, "ratio")
		b.ReportMetric(float64(r.Report.Passes), "passes/op")
	}
}
