package match

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// settings makes or edits a ConfigurationTemplate with one rule for the card.
func (s *stage) settings(name string, vfs int32, change ...func(*v1alpha1.ConfigurationTemplate)) {
	if s.generations == nil {
		s.generations = map[string]int64{}
	}
	s.generations[name]++
	o := &v1alpha1.ConfigurationTemplate{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "uid-c", Generation: s.generations[name]}}
	o.Spec.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"pool": "gpu"}}
	o.Spec.Rules = []v1alpha1.ConfigurationRule{{
		Name: "r", Selector: v1alpha1.DeviceSelector{Class: v1alpha1.ClassNIC, BoardIDs: []string{"MT_0000000359"}},
		DesiredConfiguration: v1alpha1.DesiredConfiguration{Settings: v1alpha1.Settings{NumVFs: ptr.To(vfs)}},
	}}
	for _, c := range change {
		c(o)
	}
	s.ix.SetConfigurationTemplate(o)
	s.act()
}

func (s *stage) hasVFs(want int32, from string) {
	s.Helper()
	require.NotNil(s, s.device.Spec.Configuration)
	assert.Equal(s, want, *s.device.Spec.Configuration.Settings.NumVFs)
	by := v1alpha1.ConfiguredBy(s.device.Spec.Origin)
	require.NotNil(s, by)
	assert.Equal(s, from, by.Name)
	assert.Equal(s, v1alpha1.ImageHash(s.device.Spec.Configuration.Digest()), by.Hash)
}

// R001-24, R000-13: settings are assigned by the rules of firmware, beside it and without changing it.
func TestSettingsAreAssignedBesideFirmware(t *testing.T) {
	s := newStage(t)
	s.settings("c", 8)
	s.hasVFs(8, "c")
	assert.Nil(t, s.device.Spec.Firmware)
	assert.Equal(t, v1alpha1.PolicyApply, s.device.Spec.Configuration.Policy)
	assert.Equal(t, v1alpha1.UnlistedKeep, s.device.Spec.Configuration.Unlisted)

	s.template("t", "2.0")
	s.wants("2.0", "t")
	s.hasVFs(8, "c")
	assert.Len(t, s.device.Spec.Origin, 3)

	s.pins("3.0")
	s.wants("3.0", "n")
	s.hasVFs(8, "c")

	s.ix.DeleteConfigurationTemplate("c")
	s.act()
	assert.Nil(t, s.device.Spec.Configuration)
	s.wants("3.0", "n")
	s.pins()
	s.remove("t")
	assert.Equal(t, v1alpha1.NodeDeviceSpec{NodeName: "n"}, s.device.Spec)
}

func TestAnEditWithoutEffectOnSettingsWritesNothing(t *testing.T) {
	s := newStage(t)
	s.settings("c", 8)
	before := s.device
	s.settings("c", 8, func(o *v1alpha1.ConfigurationTemplate) { o.Spec.Priority = 7 })
	assert.Same(t, before, s.device)
	s.settings("c", 8, func(o *v1alpha1.ConfigurationTemplate) { o.Spec.Rules[0].Policy = v1alpha1.PolicyValidate })
	assert.Equal(t, v1alpha1.PolicyValidate, s.device.Spec.Configuration.Policy)
	assert.Equal(t, int64(1), v1alpha1.ConfiguredBy(s.device.Spec.Origin).Generation, "the settings are those of the first generation")
	s.settings("c", 9)
	assert.Equal(t, int64(4), v1alpha1.ConfiguredBy(s.device.Spec.Origin).Generation)
}

// R001-9: two rules for the settings of a device are a conflict, which changes neither them nor its firmware, and names both.
func TestTwoTemplatesOfSettingsChangeNothing(t *testing.T) {
	s := newStage(t)
	s.settings("c", 8)
	s.template("t", "2.0")
	s.settings("d", 4)
	s.template("t", "3.0")
	d, _ := s.ix.Decision("d")
	assert.Equal(t, []Party{{v1alpha1.OriginConfiguration, "c", "r"}, {v1alpha1.OriginConfiguration, "d", "r"}}, d.Conflict)
	s.hasVFs(8, "c")
	s.wants("2.0", "t")
	for name, want := range map[string]int32{"c": 1, "d": 1} {
		tally, _ := s.ix.Tally(Ref{v1alpha1.OriginConfiguration, name})
		assert.Equal(t, want, tally.Conflicting, name)
	}
	tally, _ := s.ix.Tally(Ref{v1alpha1.OriginTemplate, "t"})
	assert.Zero(t, tally.Conflicting)
	s.ix.DeleteConfigurationTemplate("c")
	s.act()
	s.hasVFs(4, "d")
	s.wants("3.0", "t")
}

func TestPausedTemplateKeepsSettings(t *testing.T) {
	paused := func(o *v1alpha1.ConfigurationTemplate) { o.Spec.State = v1alpha1.TemplatePaused }
	s := newStage(t)
	s.settings("c", 8, paused)
	assert.Nil(t, s.device.Spec.Configuration, "nothing new is assigned")
	s.settings("c", 8)
	s.settings("c", 9, paused)
	s.hasVFs(8, "c")
	s.settings("c", 9, paused, func(o *v1alpha1.ConfigurationTemplate) { o.Spec.Rules[0].Selector.BoardIDs = []string{"other"} })
	s.hasVFs(8, "c")
	s.settings("c", 9, func(o *v1alpha1.ConfigurationTemplate) { o.Spec.Rules[0].Selector.BoardIDs = []string{"other"} })
	assert.Nil(t, s.device.Spec.Configuration)
}

// R000-18, R001-12: the counters of a template of settings are true.
func TestTemplateOfSettingsCounts(t *testing.T) {
	var is *v1alpha1.ObservedConfiguration
	for name, c := range map[string]struct {
		is     v1alpha1.ObservedConfiguration
		policy v1alpha1.Policy
		counts Counts
	}{
		"in force":  {v1alpha1.ObservedConfiguration{State: v1alpha1.ConfigurationUpToDate}, "", Counts{Matched: 1, Applied: 1}},
		"due":       {v1alpha1.ObservedConfiguration{State: v1alpha1.ConfigurationOutOfDate}, "", Counts{Matched: 1, NotApplied: 1, Pending: 1}},
		"validated": {v1alpha1.ObservedConfiguration{State: v1alpha1.ConfigurationOutOfDate}, v1alpha1.PolicyValidate, Counts{Matched: 1, NotApplied: 1, Mismatched: 1}},
		"invalid":   {v1alpha1.ObservedConfiguration{State: v1alpha1.ConfigurationInvalid}, "", Counts{Matched: 1, NotApplied: 1, Blocked: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			s.settings("c", 8, func(o *v1alpha1.ConfigurationTemplate) { o.Spec.Rules[0].Policy = c.policy })
			is = &c.is
			is.Digest = s.device.Spec.Configuration.Digest()
			s.status(func(d *v1alpha1.NodeDeviceStatus) { d.Configuration = is })
			tally, ok := s.ix.Tally(Ref{v1alpha1.OriginConfiguration, "c"})
			require.True(t, ok)
			assert.Equal(t, c.counts, tally.Counts)
			assert.Equal(t, []string{"d"}, tally.Devices)
			for _, b := range tally.Blocks {
				assert.Equal(t, v1alpha1.ReasonParameterInvalid, b.Reason)
			}
		})
	}
}

// What the daemon says of other settings is not known of those that are declared now.
func TestSettingsAreNotInForceBeforeTheDaemonLooked(t *testing.T) {
	s := newStage(t)
	s.settings("c", 8)
	s.status(func(d *v1alpha1.NodeDeviceStatus) {
		d.Configuration = &v1alpha1.ObservedConfiguration{Digest: s.device.Spec.Configuration.Digest(), State: v1alpha1.ConfigurationUpToDate}
	})
	s.settings("c", 9)
	tally, _ := s.ix.Tally(Ref{v1alpha1.OriginConfiguration, "c"})
	assert.Equal(t, Counts{Matched: 1, NotApplied: 1, Pending: 1}, tally.Counts)
}

func TestFailedSettingsWaitForAPerson(t *testing.T) {
	s := newStage(t)
	s.settings("c", 8)
	failed := &v1alpha1.DeviceFailure{Reason: "VerifyFailed", Digest: s.device.Spec.Configuration.Digest(), Job: "j"}
	s.status(func(d *v1alpha1.NodeDeviceStatus) {
		d.Configuration = &v1alpha1.ObservedConfiguration{Digest: failed.Digest, State: v1alpha1.ConfigurationOutOfDate, Failure: failed}
	})
	counts := func() Counts {
		tally, _ := s.ix.Tally(Ref{v1alpha1.OriginConfiguration, "c"})
		return tally.Counts
	}
	assert.EqualValues(t, 1, counts().Failed)
	s.firmware = &v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "uid-n", Generation: 1}}
	s.firmware.Spec.Requests.Retry = "reseated"
	s.ix.SetNodeFirmware(s.firmware)
	assert.EqualValues(t, 1, counts().Pending, "a retry is requested")
	s.firmware = s.firmware.DeepCopy()
	s.firmware.Generation, s.firmware.Spec.Requests.Retry = 2, ""
	s.ix.SetNodeFirmware(s.firmware)
	assert.EqualValues(t, 1, counts().Failed)
	s.settings("c", 9)
	assert.EqualValues(t, 1, counts().Pending, "other settings are desired")
}

// Settings that are quarantined for the model are blocked, and the firmware of the device is not.
func TestQuarantinedSettingsAreBlocked(t *testing.T) {
	s := newStage(t)
	s.settings("c", 8)
	s.status(func(d *v1alpha1.NodeDeviceStatus) {
		d.Configuration = &v1alpha1.ObservedConfiguration{Digest: s.device.Spec.Configuration.Digest(), State: v1alpha1.ConfigurationOutOfDate}
	})
	q := bad(1, "15b3:101d")
	q.Spec.Digest = s.device.Spec.Configuration.Digest()
	s.ix.SetQuarantine(q)
	d, _ := s.ix.Decision("d")
	require.NotNil(t, d.Blocked)
	assert.Equal(t, v1alpha1.ReasonQuarantined, d.Blocked.Reason)
	assert.Equal(t, "c", d.Blocked.By.Name)
	tally, _ := s.ix.Tally(Ref{v1alpha1.OriginConfiguration, "c"})
	assert.EqualValues(t, 1, tally.Blocked)
	s.template("t", "2.0")
	d, _ = s.ix.Decision("d")
	assert.Nil(t, d.Blocked, "its firmware is due, and comes first")
	s.status(func(d *v1alpha1.NodeDeviceStatus) { d.Firmware.Running = "2.0" })
	d, _ = s.ix.Decision("d")
	assert.NotNil(t, d.Blocked)
	fw, _ := s.ix.Tally(Ref{v1alpha1.OriginTemplate, "t"})
	assert.EqualValues(t, 1, fw.Applied)
	s.ix.DeleteQuarantine(q.Name)
	d, _ = s.ix.Decision("d")
	assert.Nil(t, d.Blocked)
}

// Whatever happens in whatever order, the decisions about settings are those of an index that is told only what is, and the settings of a
// device are those of the only rule that claims them.
func TestSettingsDependOnFactsAlone(t *testing.T) {
	type world struct {
		nodes   map[string]string
		fcts    map[string]*v1alpha1.ConfigurationTemplate
		fwt     *v1alpha1.FirmwareTemplate
		devices map[string]*v1alpha1.NodeDevice
	}
	nodes, fcts, devices := []string{"n0", "n1"}, []string{"c0", "c1"}, []string{"d0", "d1", "d2"}
	rapid.Check(t, func(t *rapid.T) {
		w, ix, serial := world{map[string]string{}, map[string]*v1alpha1.ConfigurationTemplate{}, nil, map[string]*v1alpha1.NodeDevice{}}, NewIndex(), 0
		fill := func(to *Index) {
			to.SetSource(newSource(metav1.ConditionTrue, "1.0", "2.0"))
			for n, pool := range w.nodes {
				to.SetNode(n, map[string]string{"pool": pool})
			}
			for _, o := range w.fcts {
				to.SetConfigurationTemplate(o)
			}
			if w.fwt != nil {
				to.SetTemplate(w.fwt)
			}
			for _, d := range w.devices {
				to.SetDevice(d)
			}
		}
		fill(ix)
		for range rapid.IntRange(1, 40).Draw(t, "events") {
			serial++
			switch pick(t, []string{"node", "fct", "fct", "fct", "fct gone", "fwt", "device", "device", "write", "write", "write"}, "event") {
			case "node":
				n, pool := pick(t, nodes, "node"), pick(t, []string{"a", "b"}, "pool")
				w.nodes[n] = pool
				ix.SetNode(n, map[string]string{"pool": pool})
			case "fct":
				o := &v1alpha1.ConfigurationTemplate{ObjectMeta: metav1.ObjectMeta{Name: pick(t, fcts, "fct"), UID: "u", Generation: int64(serial)}}
				o.Spec.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"pool": pick(t, []string{"a", "b"}, "pool")}}
				o.Spec.State = pick(t, []v1alpha1.TemplateState{"", "", v1alpha1.TemplatePaused}, "state")
				for i := range rapid.IntRange(1, 2).Draw(t, "rules") {
					o.Spec.Rules = append(o.Spec.Rules, v1alpha1.ConfigurationRule{
						Name: fmt.Sprintf("r%d", i), Selector: v1alpha1.DeviceSelector{Class: v1alpha1.ClassNIC, BoardIDs: []string{pick(t, []string{"B0", "B1"}, "board")}},
						DesiredConfiguration: v1alpha1.DesiredConfiguration{Settings: v1alpha1.Settings{NumVFs: ptr.To(rapid.Int32Range(0, 2).Draw(t, "vfs"))}},
					})
				}
				w.fcts[o.Name] = o
				ix.SetConfigurationTemplate(o)
			case "fct gone":
				name := pick(t, fcts, "fct")
				delete(w.fcts, name)
				ix.DeleteConfigurationTemplate(name)
			case "fwt":
				w.fwt = &v1alpha1.FirmwareTemplate{ObjectMeta: metav1.ObjectMeta{Name: "c0", UID: "u", Generation: int64(serial)}} // of the name of another kind
				w.fwt.Spec.Rules = []v1alpha1.FirmwareRule{{
					Name: "r0", Version: "2.0", SourceRef: v1alpha1.SourceReference{Name: "s"},
					Selector: v1alpha1.DeviceSelector{Class: v1alpha1.ClassNIC, BoardIDs: []string{pick(t, []string{"B0", "B1"}, "board")}},
				}}
				ix.SetTemplate(w.fwt)
			case "device":
				name := pick(t, devices, "device")
				d := &v1alpha1.NodeDevice{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}, Spec: v1alpha1.NodeDeviceSpec{NodeName: pick(t, nodes, "node")}}
				if old := w.devices[name]; old != nil {
					d = old.DeepCopy()
				}
				d.Status = v1alpha1.NodeDeviceStatus{
					Class: v1alpha1.ClassNIC, BoardID: pick(t, []string{"B0", "B1"}, "board"),
					Firmware:      &v1alpha1.ObservedFirmware{Running: pick(t, []string{"1.0", "2.0"}, "running"), Driver: "x"},
					Configuration: pick(t, []*v1alpha1.ObservedConfiguration{nil, {State: v1alpha1.ConfigurationUpToDate}, {State: v1alpha1.ConfigurationInvalid}}, "is").DeepCopy(),
				}
				if is := d.Status.Configuration; is != nil {
					is.Digest = (&v1alpha1.DesiredConfiguration{Settings: v1alpha1.Settings{NumVFs: ptr.To(rapid.Int32Range(0, 2).Draw(t, "vfs it has"))}}).Digest()
				}
				w.devices[name] = d
				ix.SetDevice(d)
			default:
				name := pick(t, devices, "device")
				if d, known := ix.Decision(name); known {
					o := w.devices[name].DeepCopy()
					put(o, d)
					w.devices[name] = o
					ix.SetDevice(o)
					now, _ := ix.Decision(name)
					require.True(t, now.Done(o), "what is written is what was decided")
				}
			}
		}
		fresh := NewIndex()
		fill(fresh)
		for _, name := range fcts {
			a, _ := ix.Tally(Ref{v1alpha1.OriginConfiguration, name})
			b, _ := fresh.Tally(Ref{v1alpha1.OriginConfiguration, name})
			require.Equal(t, b.Counts, a.Counts)
			require.ElementsMatch(t, b.Devices, a.Devices)
			a.Counts, a.Devices, b.Counts, b.Devices = Counts{}, nil, Counts{}, nil
			require.Equal(t, b, a)
		}
		for name, o := range w.devices {
			a, known := ix.Decision(name)
			b, _ := fresh.Decision(name)
			require.Equal(t, b, a, name)
			if !known {
				continue
			}
			var claims []*v1alpha1.ConfigurationRule
			anyPaused := false
			for _, c := range w.fcts {
				anyPaused = anyPaused || c.Spec.State == v1alpha1.TemplatePaused
				for i := range c.Spec.Rules {
					r := &c.Spec.Rules[i]
					if w.nodes[o.Spec.NodeName] == c.Spec.NodeSelector.MatchLabels["pool"] && r.Selector.BoardIDs[0] == o.Status.BoardID {
						claims = append(claims, r)
					}
				}
			}
			switch {
			case anyPaused: // what it held matters too
			case len(claims) > 1:
				require.Len(t, a.Conflict, len(claims))
				require.Equal(t, o.Spec.Configuration, a.Configuration.Desired())
			case len(claims) == 1:
				require.Empty(t, a.Conflict)
				require.Equal(t, claims[0].Settings, a.Configuration.Settings)
			default:
				require.Nil(t, a.Configuration)
			}
		}
	})
}
