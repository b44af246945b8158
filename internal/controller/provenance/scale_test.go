package provenance

import (
	"os"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/bench"
)

// An edit costs each node that it concerns the same, whatever the size of the fleet, an edit that changes no content costs none, and
// a fleet at rest costs nothing.
func TestAnEditCostsTheSameForEachNodeOfAnyFleet(t *testing.T) {
	none := figures(t, `an edit of a template that changes no content, for each node \| (\d+) \| (\d+) \|`)
	other := figures(t, `an edit of a template that changes the content, for each node \| (\d+) \| (\d+) \|`)
	for _, nodes := range []int{10, 200} {
		f := newFleet(t, nodes)
		f.edit(t, "2")
		assert.Equal(t, []int{f.passes / nodes, f.writes / nodes}, none, "looks and writes for each of %d nodes", nodes)
		assert.Zero(t, f.labelled())
		f.edit(t, "3")
		assert.Equal(t, []int{f.passes / nodes, f.writes / nodes}, other, "looks and writes for each of %d nodes", nodes)
		assert.Zero(t, f.passes%nodes+f.writes%nodes)
		assert.Equal(t, nodes, f.labelled())
	}
}

func TestTheCostOfALookIsThatOfThePerformancePage(t *testing.T) {
	promised := figures(t, `a status write of a device that changes nothing it came from \| (\d+) \| (\d+) \| (\d+) \|`)
	f := newFleet(t, 10)
	old := &f.devices["n3"][0]
	now := old.DeepCopy()
	now.ResourceVersion = "2"
	now.Status.Ports = []v1alpha1.DevicePort{{PCIAddress: "0000:01:00.0"}}
	filtered := testing.AllocsPerRun(100, func() {
		if deviceChanged.Update(event.UpdateEvent{ObjectOld: old, ObjectNew: now}) {
			t.Error("the event of a port that comes up passes")
		}
	})
	got := []int{f.passes, f.writes, int(filtered)}
	assert.Equal(t, promised, got)

	promised = figures(t, `a look at a node of 8 devices where nothing is new \| (\d+) \| (\d+) \| (\d+) \|`)
	now.Status.Applied = nil
	require.True(t, deviceChanged.Update(event.UpdateEvent{ObjectOld: old, ObjectNew: now}))
	looks, began := 0, f.passes
	look := testing.AllocsPerRun(100, func() {
		looks++
		f.due["n3"] = true
		f.drain(t)
	})
	assert.Equal(t, promised[0]*looks, f.passes-began)
	assert.Equal(t, promised[1], f.writes)
	assert.InEpsilon(t, promised[2], look, 0.1)
}

// figures are the numbers in a row of the performance page.
func figures(t *testing.T, row string) []int {
	t.Helper()
	page, err := os.ReadFile("../../../docs/contributing/performance.md")
	require.NoError(t, err)
	found := regexp.MustCompile(row).FindSubmatch(page)
	require.NotNil(t, found, "the row %q", row)
	var out []int
	for _, text := range found[1:] {
		n, err := strconv.Atoi(string(text))
		require.NoError(t, err)
		out = append(out, n)
	}
	return out
}

func largeFleet(b *testing.B) *fleet { return newFleet(b, bench.Size(5000, 5)) }

// TestBenchmarks: each benchmark runs.
func TestBenchmarks(t *testing.T) { bench.Once(t) }

// BenchmarkLook40000 is a look at one node of 5,000 with 40,000 devices, where nothing is new.
func BenchmarkLook40000(b *testing.B) {
	f := largeFleet(b)
	b.ReportAllocs()
	for b.Loop() {
		f.due["n3"] = true
		f.drain(b)
	}
	require.Zero(b, f.writes)
}

// BenchmarkEdit40000 is an edit of the template that all 40,000 devices on 5,000 nodes came from, which changes its content. What the
// API server of the benchmark takes is part of it.
func BenchmarkEdit40000(b *testing.B) {
	f := largeFleet(b)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		f.edit(b, strconv.Itoa(2+i%2))
	}
	b.ReportMetric(float64(f.passes)/float64(b.N), "passes/op")
	b.ReportMetric(float64(f.writes)/float64(b.N), "writes/op")
}
