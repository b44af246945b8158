package provenance

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// site is one node as the controller sees it, with the template controller, the planner and the daemon played by the test: what
// is assigned and what is flashed is said, never derived.
type site struct {
	*testing.T
	facts
	templates      map[string]*v1alpha1.FirmwareTemplate
	configurations map[string]*v1alpha1.ConfigurationTemplate
	source         *v1alpha1.FirmwareSource
}

// newSite is a node whose NIC and disk were brought to version 1 by the rule "r" of the template "t" and the source "s".
func newSite(t *testing.T) *site {
	s := &site{T: t, templates: map[string]*v1alpha1.FirmwareTemplate{}, configurations: map[string]*v1alpha1.ConfigurationTemplate{}, facts: facts{
		firmware: &v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "uid-of-n1", Generation: 1}},
		now:      time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC),
	}}
	s.source = &v1alpha1.FirmwareSource{ObjectMeta: metav1.ObjectMeta{Name: "s", UID: "uid-of-s", Generation: 3}}
	s.source.Status.ObservedGeneration = 3
	s.source.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue}}
	for _, v := range []string{"1", "2", "3"} {
		s.source.Status.Images = append(s.source.Status.Images, v1alpha1.StoredImage{Version: v, Digest: image(v)})
	}
	s.template("t", "1")
	for _, name := range []string{"nic", "disk"} {
		s.devices = append(s.devices, v1alpha1.NodeDevice{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.NodeDeviceSpec{NodeName: "n1"}})
		s.assignFrom(name, "t", "1")
		s.flash(name)
	}
	require.Empty(t, s.look())
	return s
}

// template makes a template with the rule "r", or gives that another version.
func (s *site) template(name, version string) {
	t := s.templates[name]
	if t == nil {
		t = &v1alpha1.FirmwareTemplate{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-of-" + name), Generation: 4}}
		s.templates[name] = t
	}
	t.Generation++
	t.Spec.Rules = []v1alpha1.FirmwareRule{{Name: "r", Version: version, SourceRef: v1alpha1.SourceReference{Name: "s"}}}
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

func image(version string) v1alpha1.Digest {
	return v1alpha1.Digest("sha256:" + v1alpha1.ContentHash(version) + strings.Repeat("0", 48))
}

func (s *site) assign(name, version string, by v1alpha1.Origin) {
	by.Hash = v1alpha1.ContentHash(version, "s")
	d := s.device(name)
	d.Spec.Firmware = &v1alpha1.DesiredFirmware{Version: version, Digest: image(version)}
	d.Spec.Origin = []v1alpha1.Origin{by, {
		Kind: v1alpha1.OriginSource, Name: s.source.Name, UID: string(s.source.UID), Generation: s.source.Generation,
		Hash: v1alpha1.ImageHash(image(version)),
	}}
}

func (s *site) assignFrom(name, template, version string) {
	t := s.templates[template]
	s.assign(name, version, v1alpha1.Origin{Kind: v1alpha1.OriginTemplate, Name: t.Name, UID: string(t.UID), Generation: t.Generation, Rule: "r"})
}

// pin replaces the pins of the node by those given, as pairs of name and version.
func (s *site) pin(pins ...string) {
	s.firmware.Generation++
	s.firmware.Spec.Pins = nil
	for i := 0; i < len(pins); i += 2 {
		s.firmware.Spec.Pins = append(s.firmware.Spec.Pins, v1alpha1.FirmwareRule{
			Name: pins[i], Version: pins[i+1], SourceRef: v1alpha1.SourceReference{Name: "s"},
		})
	}
}

func (s *site) assignPinned(name, pin, version string) {
	s.assign(name, version, v1alpha1.Origin{Kind: v1alpha1.OriginPin, Name: "n1", UID: string(s.firmware.UID), Generation: s.firmware.Generation, Rule: pin})
}

// flash is a job that ends well, or a device that is found to run what is desired: the daemon records what the device is assigned.
func (s *site) flash(name string) {
	d := s.device(name)
	d.Status.Applied = &v1alpha1.AppliedFirmware{Digest: d.Spec.Firmware.Digest, Origin: d.Spec.Origin}
}

// look is one pass of the controller. It gives what is listed as "kind/name rule reason".
func (s *site) look() []string {
	s.objects = map[id]object{{v1alpha1.OriginPin, "n1"}: pinsObject(s.firmware)}
	if s.source != nil {
		s.objects[id{v1alpha1.OriginSource, s.source.Name}] = sourceObject(s.source)
	}
	for name, t := range s.templates {
		s.objects[id{v1alpha1.OriginTemplate, name}] = templateObject(t)
	}
	for name, c := range s.configurations {
		s.objects[id{v1alpha1.OriginConfiguration, name}] = configurationObject(c)
	}
	var out []string
	for _, r := range decide(s.facts) {
		out = append(out, fmt.Sprintf("%s/%s %s %s", r.Kind, r.Name, r.Rule, r.Reason))
	}
	return out
}

// R004-8, R004-18, R004-31: an edit that changes no content makes nothing obsolete, though it makes another generation: whom a
// template selects and how it is rolled out, a request, and a pin of another device are no part of what runs.
func TestAnEditWithoutContentIsNone(t *testing.T) {
	s := newSite(t)
	s.pin("p", "2")
	s.assignPinned("nic", "p", "2")
	s.flash("nic")
	tpl := s.templates["t"]
	tpl.Generation++
	tpl.Spec.NodeSelector, tpl.Spec.Priority = &metav1.LabelSelector{}, 7
	tpl.Spec.Rules[0].Policy, tpl.Spec.Rules[0].Downgrade = v1alpha1.PolicyValidate, v1alpha1.DowngradeAllow
	tpl.Spec.Rules[0].Selector = v1alpha1.DeviceSelector{Class: v1alpha1.ClassNIC, Vendor: v1alpha1.AnyVendor}
	s.source.Generation++
	s.source.Status.ObservedGeneration++
	s.source.Status.Images = s.source.Status.Images[:2]
	s.firmware.Generation++
	s.firmware.Spec.ScanThreshold = "1h"
	s.pin("p", "2", "other", "3")
	assert.Empty(t, s.look())
}

// R004-25, R004-39, R004-17: another content of the rule makes what came from it obsolete, until the device runs it.
func TestAnotherContentOfTheTemplateIsObsolete(t *testing.T) {
	s := newSite(t)
	s.template("t", "2")
	assert.Equal(t, []string{"FirmwareTemplate/t r Updated"}, s.look())
	s.assignFrom("nic", "t", "2")
	s.assignFrom("disk", "t", "2")
	assert.Equal(t, []string{"FirmwareTemplate/t r Updated"}, s.look())
	s.flash("nic")
	assert.NotEmpty(t, s.look())
	s.flash("disk")
	assert.Empty(t, s.look())
}

// R004-26, R004-28: another object of the same name is another object.
func TestARecreatedObjectIsObsolete(t *testing.T) {
	s := newSite(t)
	s.templates["t"].UID = "another"
	assert.Equal(t, []string{"FirmwareTemplate/t r Recreated"}, s.look())
	s.assignFrom("nic", "t", "1")
	s.flash("nic")
	s.pin("p", "2")
	s.assignPinned("disk", "p", "2")
	s.flash("disk")
	require.Empty(t, s.look())
	s.firmware.UID = "another"
	assert.Equal(t, []string{"NodeFirmware/n1 p Recreated"}, s.look())
}

// R004-27, R004-35: another content of a pin concerns the pinned device.
func TestOtherPinContentIsObsolete(t *testing.T) {
	s := newSite(t)
	s.pin("p", "2")
	s.assignPinned("nic", "p", "2")
	s.flash("nic")
	require.Empty(t, s.look())
	s.pin("p", "3")
	assert.Equal(t, []string{"NodeFirmware/n1 p Updated"}, s.look())
	s.assignPinned("nic", "p", "3")
	s.flash("nic")
	assert.Empty(t, s.look())
}

// R004-29, R004-37: a pin that is gone is obsolete until the device runs what the template says.
func TestARemovedPinIsObsoleteUntilTheTemplateRuns(t *testing.T) {
	for name, left := range map[string][]string{"the pin": {"other", "2"}, "all of them": nil} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			s.pin("p", "2", "other", "2")
			s.assignPinned("nic", "p", "2")
			s.flash("nic")
			require.Empty(t, s.look())
			s.pin(left...)
			assert.Equal(t, []string{"NodeFirmware/n1 p Deleted"}, s.look(), "the assignment may follow later")
			s.assignFrom("nic", "t", "1")
			assert.Equal(t, []string{"NodeFirmware/n1 p Deleted"}, s.look())
			s.flash("nic")
			assert.Empty(t, s.look())
		})
	}
}

func TestADeletedTemplateIsObsoleteUntilSomethingElseAssigns(t *testing.T) {
	s := newSite(t)
	delete(s.templates, "t")
	for _, name := range []string{"nic", "disk"} {
		s.device(name).Spec.Firmware, s.device(name).Spec.Origin = nil, nil
	}
	assert.Equal(t, []string{"FirmwareTemplate/t r Deleted"}, s.look())
	s.template("u", "1")
	s.assignFrom("nic", "u", "1")
	s.assignFrom("disk", "u", "1")
	assert.Equal(t, []string{"FirmwareTemplate/t r Deleted"}, s.look())
	s.flash("nic")
	s.flash("disk")
	assert.Empty(t, s.look())
	s.templates["u"].Spec.Rules[0].Name = "renamed"
	assert.Equal(t, []string{"FirmwareTemplate/u r Deleted"}, s.look(), "and so is a rule that is gone")
}

// Of a source the image counts that it holds for the device.
func TestSourceObsoleteByOtherImage(t *testing.T) {
	s := newSite(t)
	s.source.Status.Images[0].Digest = image("9")
	assert.Equal(t, []string{"FirmwareSource/s  Updated"}, s.look())
	s.source.Generation++
	assert.Empty(t, s.look(), "whether it will hold the image again is not known")
	s.source.UID = "another"
	assert.Equal(t, []string{"FirmwareSource/s  Recreated"}, s.look())
	s.source = nil
	assert.Equal(t, []string{"FirmwareSource/s  Deleted"}, s.look())
}

// R004-7, R004-32: everything that is obsolete is listed, once each.
func TestAllThatIsObsoleteIsListed(t *testing.T) {
	s := newSite(t)
	s.pin("p", "2")
	s.assignPinned("nic", "p", "2")
	s.flash("nic")
	require.Empty(t, s.look())
	s.template("t", "3")
	s.pin("p", "3")
	s.source = nil
	assert.Equal(t, []string{
		"FirmwareSource/s  Deleted", "FirmwareTemplate/t r Updated", "NodeFirmware/n1 p Updated",
	}, s.look())
}

// R004-30: a device that came from the template alone is not compared with pins that say nothing for it, and one that another
// object decides for now came from something that does so no more.
func TestComparesDeviceWithOrigin(t *testing.T) {
	s := newSite(t)
	s.pin("p", "1")
	assert.Empty(t, s.look())
	s.assignPinned("nic", "p", "1")
	assert.Empty(t, s.look(), "the pin says the same as the template")
	s.pin("p", "2")
	s.assignPinned("nic", "p", "2")
	assert.Equal(t, []string{"FirmwareTemplate/t r Superseded"}, s.look())
	s.flash("nic")
	assert.Empty(t, s.look())
}

// R004-19: a pinned device is not flashed for its template, and its template is not obsolete for it: it had no say. On the same
// node, it is for the device that came from it.
func TestACurrentPinIsNotObsoleteForItsTemplate(t *testing.T) {
	s := newSite(t)
	s.pin("p", "2")
	s.assignPinned("nic", "p", "2")
	s.flash("nic")
	s.template("t", "2")
	assert.Equal(t, []string{"FirmwareTemplate/t r Updated"}, s.look())
	s.assignFrom("disk", "t", "2")
	s.flash("disk")
	assert.Empty(t, s.look())
}

// A device that never ran what is desired, and a node without devices, have nothing obsolete.
func TestWhereNothingIsRecordedNothingIsObsolete(t *testing.T) {
	s := newSite(t)
	s.device("nic").Status.Applied, s.device("disk").Status.Applied = nil, nil
	s.template("t", "2")
	assert.Empty(t, s.look())
	s.devices = nil
	assert.Empty(t, s.look())
	s.firmware = nil
	assert.Empty(t, decide(s.facts))
}
