package catalog

import (
	"context"
	"fmt"
	"os"
	"regexp"
	goruntime "runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/internal/index"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/bench"
)

// fleet is a cache over many machines of one model, which gives lists of objects as the operator's cache does.
type fleet struct {
	client.Client
	nodes   []v1alpha1.NodeFirmware
	devices map[string][]v1alpha1.NodeDevice
	// copied counts the nodes and devices that were asked for as copies.
	copied int
}

func (f *fleet) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	var o client.ListOptions
	o.ApplyOptions(opts)
	of := ""
	if o.FieldSelector != nil {
		_, of, _ = strings.Cut(o.FieldSelector.String(), "=")
	}
	switch l := list.(type) {
	case *v1alpha1.NodeFirmwareList:
		if strings.HasPrefix(o.FieldSelector.String(), index.Model) {
			l.Items = slices.Clone(f.nodes)
		}
	case *v1alpha1.NodeDeviceList:
		l.Items = slices.Clone(f.devices[of])
	default:
		return f.Client.List(ctx, list, opts...)
	}
	if o.UnsafeDisableDeepCopy == nil || !*o.UnsafeDisableDeepCopy {
		f.copied += meta.LenList(list)
	}
	return nil
}

// atRest is a catalog of 5,000 machines with eight devices each, whose discovery has ended.
func atRest(tb testing.TB) (*world, *fleet) {
	const nodes, devices = 5000, 8
	w := newWorld(tb)
	f := &fleet{Client: w.client, devices: map[string][]v1alpha1.NodeDevice{}}
	for i := range nodes {
		n := v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("n%04d", i)},
			Status: v1alpha1.NodeFirmwareStatus{Machine: &v1alpha1.Machine{Vendor: "Dell Inc.", Model: "PowerEdge R650"}}}
		f.nodes = append(f.nodes, n)
		for j := range devices {
			f.devices[n.Name] = append(f.devices[n.Name], v1alpha1.NodeDevice{
				ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-nic%d", n.Name, j)}, Spec: v1alpha1.NodeDeviceSpec{NodeName: n.Name},
				Status: v1alpha1.NodeDeviceStatus{Class: v1alpha1.ClassNIC, Vendor: "Mellanox", Model: "ConnectX-6 Dx", PCIID: "15b3:101d", BoardID: "MT_0000000359",
					Firmware: &v1alpha1.ObservedFirmware{Running: fmt.Sprintf("22.4%d.1000", i%3), VersionFormat: v1alpha1.VersionFormatDotted}},
			})
		}
	}
	w.source("cx6dx-2242", "22.42.1000")
	w.reconciler.client = f
	w.look()
	w.discover()
	require.Equal(tb, int32(nodes*devices), w.get().Status.Devices.Total)
	return w, f
}

// TestBenchmarks: each benchmark runs.
func TestBenchmarks(t *testing.T) { bench.Once(t) }

// BenchmarkPassOverAFleet is what a change of one device costs, at most once in half a minute for each model.
func BenchmarkPassOverAFleet(b *testing.B) {
	w, _ := atRest(b)
	for b.Loop() {
		w.look()
	}
}

// The page says what a pass costs, and is wrong when that changes by a fifth. At rest a pass writes nothing, and it copies no object.
func TestTheGarbageOfAPassIsThatOfThePerformancePage(t *testing.T) {
	page, err := os.ReadFile("../../../docs/contributing/performance.md")
	require.NoError(t, err)
	figure := regexp.MustCompile(`One pass over a model of 5,000 nodes and 40,000 devices takes about \d+ ms and (\d+) MB`).FindSubmatch(page)
	require.NotNil(t, figure)
	promised, err := strconv.ParseFloat(string(figure[1]), 64)
	require.NoError(t, err)
	w, f := atRest(t)
	writes := w.writes
	const passes = 3
	var before, after goruntime.MemStats
	goruntime.ReadMemStats(&before)
	for range passes {
		w.look()
	}
	goruntime.ReadMemStats(&after)
	assert.InEpsilon(t, promised, float64(after.TotalAlloc-before.TotalAlloc)/passes/1e6, 0.2)
	assert.Zero(t, f.copied, "the objects of the cache are read where they are")
	assert.Equal(t, writes, w.writes, "a pass at rest writes nothing")

	d := &f.devices["n4000"][0].Status // of the last event of a rollout
	d.Firmware.Running = "22.42.1000"
	w.look()
	w.look()
	assert.Equal(t, writes+1, w.writes, "what changed is one write")
}
