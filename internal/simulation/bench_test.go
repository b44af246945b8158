package simulation_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/simulation"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/bench"
)

// TestBenchmarks: each benchmark runs.
func TestBenchmarks(t *testing.T) { bench.Once(t) }

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
