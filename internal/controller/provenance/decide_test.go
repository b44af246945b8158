package provenance

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/seen"
)

// site is one node as the controller sees it, with the template controller, the planner and the daemon played by the test: what
// is assigned and what is flashed is said, never derived.
type site struct {
	*testing.T
	facts
	templates map[string]*v1alpha1.FirmwareTemplate
	source    *v1alpha1.FirmwareSource
	last      decision
	memory    seen.Seen[string]
	flashed   map[string]int
}

const quiet = time.Minute

// newSite is a node whose NIC and disk were brought to version 1 by the template "t" and the source "s".
func newSite(t *testing.T) *site {
	s := &site{T: t, templates: map[string]*v1alpha1.FirmwareTemplate{}, flashed: map[string]int{}, facts: facts{
		firmware: &v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "uid-of-n1", Generation: 1}},
		now:      time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC), quietPeriod: quiet,
	}}
	s.source = &v1alpha1.FirmwareSource{ObjectMeta: metav1.ObjectMeta{Name: "s", UID: "uid-of-s", Generation: 3}}
	s.source.Status.ObservedGeneration = 3
	s.source.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue}}
	s.template("t")
	for _, name := range []string{"nic", "disk"} {
		d := v1alpha1.NodeDevice{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.NodeDeviceSpec{NodeName: "n1"}}
		d.Status.Firmware = &v1alpha1.ObservedFirmware{Running: "0"}
		s.devices = append(s.devices, d)
		s.assignFrom(name, "t", "1")
		s.flash(name)
	}
	require.Empty(t, s.look())
	require.Empty(t, s.last.confirmed)
	return s
}

func (s *site) template(name string) *v1alpha1.FirmwareTemplate {
	t := &v1alpha1.FirmwareTemplate{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-of-" + name), Generation: 5}}
	t.Status.ObservedGeneration = 5
	s.templates[name] = t
	return t
}

// edit makes another generation of a template, which the template controller has decided on.
func (s *site) edit(name string) {
	s.templates[name].Generation++
	s.templates[name].Status.ObservedGeneration++
}

func (s *site) device(name string) *v1alpha1.NodeDevice {
	for i := range s.devices {
		if s.devices[i].Name == name {
			return &s.devices[i]
		}
	}
	require.Fail(s, "no device "+name)
	return nil
}

func (s *site) assign(name, version string, o v1alpha1.Origin) {
	o.Source = &v1alpha1.SourceOrigin{Name: s.source.Name, UID: string(s.source.UID), Generation: s.source.Generation}
	s.device(name).Spec.Firmware = &v1alpha1.DesiredFirmware{Version: version, Digest: image(version), Origin: o}
}

func image(version string) v1alpha1.Digest {
	return v1alpha1.Digest(fmt.Sprintf("sha256:%064s", version))
}

func (s *site) assignFrom(name, template, version string) {
	t := s.templates[template]
	generation := t.Generation
	s.assign(name, version, v1alpha1.Origin{Kind: v1alpha1.OriginTemplate, Name: t.Name, UID: string(t.UID), Generation: &generation, Rule: "r"})
}

// pin replaces the pins of the node by those given.
func (s *site) pin(names ...string) {
	s.firmware.Generation++
	s.firmware.Spec.Pins = nil
	for _, name := range names {
		s.firmware.Spec.Pins = append(s.firmware.Spec.Pins, v1alpha1.FirmwarePin{Name: name})
	}
}

func (s *site) assignPinned(name, pin, version string) {
	generation := s.firmware.Generation
	s.assign(name, version, v1alpha1.Origin{Kind: v1alpha1.OriginPin, Name: "n1", UID: string(s.firmware.UID), Generation: &generation, Rule: pin})
}

// flash is a job that ends well: the daemon records what the job says.
func (s *site) flash(name string) {
	d := s.device(name)
	w := d.Spec.Firmware
	d.Status.Firmware = &v1alpha1.ObservedFirmware{Running: w.Version}
	d.Status.LastApplied = &v1alpha1.AppliedFirmware{Version: w.Version, Digest: w.Digest, Origin: w.Origin}
	d.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue}}
	s.flashed[name]++
}

// look is one pass of the controller. It gives what is listed as "kind/name@generation reason devices".
func (s *site) look() []string {
	s.objects = map[id]object{{v1alpha1.ReferencePins, "n1"}: pinsObject(s.firmware)}
	if s.source != nil {
		s.objects[id{v1alpha1.ReferenceSource, s.source.Name}] = sourceObject(s.source)
	}
	for name, t := range s.templates {
		s.objects[id{v1alpha1.ReferenceTemplate, name}] = templateObject(t)
	}
	s.last = decide(s.facts)
	s.seen = s.memory.Note("n1", s.last.pending, s.now)
	s.firmware.Status.Confirmed = s.last.confirmed
	var out []string
	for _, r := range s.last.obsolete {
		text := fmt.Sprintf("%s/%s@%d %s %d", r.Kind, r.Name, r.Generation, r.Reason, r.Devices)
		if r.Pin != "" {
			text = r.Pin + " of " + text
		}
		out = append(out, text)
	}
	return out
}

// rest is a pass of the controller after the quiet period.
func (s *site) rest() []string {
	s.now = s.now.Add(quiet)
	return s.look()
}

// R004-25, R004-39, R004-17, R004-8, R004-31: a new generation of the template makes what came from it obsolete, on every node,
// whatever was edited. If it changes no content that is all: nothing is flashed, and once the change has rested the new
// generation is confirmed and the list is empty. What the daemon recorded is not touched.
func TestANewGenerationOfTheTemplateIsObsoleteUntilItProvesToChangeNothing(t *testing.T) {
	s := newSite(t)
	s.edit("t")
	assert.Equal(t, []string{"FirmwareTemplate/t@5 Updated 2"}, s.look())
	assert.Equal(t, quiet, s.last.next)
	s.now = s.now.Add(quiet - time.Second)
	assert.NotEmpty(t, s.look())
	s.now = s.now.Add(time.Second)
	assert.Empty(t, s.look())
	assert.Equal(t, []v1alpha1.ObjectReference{{Kind: v1alpha1.ReferenceTemplate, Name: "t", UID: "uid-of-t", Generation: 6}}, s.last.confirmed)
	assert.Zero(t, s.last.next)
	assert.Equal(t, int64(5), *s.device("nic").Status.LastApplied.Origin.Generation)
	assert.Equal(t, map[string]int{"nic": 1, "disk": 1}, s.flashed)

	confirmed := s.last.confirmed
	assert.Empty(t, s.rest())
	assert.Equal(t, confirmed, s.last.confirmed, "it stays")
	s.edit("t")
	assert.Equal(t, []string{"FirmwareTemplate/t@5 Updated 2"}, s.look(), "only that generation was confirmed")
	assert.Empty(t, s.last.confirmed)
}

// R004-24: each change restarts the quiet period.
func TestEachEditRestartsTheQuietPeriod(t *testing.T) {
	s := newSite(t)
	for range 20 {
		s.edit("t")
		assert.NotEmpty(t, s.look())
		s.now = s.now.Add(quiet - time.Second)
		assert.NotEmpty(t, s.look())
	}
	s.now = s.now.Add(time.Second)
	assert.Empty(t, s.look())
}

// R004-15, R004-16: where the edit changes content, the reference is obsolete until the device was flashed, however long that
// takes, and then it is not. The other device of the same template only waits for the quiet period.
func TestAnEditThatChangesContentIsObsoleteUntilTheDeviceIsFlashed(t *testing.T) {
	s := newSite(t)
	s.edit("t")
	s.assignFrom("nic", "t", "2")
	assert.Equal(t, []string{"FirmwareTemplate/t@5 Updated 2"}, s.look())
	assert.Equal(t, []string{"FirmwareTemplate/t@5 Updated 1"}, s.rest())
	assert.Equal(t, []string{"FirmwareTemplate/t@5 Updated 1"}, s.rest())
	s.flash("nic")
	assert.Empty(t, s.look())
}

// R004-26, R004-28: another object of the same name is another object.
func TestARecreatedObjectIsObsolete(t *testing.T) {
	s := newSite(t)
	s.templates["t"].UID = "another"
	assert.Equal(t, []string{"FirmwareTemplate/t@5 Recreated 2"}, s.look())
	s.assignFrom("nic", "t", "1")
	s.assignFrom("disk", "t", "1")
	assert.Empty(t, s.rest(), "it says the same")

	s.pin("p")
	s.assignPinned("nic", "p", "2")
	s.rest()
	s.flash("nic")
	require.Empty(t, s.look())
	s.firmware.UID, s.firmware.Status = "another", v1alpha1.NodeFirmwareStatus{}
	assert.Equal(t, []string{"FirmwareTemplate/t@5 Recreated 1", "p of NodeFirmware/n1@2 Recreated 1"}, s.look())
}

// R004-27, R004-35: a new generation of the pins concerns the pinned device.
func TestANewGenerationOfThePinsIsObsolete(t *testing.T) {
	s := newSite(t)
	s.pin("p")
	s.assignPinned("nic", "p", "2")
	s.flash("nic")
	require.Empty(t, s.look())
	s.pin("p")
	assert.Equal(t, []string{"p of NodeFirmware/n1@2 Updated 1"}, s.look())
	s.assignPinned("nic", "p", "3")
	assert.Equal(t, []string{"p of NodeFirmware/n1@2 Updated 1"}, s.rest())
	s.flash("nic")
	assert.Empty(t, s.look())
}

// R004-29, R004-37: a pin that is gone is obsolete until the device runs what the template says.
func TestARemovedPinIsObsoleteUntilTheTemplateRuns(t *testing.T) {
	for name, gone := range map[string]func(s *site){
		"the pin":     func(s *site) { s.pin("other") },
		"all of them": func(s *site) { s.pin() },
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			s.pin("p", "other")
			s.assignPinned("nic", "p", "2")
			s.flash("nic")
			require.Empty(t, s.look())
			gone(s)
			assert.Equal(t, []string{"p of NodeFirmware/n1@2 Deleted 1"}, s.look(), "the assignment may follow later")
			s.assignFrom("nic", "t", "1")
			assert.Equal(t, []string{"p of NodeFirmware/n1@2 Deleted 1"}, s.rest())
			s.flash("nic")
			assert.Empty(t, s.look())
		})
	}
}

// R004-29: while the assignment still comes from the pin that is gone, nobody knows what will be desired. However long that takes, the
// pins that are left are not confirmed to say the same.
func TestAPinThatIsGoneIsObsoleteAsLongAsItsAssignmentStands(t *testing.T) {
	s := newSite(t)
	s.pin("p", "other")
	s.assignPinned("nic", "p", "2")
	s.flash("nic")
	s.pin("other")
	assert.Equal(t, []string{"p of NodeFirmware/n1@2 Deleted 1"}, s.look())
	assert.Equal(t, []string{"p of NodeFirmware/n1@2 Deleted 1"}, s.rest())
	assert.Empty(t, s.last.confirmed)
	assert.Zero(t, s.last.next, "nothing is waited for but an event")
}

// R004-37: where the template says the same as the pin that is gone, nothing is flashed.
func TestARemovedPinThatSaidTheSameIsOnlyObsoleteForAWhile(t *testing.T) {
	s := newSite(t)
	s.pin("p")
	s.assignPinned("nic", "p", "2")
	s.flash("nic")
	s.pin()
	s.assignFrom("nic", "t", "2")
	assert.Equal(t, []string{"p of NodeFirmware/n1@2 Deleted 1"}, s.look())
	assert.Empty(t, s.rest())
}

func TestADeletedTemplateIsObsoleteUntilSomethingElseAssigns(t *testing.T) {
	s := newSite(t)
	delete(s.templates, "t")
	s.device("nic").Spec.Firmware, s.device("disk").Spec.Firmware = nil, nil
	assert.Equal(t, []string{"FirmwareTemplate/t@5 Deleted 2"}, s.look())
	assert.NotEmpty(t, s.rest())
	s.template("u")
	s.assignFrom("nic", "u", "1")
	s.assignFrom("disk", "u", "2")
	assert.Equal(t, []string{"FirmwareTemplate/t@5 Deleted 2"}, s.look())
	assert.Equal(t, []string{"FirmwareTemplate/t@5 Deleted 1"}, s.rest(), "the image of the NIC is what the other one says")
}

func TestASourceIsAReferenceLikeTheOthers(t *testing.T) {
	s := newSite(t)
	s.source.Generation++
	assert.Equal(t, []string{"FirmwareSource/s@3 Updated 2"}, s.look())
	assert.NotEmpty(t, s.rest(), "it is not ready in its new generation")
	s.source.Status.ObservedGeneration++
	assert.NotEmpty(t, s.look())
	assert.Empty(t, s.rest())

	s.source.UID = "another"
	assert.Equal(t, []string{"FirmwareSource/s@3 Recreated 2"}, s.look())
	s.source = nil
	assert.Equal(t, []string{"FirmwareSource/s@3 Deleted 2"}, s.look())
}

// R004-7, R004-32: everything that is obsolete is listed, once each.
func TestAllThatIsObsoleteIsListed(t *testing.T) {
	s := newSite(t)
	s.pin("p")
	s.assignPinned("nic", "p", "2")
	s.flash("nic")
	require.Empty(t, s.look())
	s.edit("t")
	s.pin("p")
	s.source.Generation++
	assert.Equal(t, []string{
		"FirmwareSource/s@3 Updated 2", "FirmwareTemplate/t@5 Updated 1", "p of NodeFirmware/n1@2 Updated 1",
	}, s.look())
}

// R004-30: a device that came from the template alone is not compared with pins that say nothing for it, and one that another
// object decides for now came from something that does so no more.
func TestADeviceIsComparedWithWhatItCameFrom(t *testing.T) {
	s := newSite(t)
	s.pin("p")
	assert.Empty(t, s.rest())
	s.assignPinned("nic", "p", "1")
	assert.Empty(t, s.rest(), "the pin says the same as the template")
	s.assignPinned("nic", "p", "2")
	assert.Equal(t, []string{"FirmwareTemplate/t@5 Superseded 1"}, s.look())
	assert.NotEmpty(t, s.rest())
	s.flash("nic")
	assert.Empty(t, s.look())
}

// R004-19: a pinned device is not flashed for its template, and its template is not obsolete for it: it had no say. On the same
// node, it is for the device that came from it.
func TestACurrentPinIsNotObsoleteForItsTemplate(t *testing.T) {
	s := newSite(t)
	s.pin("p")
	s.assignPinned("nic", "p", "2")
	s.flash("nic")
	s.edit("t")
	assert.Equal(t, []string{"FirmwareTemplate/t@5 Updated 1"}, s.look())
	s.assignFrom("disk", "t", "2")
	s.flash("disk")
	assert.Empty(t, s.look())
	assert.Equal(t, map[string]int{"nic": 2, "disk": 2}, s.flashed)
}

// What is not decided is not confirmed: the effect of the change is not known yet.
func TestNothingIsConfirmedBeforeItIsDecided(t *testing.T) {
	for name, undecided := range map[string]func(s *site){
		"the template controller is behind": func(s *site) { s.templates["t"].Status.ObservedGeneration-- },
		"the template is paused":            func(s *site) { s.templates["t"].Spec.State = v1alpha1.TemplatePaused },
		"the template is invalid": func(s *site) {
			s.templates["t"].Status.Conditions = []metav1.Condition{
				{Type: v1alpha1.ConditionStalled, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonInvalidSpec},
			}
		},
		"the source is not ready": func(s *site) { s.source.Status.Conditions[0].Status = metav1.ConditionFalse },
		"two rules match": func(s *site) {
			for _, name := range []string{"nic", "disk"} {
				s.device(name).Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionConflict, Status: metav1.ConditionTrue}}
			}
		},
		"the image is not usable": func(s *site) {
			for _, name := range []string{"nic", "disk"} {
				s.device(name).Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionBlocked, Status: metav1.ConditionTrue}}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			s.edit("t")
			undecided(s)
			assert.Equal(t, []string{"FirmwareTemplate/t@5 Updated 2"}, s.look())
			assert.NotEmpty(t, s.rest())
			assert.Zero(t, s.last.next, "nothing is waited for but an event")
		})
	}
}

// The operator binds pins to their machine right after a person made them, and so makes another generation of the NodeFirmware
// before anything is flashed. That the device has the earlier one on record then makes nothing obsolete.
func TestAChangeWithoutEffectBeforeTheFlashMakesNothingObsoleteAfterIt(t *testing.T) {
	s := newSite(t)
	s.pin("p")
	s.assignPinned("nic", "p", "2")
	s.firmware.Generation++
	s.look()
	s.rest()
	s.flash("nic")
	assert.Empty(t, s.look())
	assert.Equal(t, int64(2), *s.device("nic").Status.LastApplied.Origin.Generation)
}

// So it is for a device that the product never updated: its first job records the generation that was in force when its firmware was
// assigned, and the one that is in force then was confirmed while it waited.
func TestAChangeWithoutEffectBeforeTheFirstFlashMakesNothingObsoleteAfterIt(t *testing.T) {
	s := newSite(t)
	s.devices = s.devices[:1] // no other device has the template on record
	s.device("nic").Status.LastApplied = nil
	s.assignFrom("nic", "t", "2")
	s.edit("t")
	assert.Empty(t, s.look())
	assert.Empty(t, s.rest())
	s.flash("nic")
	assert.Empty(t, s.look())
	assert.Equal(t, int64(5), *s.device("nic").Status.LastApplied.Origin.Generation)
}

// While a job works on a device, what runs is not what is recorded yet; the reference stays obsolete until the job ends.
func TestAReferenceStaysObsoleteWhileTheJobWorks(t *testing.T) {
	s := newSite(t)
	s.edit("t")
	s.assignFrom("nic", "t", "2")
	s.look()
	s.rest()
	nic := s.device("nic")
	nic.Status.Firmware.Running = "2"
	nic.Status.Conditions[0].Status = metav1.ConditionFalse
	assert.Equal(t, []string{"FirmwareTemplate/t@5 Updated 1"}, s.look())
}

// Where the desired firmware came from is not known when somebody else put it there.
func TestWhatSomebodyElseFlashedCameFromNothing(t *testing.T) {
	s := newSite(t)
	s.edit("t")
	s.assignFrom("nic", "t", "2")
	s.device("nic").Status.Firmware.Running = "2"
	assert.Equal(t, []string{"FirmwareTemplate/t@5 Updated 1"}, s.look(), "the disk")
	delete(s.templates, "t")
	assert.Equal(t, []string{"FirmwareTemplate/t@5 Deleted 1"}, s.look())
}

// A device that the product never updated, one without a record of uids, and a node without devices have nothing obsolete, and
// nothing is ever confirmed for them.
func TestWhereNothingIsRecordedNothingIsObsolete(t *testing.T) {
	s := newSite(t)
	s.device("nic").Status.LastApplied = nil
	s.device("disk").Status.LastApplied.Origin = v1alpha1.Origin{Kind: v1alpha1.OriginTemplate, Name: "t", Rule: "r"}
	s.edit("t")
	assert.Empty(t, s.look())
	assert.Empty(t, s.rest())
	assert.Empty(t, s.last.confirmed)
	s.devices = nil
	assert.Empty(t, s.look())
	s.firmware = nil
	assert.Equal(t, decision{}, decide(s.facts))
}

func TestTheListsAreBounded(t *testing.T) {
	s := newSite(t)
	for i := range 100 {
		name := fmt.Sprintf("t%03d", i)
		s.template(name)
		d := v1alpha1.NodeDevice{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.NodeDeviceSpec{NodeName: "n1"}}
		s.devices = append(s.devices, d)
		s.assignFrom(name, name, "1")
		s.flash(name)
	}
	require.Empty(t, s.look())
	for name := range s.templates {
		s.edit(name)
	}
	assert.Len(t, s.look(), 101, "all are counted")
	assert.Len(t, s.rest(), 37, "what fits is confirmed")
	assert.Len(t, s.last.confirmed, maxListed)
}
