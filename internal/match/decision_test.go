package match

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// stage is a node "n" with one card that runs 1.0, a source with images of 1.0, 2.0 and 3.0, and what a test adds. It
// acts on every decision as the controller would.
type stage struct {
	*testing.T
	ix        *Index
	device    *v1alpha1.NodeDevice
	templates map[string]*v1alpha1.FirmwareTemplate
	firmware  *v1alpha1.NodeFirmware
	// generations are those of the templates of settings.
	generations map[string]int64
}

func newStage(t *testing.T) *stage {
	s := &stage{T: t, ix: NewIndex(), templates: map[string]*v1alpha1.FirmwareTemplate{}}
	s.ix.SetNode("n", map[string]string{"pool": "gpu"})
	s.ix.SetSource(newSource(metav1.ConditionTrue, "1.0", "2.0", "3.0"))
	s.device = &v1alpha1.NodeDevice{
		ObjectMeta: metav1.ObjectMeta{Name: "d", UID: "u"}, Spec: v1alpha1.NodeDeviceSpec{NodeName: "n"},
		Status: v1alpha1.NodeDeviceStatus{
			Class: v1alpha1.ClassNIC, PCIID: "15b3:101d", BoardID: "MT_0000000359", SerialNumber: "S1",
			Firmware: &v1alpha1.ObservedFirmware{Running: "1.0", Driver: "mstflint", VersionFormat: v1alpha1.VersionFormatDotted},
		},
	}
	s.ix.SetDevice(s.device)
	return s
}

// newSource lists images of the versions; version "N.0" always has digest N.
func newSource(ready metav1.ConditionStatus, versions ...string) *v1alpha1.FirmwareSource {
	source := &v1alpha1.FirmwareSource{ObjectMeta: metav1.ObjectMeta{Name: "s", UID: "uid-of-s", Generation: 4}}
	source.Status.ObservedGeneration = 4
	source.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: ready}}
	for _, v := range versions {
		source.Status.Images = append(source.Status.Images, v1alpha1.StoredImage{
			Class: v1alpha1.ClassNIC, Version: v, BoardIDs: []string{"MT_0000000359"}, Digest: digest(int(v[0] - '0')),
		})
	}
	return source
}

// act writes the decision into the device, as often as it takes.
func (s *stage) act() {
	for {
		d, ok := s.ix.Decision("d")
		if !ok || d.Action == Keep {
			return
		}
		s.device = s.device.DeepCopy()
		put(s.device, d)
		s.ix.SetDevice(s.device)
	}
}

func (s *stage) status(change func(*v1alpha1.NodeDeviceStatus)) {
	s.device = s.device.DeepCopy()
	change(&s.device.Status)
	s.ix.SetDevice(s.device)
	s.act()
}

// template makes or edits a template with one rule for the card.
func (s *stage) template(name, version string, change ...func(*v1alpha1.FirmwareTemplate)) {
	o := &v1alpha1.FirmwareTemplate{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "uid-1"}}
	if old := s.templates[name]; old != nil {
		o.Generation = old.Generation
	}
	o.Generation++
	o.Spec.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"pool": "gpu"}}
	o.Spec.Rules = []v1alpha1.FirmwareRule{{
		Name: "r", Version: version, SourceRef: v1alpha1.SourceReference{Name: "s"},
		Selector: v1alpha1.DeviceSelector{Class: v1alpha1.ClassNIC, BoardIDs: []string{"MT_0000000359"}},
	}}
	for _, c := range change {
		c(o)
	}
	s.templates[name] = o
	s.ix.SetTemplate(o)
	s.act()
}

func (s *stage) remove(name string) {
	delete(s.templates, name)
	s.ix.DeleteTemplate(name)
	s.act()
}

func (s *stage) pins(versions ...string) {
	n := &v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "uid-n", Generation: 1}}
	if s.firmware != nil {
		n = s.firmware.DeepCopy()
		n.Generation++
	}
	n.Spec.Pins = nil
	for i, v := range versions {
		n.Spec.Pins = append(n.Spec.Pins, v1alpha1.FirmwareRule{
			Name: string(rune('a' + i)), Selector: v1alpha1.DeviceSelector{Class: v1alpha1.ClassNIC}, Version: v, SourceRef: v1alpha1.SourceReference{Name: "s"},
		})
	}
	s.firmware = n
	s.ix.SetNodeFirmware(n)
	s.act()
}

// put makes the spec of a device what was decided.
func put(o *v1alpha1.NodeDevice, d Decision) {
	o.Spec.Firmware, o.Spec.Configuration, o.Spec.Origin = d.Firmware.Desired(), d.Configuration.Desired(), d.Origin()
}

// write makes the assignment of a device the one given.
func write(d *v1alpha1.NodeDevice, a *Assigned) {
	d.Spec.Firmware, d.Spec.Origin = a.Desired(), nil
	if a != nil {
		d.Spec.Origin = a.Origin
	}
}

// allow lets every pin of the node bring an older version.
func (s *stage) allow() {
	n := s.firmware.DeepCopy()
	n.Generation++
	for i := range n.Spec.Pins {
		n.Spec.Pins[i].Downgrade = v1alpha1.DowngradeAllow
	}
	s.firmware = n
	s.ix.SetNodeFirmware(n)
	s.act()
}

func (s *stage) wants(version, origin string) {
	s.Helper()
	require.NotNil(s, s.device.Spec.Firmware)
	assert.Equal(s, version, s.device.Spec.Firmware.Version)
	assert.Equal(s, origin, s.device.Spec.Origin[0].Name)
}

func (s *stage) conflict() []Party {
	d, _ := s.ix.Decision("d")
	return d.Conflict
}

func paused(t *v1alpha1.FirmwareTemplate)  { t.Spec.State = v1alpha1.TemplatePaused }
func invalid(t *v1alpha1.FirmwareTemplate) { t.Spec.NodeSelector.MatchLabels["pool"] = "not valid" }
func elsewhere(t *v1alpha1.FirmwareTemplate) {
	t.Spec.NodeSelector.MatchLabels["pool"] = "cpu"
}

// R000-8, R000-10, R000-32: pins beat templates, and a pin settles what templates disagree about.
func TestPinSettlesTemplateConflict(t *testing.T) {
	s := newStage(t)
	s.template("a", "2.0")
	s.template("b", "3.0")
	assert.Len(t, s.conflict(), 2)
	s.pins("3.0")
	assert.Empty(t, s.conflict())
	s.wants("3.0", "n")
	s.pins("3.0", "2.0")
	assert.Len(t, s.conflict(), 2, "two pins")
	s.wants("3.0", "n")
	s.pins()
	assert.Len(t, s.conflict(), 2, "the templates again")
	s.wants("3.0", "n")
	s.remove("b")
	s.wants("2.0", "a")
}

// A pin for one device takes precedence over one for its kind; the order of the pins settles nothing.
func TestDevicePinTakesPrecedence(t *testing.T) {
	s := newStage(t)
	pin := func(name, version string, change func(*v1alpha1.FirmwareRule)) v1alpha1.FirmwareRule {
		p := v1alpha1.FirmwareRule{
			Name: name, Selector: v1alpha1.DeviceSelector{Class: v1alpha1.ClassNIC, Vendor: "15b3"}, Version: version, SourceRef: v1alpha1.SourceReference{Name: "s"},
		}
		change(&p)
		return p
	}
	kind := pin("kind", "1.0", func(*v1alpha1.FirmwareRule) {})
	board := pin("board", "1.0", func(p *v1alpha1.FirmwareRule) { p.Selector.BoardIDs = []string{"mt_0000000359"} })
	serial := pin("serial", "2.0", func(p *v1alpha1.FirmwareRule) { p.Selector.SerialNumbers = []string{"S1"} })
	address := pin("address", "3.0", func(p *v1alpha1.FirmwareRule) { p.Selector.PCIAddresses = []string{"0000:3b:00.1"} })
	other := pin("other", "3.0", func(p *v1alpha1.FirmwareRule) { p.Selector.SerialNumbers = []string{"S2"} })
	s.pins()
	set := func(pins ...v1alpha1.FirmwareRule) {
		s.firmware = s.firmware.DeepCopy()
		s.firmware.Spec.Pins = pins
		s.firmware.Generation++
		s.ix.SetNodeFirmware(s.firmware)
		s.act()
	}
	s.status(func(d *v1alpha1.NodeDeviceStatus) {
		d.PCIAddress, d.Ports = "0000:3b:00.0", []v1alpha1.DevicePort{{PCIAddress: "0000:3b:00.1"}}
	})
	set(kind, other)
	s.wants("1.0", "n")
	for _, pins := range [][]v1alpha1.FirmwareRule{{kind, serial}, {serial, kind, board, other}} {
		set(pins...)
		assert.Empty(t, s.conflict())
		s.wants("2.0", "n")
	}
	unread := []metav1.Condition{{Type: v1alpha1.ConditionInspected, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonReadFailed}}
	s.status(func(d *v1alpha1.NodeDeviceStatus) { d.SerialNumber, d.Conditions = "", unread })
	assert.Empty(t, s.conflict(), "it is most likely still the card with that serial number")
	s.wants("2.0", "n")
	s.status(func(d *v1alpha1.NodeDeviceStatus) { d.SerialNumber, d.Conditions = "S1", nil })

	set(address)
	s.wants("3.0", "n")
	set(kind, address, serial)
	assert.Len(t, s.conflict(), 2, "two pins for one device")
	s.wants("3.0", "n")
	set(kind, board)
	assert.Len(t, s.conflict(), 2, "two pins for its kind")
}

// A node was registered again under its name, and it is another machine, or one that does not say which it is.
func TestIgnoresOtherMachinesPins(t *testing.T) {
	s := newStage(t)
	s.template("a", "2.0")
	s.pins("3.0")
	s.wants("3.0", "n")
	for _, present := range []string{"B", ""} {
		s.machine("A", present)
		s.pins("1.0")
		assert.Equal(t, v1alpha1.ReasonHardwareChanged, s.blocked(), "serial %q", present)
		d, _ := s.ix.Decision("d")
		assert.Contains(t, d.Blocked.Message, "nodefirmware/n")
		s.wants("3.0", "n")
	}
	s.machine("A", "A")
	assert.Empty(t, s.blocked())
	s.wants("1.0", "n")
	s.machine("A", "B")
	s.pins()
	assert.Empty(t, s.blocked(), "there is no pin that could be taken for one of this machine")
	s.wants("2.0", "a")
}

// machine says for which machine the pins are, and which one reports.
func (s *stage) machine(bound, present string) {
	s.firmware = s.firmware.DeepCopy()
	s.firmware.Status.PinnedMachine, s.firmware.Status.Machine = bound, &v1alpha1.Machine{SerialNumber: present}
	s.ix.SetNodeFirmware(s.firmware)
	s.act()
}

// R001-9, R001-10: two rules of one template are a conflict as well.
func TestRulesOfOneTemplateConflict(t *testing.T) {
	s := newStage(t)
	s.template("a", "2.0", func(t *v1alpha1.FirmwareTemplate) {
		second := t.Spec.Rules[0]
		second.Name = "r2"
		t.Spec.Rules = append(t.Spec.Rules, second)
	})
	assert.Len(t, s.conflict(), 2)
	assert.Nil(t, s.device.Spec.Firmware)
}

func TestConflictOutlivesTheOriginOfTheAssignment(t *testing.T) {
	s := newStage(t)
	s.template("a", "1.0")
	s.template("b", "2.0")
	s.template("c", "3.0")
	s.remove("a")
	assert.Len(t, s.conflict(), 2)
	s.wants("1.0", "a")
	s.remove("b")
	s.wants("3.0", "c")
}

func TestPauseNeverHandsADeviceToAnotherTemplate(t *testing.T) {
	s := newStage(t)
	s.template("a", "2.0")
	s.template("a", "2.0", paused)
	s.template("b", "3.0")
	assert.Len(t, s.conflict(), 2)
	s.wants("2.0", "a")
	s.template("a", "3.0", paused, elsewhere)
	assert.Len(t, s.conflict(), 2, "what it assigned stays with it")
	s.wants("2.0", "a")
	s.template("a", "3.0", elsewhere)
	s.wants("3.0", "b")
}

func TestBadTemplateKeepsAssigned(t *testing.T) {
	s := newStage(t)
	s.template("a", "2.0")
	s.template("a", "3.0", invalid)
	s.wants("2.0", "a")
	s.template("b", "3.0")
	assert.Len(t, s.conflict(), 2)
	s.wants("2.0", "a")
	s.remove("a")
	s.wants("3.0", "b")
}

func TestPausedTemplateDoesNotKeepWhatAnotherAssigned(t *testing.T) {
	s := newStage(t)
	s.template("a", "2.0")
	s.template("b", "3.0", paused)
	assert.Len(t, s.conflict(), 2)
	s.remove("a")
	assert.Nil(t, s.device.Spec.Firmware)
}

// A card that cannot be read may report less than before; what was assigned to it stays until it is read.
func TestUnreadableKeepsFirmware(t *testing.T) {
	s := newStage(t)
	s.template("a", "2.0")
	unread := func(d *v1alpha1.NodeDeviceStatus) {
		d.BoardID = ""
		d.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionInspected, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonReadFailed}}
	}
	s.status(unread)
	s.wants("2.0", "a")
	s.template("b", "3.0", func(t *v1alpha1.FirmwareTemplate) { t.Spec.Rules[0].Selector.BoardIDs = nil })
	assert.Len(t, s.conflict(), 2, "both may be meant")
	s.remove("b")
	s.status(func(d *v1alpha1.NodeDeviceStatus) { d.BoardID, d.Conditions = "MT_0000000540", nil })
	assert.Nil(t, s.device.Spec.Firmware, "it was read, and is another board")
}

// A NodeFirmware that is made anew knows its machine only after the next scan.
func TestUnknownMachineLosesNothing(t *testing.T) {
	s := newStage(t)
	s.firmware = &v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "uid-n", Generation: 1}}
	s.firmware.Status.Machine = &v1alpha1.Machine{Model: "7X21"}
	s.pins()
	s.template("a", "2.0", func(t *v1alpha1.FirmwareTemplate) { t.Spec.Machine = &v1alpha1.MachineSelector{Model: "7X21"} })
	s.wants("2.0", "a")
	s.ix.DeleteNodeFirmware("n")
	s.act()
	s.wants("2.0", "a")
	s.firmware.Status = v1alpha1.NodeFirmwareStatus{LastScanTime: &metav1.Time{Time: base}}
	s.pins()
	assert.Nil(t, s.device.Spec.Firmware, "the scan says that there is no such model")
}

func TestDeviceWithoutANodeOrWithoutAStatusIsNotDecided(t *testing.T) {
	s := newStage(t)
	s.template("a", "2.0")
	s.ix.DeleteNode("n")
	_, ok := s.ix.Decision("d")
	assert.False(t, ok)
	s.ix.SetNode("n", map[string]string{"pool": "gpu"})
	s.status(func(d *v1alpha1.NodeDeviceStatus) { *d = v1alpha1.NodeDeviceStatus{} })
	_, ok = s.ix.Decision("d")
	assert.False(t, ok)
	s.wants("2.0", "a")
}

// An edit that changes nothing for a device leaves it alone; the origin names the generation that assigned.
func TestUnrelatedEditIsNoChange(t *testing.T) {
	s := newStage(t)
	s.template("a", "2.0")
	s.template("a", "2.0", func(t *v1alpha1.FirmwareTemplate) {
		t.Spec.Rules = append(t.Spec.Rules, v1alpha1.FirmwareRule{
			Name: "disks", Version: "9", Selector: v1alpha1.DeviceSelector{Class: v1alpha1.ClassDisk}, SourceRef: v1alpha1.SourceReference{Name: "s"},
		})
	})
	assert.Equal(t, int64(1), s.device.Spec.Origin[0].Generation)
	s.template("a", "2.0", func(t *v1alpha1.FirmwareTemplate) { t.Spec.Rules[0].Policy = v1alpha1.PolicyValidate })
	assert.Equal(t, v1alpha1.PolicyValidate, s.device.Spec.Firmware.Policy)
	assert.Equal(t, int64(1), s.device.Spec.Origin[0].Generation, "the version and its source are as in the first generation")
	was := s.device.Spec.Origin[0]
	s.template("a", " 2.0 ")
	assert.Equal(t, was, s.device.Spec.Origin[0], "blanks do not count")
	s.template("a", "3.0")
	assert.Equal(t, int64(5), s.device.Spec.Origin[0].Generation)
}

func TestTellsFailedFromCleared(t *testing.T) {
	s := newStage(t)
	s.pins()
	s.template("a", "2.0")
	s.status(func(d *v1alpha1.NodeDeviceStatus) {
		d.Failure = &v1alpha1.DeviceFailure{Digest: digest(2), Time: metav1.NewTime(base)}
	})
	tally, _ := s.ix.Tally(Ref{v1alpha1.OriginTemplate, "a"})
	assert.Equal(t, int32(1), tally.Failed)
	assert.Equal(t, []FailureOn{{"d", "n"}}, tally.Failures)
	s.status(func(d *v1alpha1.NodeDeviceStatus) { d.Failure.Reason = v1alpha1.ReasonRestored })
	tally, _ = s.ix.Tally(Ref{v1alpha1.OriginTemplate, "a"})
	assert.Equal(t, int32(0), tally.Failed)
	assert.Empty(t, tally.Failures)
	assert.Equal(t, int32(1), tally.Restored, "nothing failed")
	assert.Equal(t, []FailureOn{{"d", "n"}}, tally.Restores)
	s.firmware.Spec.Requests.Retry = "again"
	s.pins()
	tally, _ = s.ix.Tally(Ref{v1alpha1.OriginTemplate, "a"})
	assert.Equal(t, int32(0), tally.Failed+tally.Restored)
	assert.Equal(t, int32(1), tally.Pending)
}

func TestSourceThatIsFetchedAnewTakesNoImageAwayAndGivesNone(t *testing.T) { // R001-17
	s := newStage(t)
	s.template("t", "2.0")
	require.Equal(t, digest(2), s.device.Spec.Firmware.Digest)

	s.ix.SetSource(newSource(metav1.ConditionFalse, "2.0", "3.0"))
	d, ok := s.ix.Decision("d")
	require.True(t, ok)
	assert.Equal(t, Keep, d.Action, "what was verified and is still asked for stays")
	assert.Nil(t, d.Blocked)

	s.template("t", "3.0")
	assert.Equal(t, "3.0", s.device.Spec.Firmware.Version)
	assert.Empty(t, s.device.Spec.Firmware.Digest, "nothing new is taken from a source that is not ready")

	s.template("t", "2.0")
	s.ix.SetSource(newSource(metav1.ConditionTrue, "2.0", "3.0"))
	s.act()
	require.Equal(t, digest(2), s.device.Spec.Firmware.Digest)
	s.ix.SetSource(newSource(metav1.ConditionFalse, "3.0"))
	s.act()
	assert.Equal(t, digest(2), s.device.Spec.Firmware.Digest, "whether the image comes back is not known yet")
	d, _ = s.ix.Decision("d")
	require.NotNil(t, d.Blocked, "what is not in store is not flashed")
	assert.Equal(t, v1alpha1.ReasonSourceNotReady, d.Blocked.Reason)
	s.ix.SetSource(newSource(metav1.ConditionTrue, "3.0"))
	s.act()
	assert.Empty(t, s.device.Spec.Firmware.Digest, "an image the source does not ask for any more is withdrawn")
}

// An operator that starts with an empty store lists no image until it has fetched them again.
func TestSourceWithAnEmptyStoreCostsDevicesAtTheirTargetNothing(t *testing.T) {
	s := newStage(t)
	s.template("t", "2.0")
	s.status(func(st *v1alpha1.NodeDeviceStatus) { st.Firmware.Running = "2.0" })

	s.ix.SetSource(newSource(metav1.ConditionFalse))
	d, ok := s.ix.Decision("d")
	require.True(t, ok)
	assert.Equal(t, Keep, d.Action)
	assert.Nil(t, d.Blocked)
	assert.Empty(t, s.ix.SetSource(newSource(metav1.ConditionTrue, "2.0")).Devices)
}

// New firmware runs as soon as it is activated, and is judged later.
func TestADeviceThatIsNotJudgedYetIsInProgress(t *testing.T) {
	s := newStage(t)
	s.ix.SetSource(newSource(metav1.ConditionTrue, "2.0"))
	s.template("t", "2.0")
	s.status(func(d *v1alpha1.NodeDeviceStatus) {
		d.Firmware.Running = "2.0"
		d.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReconciling, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonProgressing}}
	})
	tally, _ := s.ix.Tally(Ref{v1alpha1.OriginTemplate, "t"})
	assert.Equal(t, Counts{Matched: 1, Applied: 1, Updating: 1}, tally.Counts)
	s.status(func(d *v1alpha1.NodeDeviceStatus) { d.Conditions = nil })
	tally, _ = s.ix.Tally(Ref{v1alpha1.OriginTemplate, "t"})
	assert.Equal(t, Counts{Matched: 1, Applied: 1}, tally.Counts)
}
