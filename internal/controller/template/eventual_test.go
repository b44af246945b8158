package template

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/match"
	"github.com/nodefirmware/node-firmware-operator/internal/status"
)

// kindOf names the kinds the controller watches, in the order in which their objects are drawn.
func kindOf(o client.Object) string { return fmt.Sprintf("%T", o) }

// change is one event of a watch.
type change struct{ old, now client.Object }

// feed is the watch of one kind: what happened to its objects, of which the cache has seen a part and the handler a part of
// that.
type feed struct {
	toCache, toHandler []change
	cache              map[string]client.Object
	handler            handler.TypedEventHandler[client.Object, key]
}

// world is an API server, the controller's caches of it, and the controller. What the controller sees of each kind is late
// by any number of events, and others write at any time, in the middle of a pass too.
type world struct {
	t       *rapid.T
	r       *Reconciler
	objects map[string]map[string]client.Object
	feeds   map[string]*feed
	version int
	uid     int
	clock   time.Time
	// ready, later and resting are the items of the queue: to do, to do after a while, to compare at the next resync.
	ready, later, resting map[key]struct{}
	// deaf loses what handlers put into the queue.
	deaf bool
	// rough lets writes fail and others write while a pass writes.
	rough bool
}

func newWorld(t *rapid.T) *world {
	w := &world{
		t: t, objects: map[string]map[string]client.Object{}, feeds: map[string]*feed{},
		ready: map[key]struct{}{}, later: map[key]struct{}{}, resting: map[key]struct{}{},
		clock: time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC),
	}
	w.r = New(w, w, &events.FakeRecorder{}, func() time.Time { return w.clock }, StatusInterval)
	for o, h := range map[client.Object]handler.TypedEventHandler[client.Object, key]{
		&corev1.Node{}:                 intake(w.r, w.r.setNode, (*match.Index).DeleteNode),
		&v1alpha1.NodeFirmware{}:       intake(w.r, (*match.Index).SetNodeFirmware, (*match.Index).DeleteNodeFirmware),
		&v1alpha1.FirmwareTemplate{}:   intake(w.r, w.r.setTemplate, (*match.Index).DeleteTemplate),
		&v1alpha1.FirmwareSource{}:     intake(w.r, (*match.Index).SetSource, (*match.Index).DeleteSource),
		&v1alpha1.FirmwareQuarantine{}: intake(w.r, (*match.Index).SetQuarantine, (*match.Index).DeleteQuarantine),
		&v1alpha1.NodeDevice{}:         intake(w.r, (*match.Index).SetDevice, (*match.Index).DeleteDevice),
	} {
		w.feeds[kindOf(o)] = &feed{cache: map[string]client.Object{}, handler: h}
		w.objects[kindOf(o)] = map[string]client.Object{}
	}
	for i := range 3 {
		node := fmt.Sprintf("n%d", i%2)
		edit(w, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}, false, func(n *corev1.Node) { n.Labels = map[string]string{"pool": "gpu"} })
		w.report(fmt.Sprintf("nic-%d", i))
	}
	w.source()
	w.template("t")
	w.settle()
	w.rough = true
	return w
}

// put writes an object as the API server does: the version changes when the content does.
func (w *world) put(o client.Object) client.Object {
	kind := kindOf(o)
	old := w.objects[kind][o.GetName()]
	if old != nil && equality.Semantic.DeepEqual(old, o) {
		return old
	}
	if old == nil {
		w.uid++
		o.SetUID(types.UID(strconv.Itoa(w.uid)))
		o.SetGeneration(1)
	}
	w.version++
	o.SetResourceVersion(strconv.Itoa(w.version))
	w.objects[kind][o.GetName()] = o
	w.feeds[kind].toCache = append(w.feeds[kind].toCache, change{old, o})
	return o
}

func (w *world) remove(kind, name string) {
	if old := w.objects[kind][name]; old != nil {
		delete(w.objects[kind], name)
		w.feeds[kind].toCache = append(w.feeds[kind].toCache, change{old, nil})
	}
}

// edit changes an object, which it makes if there is none. A change of what a user writes is a new generation.
func edit[T client.Object](w *world, o T, spec bool, f func(T)) {
	if old, ok := w.objects[kindOf(o)][o.GetName()]; ok {
		o = old.DeepCopyObject().(T)
	}
	f(o)
	if spec {
		o.SetGeneration(o.GetGeneration() + 1)
	}
	w.put(o)
}

// report is a daemon's report of a device that decides nothing.
func (w *world) report(name string) {
	node := map[string]string{"nic-0": "n0", "nic-1": "n1", "nic-2": "n0"}[name]
	edit(w, nic(name, node, board), false, func(d *v1alpha1.NodeDevice) {
		d.Status.Ports[0].NetDevice = rapid.SampledFrom([]string{"eth0", "eth1"}).Draw(w.t, "link")
	})
}

// source is a write of the source's controllers.
func (w *world) source() {
	edit(w, &v1alpha1.FirmwareSource{ObjectMeta: metav1.ObjectMeta{Name: "s"}}, false, func(s *v1alpha1.FirmwareSource) {
		s.Status.Images = []v1alpha1.StoredImage{imageFor(board, running, 1), imageFor(board, v1, 2), imageFor(board, v2, 3)}
		s.Status.ObservedGeneration = s.Generation
		ready := metav1.ConditionStatus(rapid.SampledFrom([]string{"True", "True", "False"}).Draw(w.t, "source ready"))
		meta.SetStatusCondition(&s.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionReady, Status: ready})
	})
}

// quarantine is a person's decision about an image.
func (w *world) quarantine() {
	image := digest(rapid.IntRange(2, 3).Draw(w.t, "quarantined"))
	edit(w, &v1alpha1.FirmwareQuarantine{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.QuarantineName(image, "15b3:101d")}}, true, func(q *v1alpha1.FirmwareQuarantine) {
		q.Spec = v1alpha1.FirmwareQuarantineSpec{Digest: image, Model: "15b3:101d", State: rapid.SampledFrom([]v1alpha1.QuarantineState{
			v1alpha1.QuarantineActive, v1alpha1.QuarantineConfirmed,
		}).Draw(w.t, "decision")}
	})
}

// template is a person's edit.
func (w *world) template(name string) {
	version := rapid.SampledFrom([]string{v1, v2}).Draw(w.t, "version")
	edit(w, &v1alpha1.FirmwareTemplate{ObjectMeta: metav1.ObjectMeta{Name: name}}, true, func(t *v1alpha1.FirmwareTemplate) {
		t.Spec.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"pool": "gpu"}}
		t.Spec.State = rapid.SampledFrom([]v1alpha1.TemplateState{v1alpha1.TemplateActive, v1alpha1.TemplateActive, v1alpha1.TemplatePaused}).Draw(w.t, "state")
		t.Spec.Rules = []v1alpha1.FirmwareRule{{
			Name: "rule", Version: version, SourceRef: v1alpha1.SourceReference{Name: "s"},
			Selector: v1alpha1.DeviceSelector{Class: v1alpha1.ClassNIC, Vendor: "15b3", BoardIDs: []string{board}},
		}}
	})
}

// others is anything that somebody else does: people, daemons, and the other controllers.
func (w *world) others() {
	device := func() *v1alpha1.NodeDevice {
		i := rapid.IntRange(0, 2).Draw(w.t, "device")
		return nic(fmt.Sprintf("nic-%d", i), fmt.Sprintf("n%d", i%2), board)
	}
	node := metav1.ObjectMeta{Name: rapid.SampledFrom([]string{"n0", "n1"}).Draw(w.t, "node")}
	switch rapid.IntRange(0, 10).Draw(w.t, "who") {
	case 0, 1:
		versions := map[string]int{running: 1, v1: 2, v2: 3}
		version := rapid.SampledFrom([]string{running, v1, v2}).Draw(w.t, "runs")
		failed := rapid.SampledFrom([]string{"", v1, v2}).Draw(w.t, "failed")
		edit(w, device(), false, func(d *v1alpha1.NodeDevice) {
			d.Status.Firmware.Running, d.Status.Firmware.Stored, d.Status.Failure = version, version, nil
			if failed != "" {
				d.Status.Failure = &v1alpha1.DeviceFailure{Digest: digest(versions[failed]), Time: metav1.NewTime(w.clock)}
			}
		})
	case 2:
		w.report(device().Name)
	case 3:
		w.remove(kindOf(&v1alpha1.NodeDevice{}), device().Name)
	case 4:
		w.source()
	case 5:
		w.quarantine()
	case 6, 7:
		w.template(rapid.SampledFrom([]string{"t", "t", "u"}).Draw(w.t, "template"))
	case 8:
		w.remove(kindOf(&v1alpha1.FirmwareTemplate{}), rapid.SampledFrom([]string{"t", "u"}).Draw(w.t, "template"))
	case 9:
		pool := rapid.SampledFrom([]string{"gpu", "gpu", "cpu", ""}).Draw(w.t, "pool")
		if pool == "" {
			w.remove(kindOf(&corev1.Node{}), node.Name)
			return
		}
		edit(w, &corev1.Node{ObjectMeta: node}, false, func(n *corev1.Node) { n.Labels = map[string]string{"pool": pool} })
	case 10:
		pinned := rapid.SampledFrom([]string{"", "101d", "1021"}).Draw(w.t, "pinned")
		edit(w, &v1alpha1.NodeFirmware{ObjectMeta: node}, true, func(n *v1alpha1.NodeFirmware) {
			if n.Spec.Pins = nil; pinned != "" {
				n.Spec.Pins = pinFor(node.Name, pinned).Spec.Pins
			}
			scanned := metav1.NewTime(w.clock)
			n.Status.LastScanTime = &scanned
		})
	}
}

// observe lets the cache of a kind, or its handler, see the next event.
func (w *world) observe(f *feed) {
	if len(f.toHandler) > 0 && (len(f.toCache) == 0 || rapid.Bool().Draw(w.t, "handler")) {
		c := f.toHandler[0]
		f.toHandler = f.toHandler[1:]
		w.handle(f, c)
	} else if len(f.toCache) > 0 {
		c := f.toCache[0]
		f.toCache = f.toCache[1:]
		if c.now == nil {
			delete(f.cache, c.old.GetName())
		} else {
			f.cache[c.now.GetName()] = c.now
		}
		f.toHandler = append(f.toHandler, c)
	}
}

func (w *world) handle(f *feed, c change) {
	q := intakeQueue{w: w}
	switch {
	case c.old == nil:
		f.handler.Create(context.Background(), event.CreateEvent{Object: c.now}, q)
	case c.now == nil:
		f.handler.Delete(context.Background(), event.DeleteEvent{Object: c.old}, q)
	default:
		f.handler.Update(context.Background(), event.UpdateEvent{ObjectOld: c.old, ObjectNew: c.now}, q)
	}
}

// intakeQueue is the queue as handlers use it.
type intakeQueue struct {
	queue
	w *world
}

func (q intakeQueue) Add(k key) {
	if !q.w.deaf {
		q.w.ready[k] = struct{}{}
	}
}

func (q intakeQueue) AddAfter(k key, wait time.Duration) {
	switch {
	case wait >= resync:
		q.w.resting[k] = struct{}{}
	case !q.w.deaf:
		q.w.later[k] = struct{}{}
	}
}

// pass is one pass over an item of the queue.
func (w *world) pass(k key) {
	delete(w.ready, k)
	delete(w.later, k)
	delete(w.resting, k)
	switch result, err := w.r.Reconcile(context.Background(), k); {
	case err != nil:
		w.ready[k] = struct{}{}
	case result.RequeueAfter >= resync:
		w.resting[k] = struct{}{}
	case result.RequeueAfter > 0:
		w.later[k] = struct{}{}
	}
}

func (w *world) anything() {
	switch rapid.IntRange(0, 3).Draw(w.t, "what") {
	case 0:
		w.others()
	case 1:
		f := w.feeds[rapid.SampledFrom(slices.Sorted(maps.Keys(w.feeds))).Draw(w.t, "kind")]
		for range rapid.IntRange(1, 6).Draw(w.t, "events") {
			w.observe(f)
		}
	default:
		if items := append(sorted(w.ready), sorted(w.later)...); len(items) > 0 {
			w.clock = w.clock.Add(time.Duration(rapid.IntRange(0, 1500).Draw(w.t, "ms")) * time.Millisecond)
			w.pass(rapid.SampledFrom(items).Draw(w.t, "item"))
		}
	}
}

func sorted(items map[key]struct{}) []key {
	return slices.SortedFunc(maps.Keys(items), func(a, b key) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.name, b.name))
	})
}

// settle lets every event arrive and the queue run empty.
func (w *world) settle() {
	for range 1000 {
		for _, kind := range slices.Sorted(maps.Keys(w.feeds)) {
			f := w.feeds[kind]
			for len(f.toCache)+len(f.toHandler) > 0 {
				w.observe(f)
			}
		}
		items := append(sorted(w.ready), sorted(w.later)...)
		if len(items) == 0 {
			return
		}
		w.clock = w.clock.Add(time.Second)
		for _, k := range items {
			w.pass(k)
		}
	}
	w.t.Fatal("the controller does not come to rest")
}

// unmade lists the objects that are not as an index that has seen nothing but the present objects decides.
func (w *world) unmade() (out []string) {
	fresh := match.NewIndex()
	for _, o := range w.objects[kindOf(&corev1.Node{})] {
		fresh.SetNode(o.GetName(), o.GetLabels())
	}
	for _, o := range w.objects[kindOf(&v1alpha1.NodeFirmware{})] {
		fresh.SetNodeFirmware(o.(*v1alpha1.NodeFirmware))
	}
	for _, o := range w.objects[kindOf(&v1alpha1.FirmwareTemplate{})] {
		fresh.SetTemplate(o.(*v1alpha1.FirmwareTemplate))
	}
	for _, o := range w.objects[kindOf(&v1alpha1.FirmwareSource{})] {
		fresh.SetSource(o.(*v1alpha1.FirmwareSource))
	}
	for _, o := range w.objects[kindOf(&v1alpha1.FirmwareQuarantine{})] {
		fresh.SetQuarantine(o.(*v1alpha1.FirmwareQuarantine))
	}
	for _, o := range w.objects[kindOf(&v1alpha1.NodeDevice{})] {
		fresh.SetDevice(o.(*v1alpha1.NodeDevice))
	}
	for name, o := range w.objects[kindOf(&v1alpha1.NodeDevice{})] {
		d := o.(*v1alpha1.NodeDevice)
		decision, known := fresh.Decision(name)
		want := status.Assignment(decision, d.Status.Conditions, d.Generation, w.clock)
		if known && (!decision.Done(d) || !sameConditions(d.Status.Conditions, want, status.AssignmentConditions)) {
			out = append(out, fmt.Sprintf("%s: %+v, has %+v %+v", name, decision, d.Spec.Firmware, d.Status.Conditions))
		}
	}
	for name, o := range w.objects[kindOf(&v1alpha1.FirmwareTemplate{})] {
		t := o.(*v1alpha1.FirmwareTemplate)
		if tally, _ := fresh.Tally(match.Ref{Kind: v1alpha1.OriginTemplate, Name: name}); !equality.Semantic.DeepEqual(t.Status, w.r.statusOf(name, t.Status, tally)) {
			out = append(out, fmt.Sprintf("%s: %+v, has %+v", name, tally, t.Status))
		}
	}
	for name, o := range w.objects[kindOf(&v1alpha1.NodeFirmware{})] {
		n := o.(*v1alpha1.NodeFirmware)
		now, _ := fresh.Pins(name)
		want := status.Pins(name, now.Unmatched, n.Status.Conditions, n.Generation, w.clock)
		if !equality.Semantic.DeepEqual(n.Status.Conditions, want) {
			out = append(out, fmt.Sprintf("%s: %+v, has %+v", name, now, n.Status.Conditions))
		}
	}
	return out
}

func (w *world) Get(_ context.Context, k client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	cached := w.feeds[kindOf(into)].cache[k.Name]
	if cached == nil {
		return apierrors.NewNotFound(schema.GroupResource{}, k.Name)
	}
	switch o := into.(type) {
	case *v1alpha1.NodeDevice:
		*o = *cached.(*v1alpha1.NodeDevice)
	case *v1alpha1.FirmwareTemplate:
		*o = *cached.(*v1alpha1.FirmwareTemplate)
	case *v1alpha1.NodeFirmware:
		*o = *cached.(*v1alpha1.NodeFirmware)
	}
	return nil
}

func (w *world) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return errors.New("the controller lists nothing")
}

var errLost = errors.New("the answer of the API server was lost")

// write is one request: others write before it arrives, it may not arrive, and its answer may be lost.
func (w *world) write(o client.Object, expected func(now client.Object) bool, f func(now client.Object)) (string, error) {
	if w.rough {
		for range rapid.IntRange(0, 2).Draw(w.t, "meanwhile") {
			if kindOf(o) == kindOf(&v1alpha1.NodeDevice{}) && rapid.Bool().Draw(w.t, "daemon") {
				w.report(o.GetName())
			} else {
				w.others()
			}
		}
	}
	lost := 0
	if w.rough {
		lost = rapid.IntRange(0, 9).Draw(w.t, "lost")
	}
	now := w.objects[kindOf(o)][o.GetName()]
	switch {
	case lost == 1:
		return "", errLost
	case now == nil:
		return "", apierrors.NewNotFound(schema.GroupResource{}, o.GetName())
	case !expected(now):
		return "", apierrors.NewConflict(schema.GroupResource{}, o.GetName(), errors.New("another version"))
	}
	next := now.DeepCopyObject().(client.Object)
	f(next)
	next = w.put(next)
	if lost == 2 {
		return "", errLost
	}
	return next.GetResourceVersion(), nil
}

func (w *world) ApplyDesired(_ context.Context, d *v1alpha1.NodeDevice, next match.Decision) (string, error) {
	return w.write(d, func(now client.Object) bool { return now.GetUID() == d.UID }, func(now client.Object) {
		o, want := now.(*v1alpha1.NodeDevice), v1alpha1.NodeDeviceSpec{
			Origin: next.Origin(), Firmware: next.Firmware.Desired().DeepCopy(), Configuration: next.Configuration.Desired().DeepCopy(),
		}
		if want.NodeName = o.Spec.NodeName; !equality.Semantic.DeepEqual(o.Spec, want) {
			o.Spec, o.Generation = want, o.Generation+1
		}
	})
}

func (w *world) ApplyConditions(_ context.Context, d *v1alpha1.NodeDevice, version string, all []metav1.Condition) (string, error) {
	return w.write(d, func(now client.Object) bool { return now.GetResourceVersion() == version }, func(now client.Object) {
		o := now.(*v1alpha1.NodeDevice)
		for _, kind := range status.AssignmentConditions {
			meta.RemoveStatusCondition(&o.Status.Conditions, kind)
			if c := meta.FindStatusCondition(all, kind); c != nil {
				o.Status.Conditions = append(o.Status.Conditions, *c)
			}
		}
	})
}

func (w *world) ApplyPins(_ context.Context, n *v1alpha1.NodeFirmware, all []metav1.Condition) (string, error) {
	return w.write(n, func(client.Object) bool { return true }, func(now client.Object) {
		o := now.(*v1alpha1.NodeFirmware)
		if o.Status.Conditions = nil; len(all) > 0 {
			o.Status.Conditions = all
		}
	})
}

func (w *world) ApplyTemplateStatus(_ context.Context, t client.Object, s v1alpha1.TemplateStatus) (string, error) {
	return w.write(t, func(now client.Object) bool { return now.GetResourceVersion() == t.GetResourceVersion() }, func(now client.Object) {
		switch o := now.(type) {
		case *v1alpha1.FirmwareTemplate:
			o.Status = s
		case *v1alpha1.ConfigurationTemplate:
			o.Status = s
		}
	})
}

// In whatever order events arrive, writes meet other writes and answers get lost: what is decided is written in the end,
// without waiting for a resync, and then nothing is written any more.
func TestEveryDecisionGetsWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		for range rapid.IntRange(1, 20).Draw(t, "rounds") {
			w.rough = true
			for range rapid.IntRange(1, 30).Draw(t, "actions") {
				w.anything()
			}
			w.rough = false
			w.settle()
			require.Empty(t, w.unmade())
		}
		before := w.version
		for _, k := range sorted(w.resting) {
			w.pass(k)
		}
		w.settle()
		assert.Equal(t, before, w.version, "a resync writes nothing that is there already")
	})
}

// Should an event be lost on its way to the queue, the next resync makes up for it.
func TestResyncMakesUpForALostEvent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		for range rapid.IntRange(1, 120).Draw(t, "actions") {
			w.deaf = rapid.Bool().Draw(t, "deaf")
			w.anything()
		}
		w.rough, w.deaf = false, true
		w.settle()
		for range 3 { // what one pass writes can change what another has to report
			for _, k := range sorted(w.resting) {
				w.pass(k)
			}
			w.settle()
		}
		require.Empty(t, w.unmade())
	})
}

func TestResyncIsSpread(t *testing.T) {
	seen := map[time.Duration]bool{}
	for i := range 100 {
		rest := restOf(key{device, fmt.Sprintf("node-%d-nic", i)})
		assert.GreaterOrEqual(t, rest, 10*time.Minute)
		assert.Less(t, rest, 12*time.Minute+30*time.Second)
		assert.Equal(t, rest, restOf(key{device, fmt.Sprintf("node-%d-nic", i)}))
		seen[rest] = true
	}
	assert.Greater(t, len(seen), 50)
}
