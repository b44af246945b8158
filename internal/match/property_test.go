package match

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// world is the fleet as the API server would show it.
type world struct {
	nodes       map[string]map[string]string
	firmwares   map[string]*v1alpha1.NodeFirmware
	templates   map[string]*v1alpha1.FirmwareTemplate
	sources     map[string]*v1alpha1.FirmwareSource
	quarantines map[string]*v1alpha1.FirmwareQuarantine
	devices     map[string]*v1alpha1.NodeDevice
	// inEffect holds for each template and node whether the devices it decides run what it says; brute fills it.
	inEffect map[string][]bool
	serial   int
}

func newWorld() *world {
	return &world{
		nodes: map[string]map[string]string{}, firmwares: map[string]*v1alpha1.NodeFirmware{},
		templates: map[string]*v1alpha1.FirmwareTemplate{}, sources: map[string]*v1alpha1.FirmwareSource{}, quarantines: map[string]*v1alpha1.FirmwareQuarantine{},
		devices: map[string]*v1alpha1.NodeDevice{},
	}
}

var (
	someNodes     = []string{"n0", "n1", "n2"}
	someTemplates = []string{"t0", "t1", "t2"}
	someSources   = []string{"s0", "s1"}
	someDevices   = []string{"d0", "d1", "d2", "d3"}
	someVersions  = []string{"1.0", "2.0", "3.0"}
	someBoards    = []string{"", "B0", "B1"}
	someModels    = []string{"", "m0", "m1"}
	someSerials   = []string{"", "", "S0", "S1"}
	someVendors   = []string{"", "15b3", "acme-inc", "Acme  INC.", "other"}
	base          = time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
)

func digest(i int) v1alpha1.Digest { return v1alpha1.Digest(fmt.Sprintf("sha256:%016d%048d", i, 0)) }

func pick[T any](t *rapid.T, from []T, label string) T { return rapid.SampledFrom(from).Draw(t, label) }

// step makes one random change to the world and tells the index.
func (w *world) step(t *rapid.T, ix *Index) Affected {
	w.serial++
	uid := types.UID(fmt.Sprintf("uid-%d", w.serial))
	switch pick(t, []string{
		"node", "node gone", "firmware", "firmware", "firmware gone", "template", "template", "template", "template gone",
		"source", "source", "source gone", "quarantine", "quarantine gone", "device", "device", "device", "device gone",
	}, "event") {
	case "node":
		name := pick(t, someNodes, "node")
		w.nodes[name] = map[string]string{"pool": pick(t, []string{"a", "b"}, "pool")}
		return ix.SetNode(name, w.nodes[name])
	case "node gone":
		name := pick(t, someNodes, "node")
		delete(w.nodes, name)
		return ix.DeleteNode(name)
	case "firmware":
		f := w.drawFirmware(t, pick(t, someNodes, "node"), uid)
		w.firmwares[f.Name] = f
		return ix.SetNodeFirmware(f)
	case "firmware gone":
		name := pick(t, someNodes, "node")
		delete(w.firmwares, name)
		return ix.DeleteNodeFirmware(name)
	case "template":
		o := w.drawTemplate(t, pick(t, someTemplates, "template"), uid)
		w.templates[o.Name] = o
		return ix.SetTemplate(o)
	case "template gone":
		name := pick(t, someTemplates, "template")
		delete(w.templates, name)
		return ix.DeleteTemplate(name)
	case "source":
		s := w.drawSource(t, pick(t, someSources, "source"))
		w.sources[s.Name] = s
		return ix.SetSource(s)
	case "source gone":
		name := pick(t, someSources, "source")
		delete(w.sources, name)
		return ix.DeleteSource(name)
	case "quarantine":
		q := drawQuarantine(t)
		w.quarantines[q.Name] = q
		return ix.SetQuarantine(q)
	case "quarantine gone":
		name := drawQuarantine(t).Name
		delete(w.quarantines, name)
		return ix.DeleteQuarantine(name)
	case "device":
		d := w.drawDevice(t, pick(t, someDevices, "device"), uid)
		w.devices[d.Name] = d
		return ix.SetDevice(d)
	default:
		name := pick(t, someDevices, "device")
		delete(w.devices, name)
		return ix.DeleteDevice(name)
	}
}

// populate makes a world in which something can happen.
func (w *world) populate(t *rapid.T, ix *Index) {
	for _, name := range someNodes {
		w.nodes[name] = map[string]string{"pool": "a"}
		ix.SetNode(name, w.nodes[name])
	}
	for _, name := range someSources {
		w.sources[name] = w.drawSource(t, name)
		ix.SetSource(w.sources[name])
	}
	for i, name := range someDevices {
		w.devices[name] = w.drawDevice(t, name, types.UID(fmt.Sprintf("device-%d", i)))
		ix.SetDevice(w.devices[name])
	}
	for i, name := range someTemplates {
		w.templates[name] = w.drawTemplate(t, name, types.UID(fmt.Sprintf("template-%d", i)))
		ix.SetTemplate(w.templates[name])
	}
}

// next is the metadata of the next version of an object: of an edit, or of a new object of the same name.
func next(t *rapid.T, name string, old metav1.Object, exists bool, uid types.UID) metav1.ObjectMeta {
	if exists && rapid.Bool().Draw(t, "edit") {
		return metav1.ObjectMeta{Name: name, UID: old.GetUID(), Generation: old.GetGeneration() + 1}
	}
	return metav1.ObjectMeta{Name: name, UID: uid, Generation: 1}
}

func (w *world) drawFirmware(t *rapid.T, name string, uid types.UID) *v1alpha1.NodeFirmware {
	old, exists := w.firmwares[name]
	if exists && rapid.Bool().Draw(t, "status only") {
		f := old.DeepCopy()
		f.Status = drawFirmwareStatus(t)
		return f
	}
	f := &v1alpha1.NodeFirmware{ObjectMeta: next(t, name, old, exists, uid), Status: drawFirmwareStatus(t)}
	for i := range rapid.IntRange(0, 2).Draw(t, "pins") {
		p := v1alpha1.FirmwareRule{
			Name: fmt.Sprintf("p%d", i), Selector: v1alpha1.DeviceSelector{Class: v1alpha1.ClassNIC, Vendor: pick(t, someVendors, "pin vendor")},
			Version: pick(t, someVersions, "version"), SourceRef: v1alpha1.SourceReference{Name: pick(t, someSources, "source")},
		}
		if m := pick(t, someModels, "pin model"); m != "" {
			p.Selector.Models = []string{m}
		}
		if s := pick(t, someSerials, "pin serial"); s != "" {
			p.Selector.SerialNumbers = []string{s}
		}
		f.Spec.Pins = append(f.Spec.Pins, p)
	}
	f.Spec.Requests.Retry = pick(t, someRetries, "retry")
	return f
}

func drawFirmwareStatus(t *rapid.T) v1alpha1.NodeFirmwareStatus {
	out := v1alpha1.NodeFirmwareStatus{Baseline: pick(t, []string{"", "b0", "b1"}, "baseline")}
	switch rapid.IntRange(0, 3).Draw(t, "machine") {
	case 1, 2:
		out.Machine = &v1alpha1.Machine{Model: pick(t, []string{"x", "y"}, "machine model")}
	case 3:
		at := metav1.NewTime(base)
		out.LastScanTime = &at
	}
	return out
}

func (w *world) drawTemplate(t *rapid.T, name string, uid types.UID) *v1alpha1.FirmwareTemplate {
	old, exists := w.templates[name]
	o := &v1alpha1.FirmwareTemplate{ObjectMeta: next(t, name, old, exists, uid)}
	switch rapid.IntRange(0, 5).Draw(t, "selector") {
	case 0, 1:
		o.Spec.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"pool": pick(t, []string{"a", "b"}, "pool")}}
	case 2:
		o.Spec.NodeSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "?"}}}
	}
	if rapid.IntRange(0, 3).Draw(t, "machine") == 0 {
		o.Spec.Machine = &v1alpha1.MachineSelector{Model: pick(t, []string{"X", "y"}, "machine model")}
	}
	if rapid.IntRange(0, 3).Draw(t, "state") == 0 {
		o.Spec.State = v1alpha1.TemplatePaused
	}
	for i := range rapid.IntRange(1, 2).Draw(t, "rules") {
		r := v1alpha1.FirmwareRule{
			Name: fmt.Sprintf("r%d", i), Version: pick(t, someVersions, "version"),
			SourceRef: v1alpha1.SourceReference{Name: pick(t, someSources, "source")},
			Selector:  v1alpha1.DeviceSelector{Class: v1alpha1.ClassNIC, Vendor: pick(t, someVendors, "vendor")},
		}
		if b := pick(t, someBoards, "board"); b != "" {
			r.Selector.BoardIDs = []string{b, "B9"}
		}
		if m := pick(t, someModels, "model"); m != "" {
			r.Selector.Models = []string{m, "101d"}[:rapid.IntRange(1, 2).Draw(t, "ids")]
		}
		if rapid.IntRange(0, 4).Draw(t, "one device") == 0 {
			r.Selector.SerialNumbers = []string{"d0"}
			r.Selector.PCIAddresses = []string{"0000:01:00.0"}
		}
		if rapid.IntRange(0, 4).Draw(t, "validate") == 0 {
			r.Policy = v1alpha1.PolicyValidate
		}
		if rapid.IntRange(0, 4).Draw(t, "downgrade") == 0 {
			r.Downgrade = v1alpha1.DowngradeAllow
		}
		o.Spec.Rules = append(o.Spec.Rules, r)
	}
	return o
}

func (w *world) drawSource(t *rapid.T, name string) *v1alpha1.FirmwareSource {
	s := &v1alpha1.FirmwareSource{ObjectMeta: metav1.ObjectMeta{
		Name: name, UID: types.UID(rapid.SampledFrom([]string{"u0", "u1"}).Draw(t, "uid of the source")), Generation: rapid.Int64Range(1, 2).Draw(t, "generation"),
	}}
	s.Status.ObservedGeneration = s.Generation - rapid.Int64Range(0, 1).Draw(t, "not observed")
	if rapid.IntRange(0, 3).Draw(t, "ready") != 0 {
		s.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue}}
	}
	for range rapid.IntRange(0, 3).Draw(t, "images") {
		i := v1alpha1.StoredImage{
			Class: v1alpha1.ClassNIC, Version: pick(t, someVersions, "version"), Digest: digest(rapid.IntRange(1, 2).Draw(t, "digest")),
		}
		if b := pick(t, someBoards, "board"); b != "" {
			i.BoardIDs = []string{b}
		}
		s.Status.Images = append(s.Status.Images, i)
	}
	s.Spec.UpgradePaths = drawFewPaths(t)
	return s
}

// drawQuarantine is one in any state, reported by a node of the policy of all nodes or of another one.
func drawQuarantine(t *rapid.T) *v1alpha1.FirmwareQuarantine {
	q := bad(rapid.IntRange(1, 2).Draw(t, "bad"), pick(t, []string{"15b3:101d", "any:m0", v1alpha1.AnyModel}, "bad model"))
	q.Spec.State = pick(t, []v1alpha1.QuarantineState{
		v1alpha1.QuarantineActive, v1alpha1.QuarantineActive, v1alpha1.QuarantineLifted, v1alpha1.QuarantineConfirmed,
	}, "decision")
	q.Generation = rapid.Int64Range(1, 2).Draw(t, "generation of the quarantine")
	if rapid.Bool().Draw(t, "one reporter") {
		q.Status.Scope, q.Status.Reports = v1alpha1.QuarantinePolicies, q.Status.Reports[:1]
		q.Status.Reports[0].Policy = pick(t, []string{v1alpha1.DefaultRolloutPolicy, "other"}, "policy")
	}
	return q
}

// drawFewPaths restricts little, so that much is still due.
func drawFewPaths(t *rapid.T) paths {
	v := rapid.Permutation(someVersions).Draw(t, "path")
	switch rapid.IntRange(0, 7).Draw(t, "paths") {
	case 0:
		return paths{edge(v[0], v[1])}
	case 1, 2:
		return paths{via(v[0], v[1], v[2])}
	case 3:
		return paths{least(v[0], v[1])}
	}
	return nil
}

func (w *world) drawDevice(t *rapid.T, name string, uid types.UID) *v1alpha1.NodeDevice {
	d := &v1alpha1.NodeDevice{ObjectMeta: metav1.ObjectMeta{Name: name, UID: uid}}
	d.Spec.NodeName = pick(t, someNodes, "node")
	if old, ok := w.devices[name]; ok && rapid.IntRange(0, 5).Draw(t, "recreated") != 0 {
		d = old.DeepCopy()
	}
	d.Status = v1alpha1.NodeDeviceStatus{Class: v1alpha1.ClassNIC}
	if rapid.IntRange(0, 9).Draw(t, "unseen") == 0 {
		d.Status = v1alpha1.NodeDeviceStatus{}
		return d
	}
	s := &d.Status
	s.Model, s.BoardID = pick(t, someModels, "model"), pick(t, someBoards, "board")
	s.PCIID, s.Vendor = pick(t, []string{"", "15b3:101d", "15b3:1021"}, "PCI id"), pick(t, []string{"", "Acme Inc.", "ACME, Inc", "Other"}, "vendor")
	s.SerialNumber, s.PCIAddress = pick(t, someSerials, "serial"), pick(t, []string{"", "0000:01:00.0"}, "address")
	s.Firmware = &v1alpha1.ObservedFirmware{
		Running: pick(t, someVersions, "running"), Driver: pick(t, []string{"x", "x", "x", ""}, "driver"),
		VersionFormat: pick(t, []v1alpha1.VersionFormat{"", v1alpha1.VersionFormatDotted}, "format"),
	}
	if value := pick(t, []string{"", "4", "8"}, "numVFs"); value != "" {
		s.Parameters = []v1alpha1.ObservedParameter{{Name: "numVFs", Current: &value}}
	}
	if rapid.IntRange(0, 4).Draw(t, "unread") == 0 {
		s.Conditions = append(s.Conditions, metav1.Condition{
			Type: v1alpha1.ConditionInspected, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonReadFailed, Message: "no answer",
		})
	}
	if rapid.IntRange(0, 4).Draw(t, "left over") == 0 {
		s.Conditions = append(s.Conditions, metav1.Condition{Type: v1alpha1.ConditionConflict, Reason: v1alpha1.ReasonConflict})
	}
	if rapid.IntRange(0, 4).Draw(t, "updating") == 0 {
		s.Conditions = append(s.Conditions, metav1.Condition{
			Type: v1alpha1.ConditionReconciling, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonProgressing,
		})
	}
	if n := rapid.IntRange(0, 4).Draw(t, "failed"); n < 3 {
		s.Failure = &v1alpha1.DeviceFailure{Job: "j", Request: pick(t, someRetries, "failed under")}
		if n > 0 {
			s.Failure.Digest = digest(n)
		}
	}
	return d
}

var someRetries = []string{"", "first", "second"}

// apply does what the controller would: it writes the decision into the object.
func (w *world) apply(ix *Index, name string) Affected {
	d, ok := w.devices[name]
	decision, known := ix.Decision(name)
	if !ok || !known || settled(d, decision) {
		return Affected{}
	}
	d = d.DeepCopy()
	write(d, decision.Firmware)
	d = d.DeepCopy()
	d.Status.Conditions = slices.DeleteFunc(d.Status.Conditions, func(c metav1.Condition) bool {
		return c.Type == v1alpha1.ConditionConflict || c.Type == v1alpha1.ConditionBlocked
	})
	if decision.Conflict != nil {
		d.Status.Conditions = append(d.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionConflict, Reason: v1alpha1.ReasonConflict})
	}
	if decision.Blocked != nil {
		d.Status.Conditions = append(d.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionBlocked, Reason: decision.Blocked.Reason})
	}
	w.devices[name] = d
	return ix.SetDevice(d)
}

// settled reports whether the object is as decided, in firmware and conditions.
func settled(o *v1alpha1.NodeDevice, d Decision) bool {
	conflict := meta.FindStatusCondition(o.Status.Conditions, v1alpha1.ConditionConflict)
	blocked := meta.FindStatusCondition(o.Status.Conditions, v1alpha1.ConditionBlocked)
	return d.Action == Keep && (conflict != nil) == (d.Conflict != nil) && (blocked != nil) == (d.Blocked != nil) &&
		(blocked == nil || blocked.Reason == d.Blocked.Reason)
}

// fill makes an index of the world in a random order.
func (w *world) fill(t *rapid.T) *Index {
	ix := NewIndex()
	var sets []func()
	for name, l := range w.nodes {
		sets = append(sets, func() { ix.SetNode(name, l) })
	}
	for _, o := range w.firmwares {
		sets = append(sets, func() { ix.SetNodeFirmware(o) })
	}
	for _, o := range w.templates {
		sets = append(sets, func() { ix.SetTemplate(o) })
	}
	for _, o := range w.sources {
		sets = append(sets, func() { ix.SetSource(o) })
	}
	for _, o := range w.quarantines {
		sets = append(sets, func() { ix.SetQuarantine(o) })
	}
	for _, o := range w.devices {
		sets = append(sets, func() { ix.SetDevice(o) })
	}
	for _, i := range rapid.Permutation(slices.Collect(rangeOf(len(sets)))).Draw(t, "order") {
		sets[i]()
	}
	return ix
}

func rangeOf(n int) func(func(int) bool) {
	return func(yield func(int) bool) {
		for i := range n {
			if !yield(i) {
				return
			}
		}
	}
}

// view is everything an index decides, in comparable form.
type view struct {
	decisions map[string]string
	tallies   map[string]Tally
}

func (w *world) view(ix *Index) view {
	v := view{map[string]string{}, map[string]Tally{}}
	for name := range w.devices {
		d, known := ix.Decision(name)
		v.decisions[name] = describe(d, known)
	}
	for name := range w.templates {
		v.tallies[name], _ = ix.Tally(Ref{v1alpha1.OriginTemplate, name})
	}
	return v
}

func describe(d Decision, known bool) string {
	s := fmt.Sprintf("known=%v action=%v conflict=%v verdict=%+v", known, d.Action, d.Conflict, d.Verdict)
	if d.Firmware != nil {
		f := *d.Firmware
		path := "none"
		if f.Path != nil {
			path = fmt.Sprintf("%+v", f.Path)
		}
		f.Path = nil
		s += fmt.Sprintf(" firmware=%+v path=%s", f, path)
	}
	if d.Blocked != nil {
		s += fmt.Sprintf(" blocked=%+v", *d.Blocked)
	}
	return s
}

func requireSameView(t require.TestingT, want, got view) {
	require.Equal(t, want.decisions, got.decisions)
	for name := range want.tallies {
		a, b := want.tallies[name], got.tallies[name]
		for _, x := range []*Tally{&a, &b} { // nil and empty are the same
			x.Devices, x.Failures = slices.Clip(append([]string{}, x.Devices...)), append([]FailureOn{}, x.Failures...)
			x.Conflicts, x.Blocks = append([]ConflictOn{}, x.Conflicts...), append([]BlockOn{}, x.Blocks...)
		}
		require.Equal(t, a, b, "tally of %s", name)
	}
}

// The index, kept up to date event by event, decides what comparing everything with everything decides, whatever the
// order of the events, and it reports every device and template an event changes.
func TestIndexEqualsBruteForce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, ix := newWorld(), NewIndex()
		due := map[string]bool{} // devices the index asked to look at
		reported := map[string]Tally{}
		if rapid.Bool().Draw(t, "populated") {
			w.populate(t, ix)
			for _, name := range someTemplates {
				reported[name], _ = ix.Tally(Ref{v1alpha1.OriginTemplate, name})
			}
			for _, name := range someDevices {
				due[name] = true
			}
		}
		note := func(a Affected) {
			for _, d := range a.Devices {
				due[d] = true
			}
			for name := range w.templates {
				now, _ := ix.Tally(Ref{v1alpha1.OriginTemplate, name})
				if !slices.Contains(a.Templates, Ref{v1alpha1.OriginTemplate, name}) {
					require.Equal(t, reported[name], now, "a template whose tally changed is reported")
				}
				reported[name] = now
			}
			maps.DeleteFunc(reported, func(name string, _ Tally) bool { return w.templates[name] == nil })
		}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			note(w.step(t, ix))
			if rapid.Bool().Draw(t, "controller runs") {
				for name := range maps.Clone(due) {
					delete(due, name)
					note(w.apply(ix, name))
				}
			}
			for name, o := range w.devices {
				if d, known := ix.Decision(name); known && !settled(o, d) {
					require.True(t, due[name], "device %s is not as decided and was not reported", name)
				}
			}
		}
		brute := w.brute()
		requireSameView(t, brute, w.view(ix))
		requireSameView(t, brute, w.view(w.fill(t)))
	})
}

// R001-10, R000-19: while several parties claim a device its assignment does not change, whatever else happens.
func TestConflictKeepsAssignment(t *testing.T) {
	conflicts := 0
	rapid.Check(t, func(t *rapid.T) {
		w, ix := newWorld(), NewIndex()
		w.populate(t, ix)
		for range rapid.IntRange(0, 30).Draw(t, "steps") {
			w.step(t, ix)
			for name, d := range w.devices {
				decision, _ := ix.Decision(name)
				if decision.Conflict == nil {
					continue
				}
				conflicts++
				require.GreaterOrEqual(t, len(decision.Conflict), 2)
				require.Equal(t, Keep, decision.Action)
				require.True(t, decision.Firmware.isOf(d), "the assignment stays as it is")
				require.Nil(t, decision.Blocked)
			}
			for name := range w.devices {
				w.apply(ix, name)
			}
		}
	})
	assert.NotZero(t, conflicts)
}

// Deleting all parties of a conflict but one resolves it in favour of the one that is left.
func TestRemovedCauseEndsConflict(t *testing.T) {
	resolved := 0
	rapid.Check(t, func(t *rapid.T) {
		w, ix := newWorld(), NewIndex()
		w.populate(t, ix)
		for range rapid.IntRange(0, 15).Draw(t, "steps") {
			w.step(t, ix)
			for name := range w.devices {
				w.apply(ix, name)
			}
		}
		for name := range w.devices {
			d, _ := ix.Decision(name)
			if d.Conflict == nil || d.Conflict[0].Kind == v1alpha1.OriginPin || w.bruteUnmatched(w.devices[name]) != nil {
				continue
			}
			stays := d.Conflict[0].Name
			if slices.ContainsFunc(d.Conflict[1:], func(p Party) bool { return p.Name == stays }) {
				continue // two rules of one template
			}
			o := w.templates[stays]
			if _, err := NewTemplate(o); err != nil || o.Spec.State == v1alpha1.TemplatePaused {
				continue
			}
			for _, p := range d.Conflict[1:] {
				delete(w.templates, p.Name)
				ix.DeleteTemplate(p.Name)
			}
			w.apply(ix, name)
			d, _ = ix.Decision(name)
			require.Nil(t, d.Conflict)
			require.Equal(t, Keep, d.Action)
			require.Equal(t, stays, d.Firmware.by().Name)
			resolved++
			return
		}
	})
	assert.NotZero(t, resolved)
}

func TestFirstsEqualsSortedSet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f, model := newFirsts(rapid.IntRange(1, 4).Draw(t, "keep")), map[string]struct{}{}
		for range rapid.IntRange(0, 200).Draw(t, "steps") {
			name := fmt.Sprintf("%02d", rapid.IntRange(0, 25).Draw(t, "name"))
			if rapid.Bool().Draw(t, "add") {
				f.add(name)
				model[name] = struct{}{}
			} else {
				f.remove(name)
				delete(model, name)
			}
			want := slices.Sorted(maps.Keys(model))
			require.Equal(t, want[:min(len(want), f.keep)], append([]string(nil), f.first()...))
		}
	})
}
