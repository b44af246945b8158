package chaos_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/chaos"
)

// A part of what `make chaos` runs: every boundary of three scenarios, and some seeds (R003-43, R003-48, R003-49, R002-25, R002-27).
func TestNoBoundaryOfThreeScenariosAndNoSeedViolatesAnInvariant(t *testing.T) {
	scenarios, err := chaos.Named([]string{"disk-slot", "bad-nic-no-way-back", "erase-a-drive-that-lies"})
	require.NoError(t, err)
	r, err := chaos.Campaign(t.Context(), chaos.Options{Seeds: 50, Seed: 1, Scenarios: scenarios})
	require.NoError(t, err)
	var text bytes.Buffer
	r.Summary(&text)
	require.Empty(t, r.Violations, text.String())
	assert.Greater(t, r.Boundaries, 200)
	assert.Equal(t, 50, r.Campaigns[chaos.CampaignRandom])
	assert.InDelta(t, 0.06, r.UpperBound95, 1e-9)
	assert.Contains(t, text.String(), "No invariant was violated.")
	for _, end := range []string{"complete", "failed", "held", "needs intervention", "rolled back"} {
		assert.NotZero(t, r.Ends[end], end)
	}
}

// Every run that ever violated an invariant is run again.
func TestKeptRuns(t *testing.T) {
	files, err := filepath.Glob("testdata/seeds/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".json"), func(t *testing.T) {
			raw, err := os.ReadFile(file)
			require.NoError(t, err)
			kept, err := chaos.ParseKept(raw)
			require.NoError(t, err)
			require.NotEmpty(t, kept.Why)
			run, err := kept.Run()
			require.NoError(t, err)
			out, err := run.Do()
			require.NoError(t, err)
			assert.Empty(t, out.Violations, strings.Join(out.Trace, "\n"))
			assert.Equal(t, len(kept.Faults), out.Struck, "a fault that does not strike any more keeps nothing: move it")
		})
	}
}

// A seed has one history, on any machine and at any load: on one processor, and on eight with goroutines beside it that never
// rest. What a seed once showed can be shown again.
func TestRunOfASeedIsAlwaysTheSame(t *testing.T) {
	const seeds = 200
	traces := func() []string {
		var out []string
		for seed := range uint64(seeds) {
			run, err := chaos.RandomRun(seed, "")
			require.NoError(t, err)
			o, err := run.Do()
			require.NoError(t, err)
			out = append(out, strings.Join(o.Trace, "\n"))
		}
		return out
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	alone := traces()
	runtime.GOMAXPROCS(8)
	defer busy()()
	for seed, trace := range traces() {
		require.Equal(t, alone[seed], trace, "seed %d", seed)
	}
}

// busy keeps all processors busy until it is ended.
func busy() (end func()) {
	var over atomic.Bool
	var running sync.WaitGroup
	for range 2 {
		running.Go(func() {
			for n := 0; !over.Load(); n++ {
				if n%1000 == 0 {
					runtime.Gosched()
				}
			}
		})
	}
	return func() { over.Store(true); running.Wait() }
}

func TestInterruptedCampaignReports(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	third := func(_ string, done, _ int) {
		if done == 3 {
			cancel()
		}
	}
	r, err := chaos.Campaign(ctx, chaos.Options{Seeds: 1_000_000, Scenarios: []chaos.Scenario{}, Progress: third})
	require.ErrorIs(t, err, context.Canceled)
	assert.Less(t, r.Campaigns[chaos.CampaignRandom], 100)
	assert.NotZero(t, r.Campaigns[chaos.CampaignRandom])
}

func TestReportIsWritten(t *testing.T) {
	r, err := chaos.Campaign(t.Context(), chaos.Options{Seed: 7, Seeds: 10, Scenarios: []chaos.Scenario{}})
	require.NoError(t, err)
	raw, err := json.Marshal(r)
	require.NoError(t, err)
	var back map[string]any
	require.NoError(t, json.Unmarshal(raw, &back))
	assert.EqualValues(t, 7, back["seed"])
	assert.Equal(t, []any{}, back["violations"])
	assert.InDelta(t, 0.3, back["upperBound95"], 1e-9)
}

func TestNothingUnknownIsReplayed(t *testing.T) {
	for name, raw := range map[string]string{
		"fault": `{"scenario": "nic-reset", "faults": [{"at": 1, "kind": "meteorite"}]}`,
		"field": `{"scenario": "nic-reset", "when": 3}`,
	} {
		_, err := chaos.ParseKept([]byte(raw))
		assert.Error(t, err, name)
	}
	_, err := chaos.Kept{Scenario: "submarine"}.Run()
	require.ErrorContains(t, err, "choose among")
	_, err = chaos.Named([]string{"submarine"})
	require.Error(t, err)
}
