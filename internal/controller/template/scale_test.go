package template

import (
	"context"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/match"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/bench"
)

const (
	devicesPerNode   = 8
	scaleTemplates   = 40
	rulesPerTemplate = 5
)

// store is an API server in memory: it keeps objects, counts writes, and sends every change to the controller.
type store struct {
	r         *Reconciler
	q         queue
	devices   map[string]*v1alpha1.NodeDevice
	templates map[string]*v1alpha1.FirmwareTemplate
	version   int
	sources   []*v1alpha1.FirmwareSource
	nodes     []*corev1.Node
	clock     time.Time

	onDevice, onTemplate, onNode, onSource handler.TypedEventHandler[client.Object, key]
	firmwareWrites                         map[string]int
	conditionWrites, templateWrites        int
}

func newStore(t testing.TB) *store {
	s := &store{
		devices: map[string]*v1alpha1.NodeDevice{}, templates: map[string]*v1alpha1.FirmwareTemplate{}, firmwareWrites: map[string]int{},
		q: workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[key]()),
	}
	t.Cleanup(s.q.ShutDown)
	s.clock = time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	s.r = New(s, s, events.NewFakeRecorder(10), func() time.Time { return s.clock }, StatusInterval)
	s.onDevice = intake(s.r, (*match.Index).SetDevice, (*match.Index).DeleteDevice)
	s.onTemplate = intake(s.r, s.r.setTemplate, (*match.Index).DeleteTemplate)
	s.onNode = intake(s.r, s.r.setNode, (*match.Index).DeleteNode)
	s.onSource = intake(s.r, (*match.Index).SetSource, (*match.Index).DeleteSource)
	return s
}

func (s *store) Get(_ context.Context, k client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	switch o := into.(type) {
	case *v1alpha1.NodeDevice:
		if d := s.devices[k.Name]; d != nil {
			*o = *d
			return nil
		}
	case *v1alpha1.FirmwareTemplate:
		if t := s.templates[k.Name]; t != nil {
			*o = *t
			return nil
		}
	}
	return apierrors.NewNotFound(v1alpha1.GroupVersion.WithResource("any").GroupResource(), k.Name)
}

func (s *store) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return fmt.Errorf("list: the controller lists nothing")
}

func (s *store) ApplyDesired(_ context.Context, d *v1alpha1.NodeDevice, next match.Decision) (string, error) {
	s.firmwareWrites[d.Name]++
	return s.putDevice(d.Name, func(o *v1alpha1.NodeDevice) {
		o.Spec.Firmware, o.Spec.Configuration, o.Spec.Origin = next.Firmware.Desired().DeepCopy(), next.Configuration.Desired().DeepCopy(), next.Origin()
	}), nil
}

func (s *store) ApplyConditions(_ context.Context, d *v1alpha1.NodeDevice, _ string, all []metav1.Condition) (string, error) {
	s.conditionWrites++
	return s.putDevice(d.Name, func(o *v1alpha1.NodeDevice) { o.Status.Conditions = all }), nil
}

func (s *store) ApplyPins(context.Context, *v1alpha1.NodeFirmware, []metav1.Condition) (string, error) {
	return "", fmt.Errorf("apply pins: no node has any")
}

func (s *store) ApplyTemplateStatus(_ context.Context, of client.Object, st v1alpha1.TemplateStatus) (string, error) {
	s.templateWrites++
	t := of.(*v1alpha1.FirmwareTemplate)
	o := t.DeepCopy()
	o.Status, o.ResourceVersion = st, s.next()
	s.templates[t.Name] = o
	s.onTemplate.Update(context.Background(), event.UpdateEvent{ObjectOld: t, ObjectNew: o}, s.q)
	return o.ResourceVersion, nil
}

func (s *store) next() string {
	s.version++
	return strconv.Itoa(s.version)
}

func (s *store) putDevice(name string, change func(*v1alpha1.NodeDevice)) string {
	old := s.devices[name]
	o := old.DeepCopy()
	change(o)
	o.ResourceVersion = s.next()
	s.devices[name] = o
	s.onDevice.Update(context.Background(), event.UpdateEvent{ObjectOld: old, ObjectNew: o}, s.q)
	return o.ResourceVersion
}

// drain reconciles until nothing is left to do, and lets the time pass that something waits for.
func (s *store) drain(t testing.TB) {
	later := map[key]time.Duration{}
	for {
		for s.q.Len() > 0 {
			k, _ := s.q.Get()
			result, err := s.r.Reconcile(context.Background(), k)
			require.NoError(t, err)
			s.q.Done(k)
			if result.RequeueAfter > 0 && result.RequeueAfter < resync {
				later[k] = result.RequeueAfter
			}
		}
		if len(later) == 0 {
			return
		}
		soonest := slices.Min(slices.Collect(maps.Values(later)))
		s.clock = s.clock.Add(soonest)
		for k, wait := range later {
			if wait == soonest {
				s.q.Add(k)
				delete(later, k)
				continue
			}
			later[k] -= soonest
		}
	}
}

// seed makes a fleet in which every device matches one of 200 rules.
func (s *store) seed(devices int) {
	for p := range scaleTemplates {
		source := &v1alpha1.FirmwareSource{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("source-%d", p)}}
		meta.SetStatusCondition(&source.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue})
		t := &v1alpha1.FirmwareTemplate{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("template-%d", p), UID: types.UID(fmt.Sprint("t", p)), Generation: 1, ResourceVersion: s.next()},
			Spec:       v1alpha1.FirmwareTemplateSpec{NodeSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"pool": fmt.Sprint(p)}}},
		}
		for i := range rulesPerTemplate {
			source.Status.Images = append(source.Status.Images, imageFor(fmt.Sprintf("BOARD-%d", i), v1, i+1))
			t.Spec.Rules = append(t.Spec.Rules, v1alpha1.FirmwareRule{
				Name: fmt.Sprintf("rule-%d", i), Version: v1, SourceRef: v1alpha1.SourceReference{Name: source.Name},
				Selector: v1alpha1.DeviceSelector{Class: v1alpha1.ClassNIC, Vendor: "15b3", BoardIDs: []string{fmt.Sprintf("BOARD-%d", i)}},
			})
		}
		s.templates[t.Name], s.sources = t, append(s.sources, source)
	}
	for n := range devices / devicesPerNode {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("node-%05d", n), Labels: map[string]string{"pool": fmt.Sprint(n % scaleTemplates)},
		}}
		s.nodes = append(s.nodes, node)
		for i := range devicesPerNode {
			d := nic(fmt.Sprintf("%s-nic-%d", node.Name, i), node.Name, fmt.Sprintf("BOARD-%d", i%rulesPerTemplate))
			d.ResourceVersion = s.next()
			s.devices[d.Name] = d
		}
	}
}

// nicName is the name of a card of the first node.
func nicName(i int) string { return fmt.Sprintf("node-00000-nic-%d", i) }

func nic(name, node, board string) *v1alpha1.NodeDevice {
	return &v1alpha1.NodeDevice{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)},
		Spec:       v1alpha1.NodeDeviceSpec{NodeName: node},
		Status: v1alpha1.NodeDeviceStatus{
			Class: v1alpha1.ClassNIC, UniqueID: name, PCIID: "15b3:101d", Vendor: "Mellanox", Model: "ConnectX-6 Dx",
			BoardID: board, SerialNumber: name, PCIAddress: "0000:3b:00.0",
			Ports:    []v1alpha1.DevicePort{{PCIAddress: "0000:3b:00.0"}, {PCIAddress: "0000:3b:00.1"}},
			Firmware: &v1alpha1.ObservedFirmware{Running: running, Stored: running, Driver: "mstflint"},
		},
	}
}

// list sends everything there is to the controller, as the first lists of its informers do.
func (s *store) list() {
	ctx := context.Background()
	for _, o := range s.sources {
		s.onSource.Create(ctx, event.CreateEvent{Object: o}, s.q)
	}
	for _, o := range s.templates {
		s.onTemplate.Create(ctx, event.CreateEvent{Object: o}, s.q)
	}
	for _, o := range s.devices {
		s.onDevice.Create(ctx, event.CreateEvent{Object: o}, s.q)
	}
	for _, o := range s.nodes {
		s.onNode.Create(ctx, event.CreateEvent{Object: o}, s.q)
	}
}

// settled is a fleet of which every device is assigned.
func settled(t testing.TB, devices int) *store {
	s := newStore(t)
	s.seed(devices)
	s.list()
	s.drain(t)
	return s
}

func (s *store) writes() int {
	n := s.conditionWrites
	for _, w := range s.firmwareWrites {
		n += w
	}
	return n
}

// The first assignment of 40,000 devices writes each of them exactly once, and the status of each template a few times.
// An operator that starts anew then writes nothing.
func TestFirstAssignmentWritesOnce(t *testing.T) {
	const devices = 40_000
	s := settled(t, devices)
	assert.Len(t, s.firmwareWrites, devices, "every device is written")
	assert.Equal(t, devices, s.writes(), "each of them once")
	assert.LessOrEqual(t, s.templateWrites, 3*scaleTemplates)
	for _, tpl := range s.templates {
		assert.Equal(t, int32(devices/scaleTemplates), tpl.Status.Devices.OutOfDate)
		assert.Len(t, tpl.Status.AssignedDevices, 50)
	}
	for _, d := range s.devices {
		require.NotEmpty(t, d.Spec.Firmware.Digest)
	}

	anew := newStore(t)
	anew.devices, anew.templates, anew.sources, anew.nodes, anew.version = s.devices, s.templates, s.sources, s.nodes, s.version
	anew.list()
	anew.drain(t)
	assert.Zero(t, anew.writes()+anew.templateWrites)
}

// heartbeat is a status write that changes nothing the product decides upon.
func heartbeat(i int) func(*v1alpha1.NodeDevice) {
	state := []string{"eth0", "eth1"}[i%2]
	return func(d *v1alpha1.NodeDevice) {
		for p := range d.Status.Ports {
			d.Status.Ports[p].NetDevice = state
		}
	}
}

// update is a status write that changes what the product counts: the device runs another version.
func update(i int) func(*v1alpha1.NodeDevice) {
	version := []string{v1, running}[i%2]
	return func(d *v1alpha1.NodeDevice) { d.Status.Firmware.Running = version }
}

// One status write costs no write of a device, and the same work whatever the size of the fleet. Allocations are
// counted, which unlike time are the same on every machine.
func TestStatusChangeCostIsConstant(t *testing.T) {
	const name = "node-00000-nic-0"
	costs := map[string][]float64{}
	for _, size := range []int{4_000, 40_000} {
		s := settled(t, size)
		before, beforeTemplates := s.writes(), s.templateWrites
		i := 0
		costs["heartbeat"] = append(costs["heartbeat"], testing.AllocsPerRun(100, func() {
			i++
			s.putDevice(name, heartbeat(i))
		}))
		assert.Zero(t, s.q.Len(), "a heartbeat puts nothing into the queue")
		assert.Equal(t, beforeTemplates, s.templateWrites)
		costs["update"] = append(costs["update"], testing.AllocsPerRun(100, func() {
			i++
			s.putDevice(name, update(i))
			s.drain(t)
		}))
		assert.Equal(t, before, s.writes(), "no device is written again")
	}
	for kind, c := range costs {
		assert.InEpsilon(t, c[0], c[1], 0.1, "allocations of one %s with 4,000 and 40,000 devices", kind)
	}
}

// TestBenchmarks: each benchmark runs.
func TestBenchmarks(t *testing.T) { bench.Once(t) }

func sizes() []int { return []int{1_000, 10_000, 40_000}[:bench.Size(3, 1)] }

func BenchmarkStatusChange(b *testing.B) {
	for _, size := range sizes() {
		s := settled(b, size)
		for _, kind := range []struct {
			name   string
			change func(int) func(*v1alpha1.NodeDevice)
		}{{"heartbeat", heartbeat}, {"update", update}} {
			var both [2]*v1alpha1.NodeDevice
			for i := range both {
				both[i] = s.devices["node-00000-nic-0"].DeepCopy()
				kind.change(i)(both[i])
			}
			b.Run(fmt.Sprintf("%s/devices=%d", kind.name, size), func(b *testing.B) {
				before := s.writes()
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					s.onDevice.Update(context.Background(), event.UpdateEvent{ObjectOld: both[i%2], ObjectNew: both[(i+1)%2]}, s.q)
				}
				b.ReportMetric(float64(s.writes()-before), "writes")
			})
		}
	}
}

// The page says what an event costs, and is wrong when that changes.
func TestTheAllocationsOfAnEventAreThoseOfThePerformancePage(t *testing.T) {
	page, err := os.ReadFile("../../../docs/contributing/performance.md")
	require.NoError(t, err)
	s := settled(t, 1_000)
	for what, change := range map[string]func(int) func(*v1alpha1.NodeDevice){"a port comes up": heartbeat, "another version runs": update} {
		var both [2]*v1alpha1.NodeDevice
		for i := range both {
			both[i] = s.devices[nicName(0)].DeepCopy()
			change(i)(both[i])
		}
		i := 0
		allocations := testing.AllocsPerRun(100, func() {
			i++
			s.onDevice.Update(t.Context(), changed(both[i%2], both[(i+1)%2]), s.q)
		})
		rows := regexp.MustCompile(`\(` + what + `\) \| 1,000 \| 0 \| (\d+) \|\n\| \| 10,000 \| 0 \| (\d+) \|\n\| \| 40,000 \| 0 \| (\d+) \|`).FindSubmatch(page)
		require.NotNil(t, rows, "the row %q", what)
		for _, figure := range rows[1:] {
			promised, err := strconv.ParseFloat(string(figure), 64)
			require.NoError(t, err)
			assert.InDelta(t, promised, allocations, 2, what)
		}
	}
}

func changed(old, now client.Object) event.UpdateEvent {
	return event.UpdateEvent{ObjectOld: old, ObjectNew: now}
}

func BenchmarkFirstAssignment(b *testing.B) {
	for _, size := range sizes() {
		b.Run(fmt.Sprintf("devices=%d", size), func(b *testing.B) {
			writes := 0
			for b.Loop() {
				writes = settled(b, size).writes()
			}
			b.ReportMetric(float64(writes)/float64(size), "writes/device")
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(size), "ns/device")
		})
	}
}

// BenchmarkTemplateEdit edits a template that chooses one node in 40 and changes nothing for its devices.
func BenchmarkTemplateEdit(b *testing.B) {
	for _, size := range sizes() {
		b.Run(fmt.Sprintf("devices=%d", size), func(b *testing.B) {
			s := settled(b, size)
			before := s.writes()
			for i := int64(2); b.Loop(); i++ {
				t := s.templates["template-0"].DeepCopy()
				t.Generation = i
				s.onTemplate.Update(context.Background(), event.UpdateEvent{ObjectOld: t, ObjectNew: t}, s.q)
			}
			b.ReportMetric(float64(s.writes()-before), "writes")
		})
	}
}

// BenchmarkWholePass decides about every device and counts for every template from nothing, as a pass without an index would.
func BenchmarkWholePass(b *testing.B) {
	for _, size := range sizes() {
		b.Run(fmt.Sprintf("devices=%d", size), func(b *testing.B) {
			s := settled(b, size)
			b.ReportAllocs()
			before := processorTime(b)
			for b.Loop() {
				ix := match.NewIndex()
				for _, o := range s.sources {
					ix.SetSource(o)
				}
				for _, o := range s.templates {
					ix.SetTemplate(o)
				}
				for _, o := range s.nodes {
					ix.SetNode(o.Name, o.Labels)
				}
				for _, o := range s.devices {
					ix.SetDevice(o)
				}
				for name := range s.devices {
					ix.Decision(name)
				}
				for name := range s.templates {
					ix.Tally(match.Ref{Kind: v1alpha1.OriginTemplate, Name: name})
				}
			}
			b.ReportMetric(float64((processorTime(b)-before).Microseconds())/1000/float64(b.N), "cpu-ms/op")
		})
	}
}

// processorTime is what the process has taken so far, with the collection of garbage.
func processorTime(tb testing.TB) time.Duration {
	tb.Helper()
	var u syscall.Rusage
	require.NoError(tb, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// A node that was taken over costs the others nothing.
func TestANodeThatReports100000DevicesIsLeftOut(t *testing.T) {
	recorder := events.NewFakeRecorder(10)
	s := newStore(t)
	s.r.recorder = recorder
	s.seed(80)
	s.list()
	s.drain(t)
	before := len(s.firmwareWrites)
	flood := func() {
		for i := range 100_000 {
			name := fmt.Sprintf("node-00000-nic-x%d", i)
			d := s.devices[name]
			if d == nil {
				d = nic(name, "node-00000", "BOARD-0")
				d.ResourceVersion = s.next()
				s.devices[name] = d
			}
			s.onDevice.Create(context.Background(), event.CreateEvent{Object: d}, s.q)
		}
		s.drain(t)
	}
	flood()
	assert.Len(t, s.firmwareWrites, before+match.MaxDevices-devicesPerNode)
	require.Len(t, recorder.Events, 1, "said once")
	assert.Contains(t, <-recorder.Events, "NotUpdatable")
	node := s.nodes[1].Name
	s.devices[node+"-nic-new"] = nic(node+"-nic-new", node, "BOARD-0")
	s.onDevice.Create(context.Background(), event.CreateEvent{Object: s.devices[node+"-nic-new"]}, s.q)
	s.drain(t)
	assert.Equal(t, 1, s.firmwareWrites[node+"-nic-new"], "another node is served")

	writes := s.writes()
	again := newStore(t)
	again.devices, again.templates, again.sources, again.nodes, again.version = s.devices, s.templates, s.sources, s.nodes, s.version
	again.list()
	again.drain(t)
	assert.LessOrEqual(t, again.writes(), match.MaxDevices, "a new operator looks at those of its predecessor, and at no more than as many others")
	assert.Equal(t, writes, s.writes())
}

// A device that was left out because its node had too many is served as soon as there is room, without an event of its own.
func TestADeviceThatWasLeftOutIsServedWhenTheCrowdIsGone(t *testing.T) {
	s := newStore(t)
	recorder := events.NewFakeRecorder(10)
	s.r.recorder = recorder
	s.seed(80)
	s.list()
	s.drain(t)
	var names []string
	for i := range match.MaxDevices + 2 {
		name := fmt.Sprintf("node-00000-nic-x%03d", i)
		names = append(names, name)
		s.devices[name] = nic(name, "node-00000", "BOARD-0")
		s.devices[name].ResourceVersion = s.next()
		s.onDevice.Create(context.Background(), event.CreateEvent{Object: s.devices[name]}, s.q)
	}
	s.drain(t)
	out := names[match.MaxDevices-devicesPerNode:]
	require.Len(t, out, 2+devicesPerNode)
	remove := func(name string) {
		o := s.devices[name]
		delete(s.devices, name)
		s.onDevice.Delete(context.Background(), event.DeleteEvent{Object: o}, s.q)
		s.drain(t)
	}
	remove(out[0]) // was left out itself, and makes no room
	for _, name := range out {
		require.Zero(t, s.firmwareWrites[name], name)
	}
	for i, next := range out[1:] {
		remove(names[i])
		assert.Equal(t, 1, s.firmwareWrites[next], next)
	}
	assert.Len(t, recorder.Events, 1)
}
