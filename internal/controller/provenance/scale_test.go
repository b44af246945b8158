package provenance

import (
	"os"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/bench"
)

// An edit costs each node that it concerns the same, whatever the size of the fleet, and a fleet at rest costs nothing.
func TestAnEditCostsTheSameForEachNodeOfAnyFleet(t *testing.T) {
	promised := figures(t, `an edit of a template that changes the image of no device, for each node \| (\d+) \| (\d+) \|`)
	for _, nodes := range []int{10, 200} {
		f := newFleet(t, nodes)
		f.editWithoutEffect(t)
		got := []int{f.passes / nodes, f.writes / nodes}
		assert.Equal(t, promised, got, "looks and writes for each of %d nodes", nodes)
		assert.Zero(t, f.passes%nodes+f.writes%nodes)
		assert.Zero(t, f.labelled(), "the edit is confirmed")
		f.rest(t)
		assert.Equal(t, promised[0], f.passes/nodes, "no pass at rest")
	}
}

// While an edit has not rested, each node that it concerns bears the label.
func TestAnEditLabelsTheNodesItConcerns(t *testing.T) {
	f := newFleet(t, 10)
	f.changeTemplate(func(o *v1alpha1.FirmwareTemplate) { o.Generation++ })
	f.drain(t)
	assert.Equal(t, 10, f.labelled())
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
	now.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse}}
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

// BenchmarkEdit40000 is an edit of the template that all 40,000 devices on 5,000 nodes came from, which changes no image, from the
// edit to its confirmation. What the API server of the benchmark takes is part of it.
func BenchmarkEdit40000(b *testing.B) {
	f := largeFleet(b)
	b.ReportAllocs()
	for b.Loop() {
		f.editWithoutEffect(b)
	}
	b.ReportMetric(float64(f.passes)/float64(b.N), "passes/op")
	b.ReportMetric(float64(f.writes)/float64(b.N), "writes/op")
}
