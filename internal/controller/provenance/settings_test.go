package provenance

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// settings makes a ConfigurationTemplate with the rule "r", or gives that another number of virtual functions.
func (s *site) settings(name string, numVFs int32) *v1alpha1.ConfigurationTemplate {
	c := s.configurations[name]
	if c == nil {
		c = &v1alpha1.ConfigurationTemplate{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-of-" + name)}}
		s.configurations[name] = c
	}
	c.Generation++
	c.Spec.Rules = []v1alpha1.ConfigurationRule{{Name: "r", DesiredConfiguration: v1alpha1.DesiredConfiguration{Settings: v1alpha1.Settings{NumVFs: &numVFs}}}}
	return c
}

// configureFrom assigns the settings of the rule "r" of a template to a device, beside its firmware.
func (s *site) configureFrom(name, template string) {
	c, d := s.configurations[template], s.device(name)
	want := c.Spec.Rules[0].DesiredConfiguration
	d.Spec.Configuration = &want
	if o := v1alpha1.ConfiguredBy(d.Spec.Origin); o != nil {
		d.Spec.Origin = d.Spec.Origin[:len(d.Spec.Origin)-1]
	}
	d.Spec.Origin = append(d.Spec.Origin[:len(d.Spec.Origin):len(d.Spec.Origin)], v1alpha1.Origin{
		Kind: v1alpha1.OriginConfiguration, Name: template, UID: string(c.UID), Generation: c.Generation, Rule: "r", Hash: v1alpha1.ImageHash(want.Digest()),
	})
}

// newConfiguredSite is a node whose NIC has the settings of the template "c" as well.
func newConfiguredSite(t *testing.T) *site {
	s := newSite(t)
	s.settings("c", 8)
	s.configureFrom("nic", "c")
	s.flash("nic")
	require.Empty(t, s.look())
	return s
}

// Other settings of the rule make it obsolete until the device has them; the firmware beside them is as it was.
func TestOtherSettingsAreObsolete(t *testing.T) {
	s := newConfiguredSite(t)
	s.settings("c", 16)
	assert.Equal(t, []string{"ConfigurationTemplate/c r Updated"}, s.look())
	s.configureFrom("nic", "c")
	assert.Equal(t, []string{"ConfigurationTemplate/c r Updated"}, s.look())
	s.flash("nic")
	assert.Empty(t, s.look())
}

// An edit that leaves the values as they are makes nothing obsolete: whom the rule selects, whether it is applied, and the order of parameters.
func TestTheSameSettingsAreNotObsolete(t *testing.T) {
	s := newConfiguredSite(t)
	c := s.settings("c", 8)
	c.Spec.Priority, c.Spec.State = 7, v1alpha1.TemplatePaused
	c.Spec.Rules[0].Policy, c.Spec.Rules[0].Unlisted = v1alpha1.PolicyValidate, v1alpha1.UnlistedKeep
	c.Spec.Rules[0].Selector = v1alpha1.DeviceSelector{Class: v1alpha1.ClassNIC, Vendor: v1alpha1.AnyVendor}
	c.Spec.Rules = append(c.Spec.Rules, v1alpha1.ConfigurationRule{Name: "other", DesiredConfiguration: v1alpha1.DesiredConfiguration{Unlisted: v1alpha1.UnlistedReset}})
	assert.Empty(t, s.look())
}

func TestSettingsOfATemplateThatIsGoneAreObsolete(t *testing.T) {
	s := newConfiguredSite(t)
	s.configurations["c"].UID = "another"
	assert.Equal(t, []string{"ConfigurationTemplate/c r Recreated"}, s.look())
	s.configurations["c"].UID, s.configurations["c"].Spec.Rules[0].Name = "uid-of-c", "renamed"
	assert.Equal(t, []string{"ConfigurationTemplate/c r Deleted"}, s.look())
	delete(s.configurations, "c")
	assert.Equal(t, []string{"ConfigurationTemplate/c r Deleted"}, s.look())
}

// Another template that assigns other settings takes the place of the one they came from; one that assigns the same does not.
func TestSettingsAreSuperseded(t *testing.T) {
	s := newConfiguredSite(t)
	s.settings("d", 8)
	s.configureFrom("nic", "d")
	assert.Empty(t, s.look(), "it says the same")
	s.settings("d", 16)
	s.configureFrom("nic", "d")
	assert.Equal(t, []string{"ConfigurationTemplate/c r Superseded"}, s.look())
	s.flash("nic")
	assert.Empty(t, s.look())
}

// Firmware and settings are looked at apart: what became of one says nothing about the other.
func TestFirmwareAndSettingsAreObsoleteApart(t *testing.T) {
	s := newConfiguredSite(t)
	s.pin("p", "2")
	s.assignPinned("nic", "p", "2")
	s.settings("c", 16)
	assert.Equal(t, []string{"ConfigurationTemplate/c r Updated", "FirmwareTemplate/t r Superseded"}, s.look())
	s.configureFrom("nic", "c")
	s.flash("nic")
	s.settings("d", 4)
	s.configureFrom("nic", "d")
	s.pin("p", "3")
	assert.Equal(t, []string{"ConfigurationTemplate/c r Superseded", "NodeFirmware/n1 p Updated"}, s.look())
}

// A device that is only told its settings has no image, and one that is told nothing more keeps what it has.
func TestSettingsWithoutFirmware(t *testing.T) {
	s := newSite(t)
	d := s.device("disk")
	d.Spec.Firmware, d.Spec.Origin, d.Status.Applied = nil, nil, nil
	s.settings("c", 8)
	s.configureFrom("disk", "c")
	d.Status.Applied = &v1alpha1.AppliedFirmware{Origin: d.Spec.Origin}
	assert.Empty(t, s.look())
	d.Spec.Configuration, d.Spec.Origin = nil, nil
	assert.Empty(t, s.look())
	s.settings("c", 16)
	assert.Equal(t, []string{"ConfigurationTemplate/c r Updated"}, s.look())
}

// The controller reads the template that settings came from, and notes who has them.
func TestANodeWithOtherSettingsIsMarked(t *testing.T) {
	f := newFleet(t, 2)
	f.configuration = newConfiguredSite(t).configurations["c"]
	d := &f.devices["n1"][3]
	d.Status.Applied = d.Status.Applied.DeepCopy()
	d.Status.Applied.Origin = append(d.Status.Applied.Origin, v1alpha1.Origin{
		Kind: v1alpha1.OriginConfiguration, Name: "c", UID: "uid-of-c", Rule: "r", Hash: hashOf(&f.configuration.Spec.Rules[0].DesiredConfiguration),
	})
	f.due["n1"] = true
	f.drain(t)
	require.Zero(t, f.labelled())
	f.configuration = f.configuration.DeepCopy()
	f.configuration.Spec.Rules[0].Settings.NumVFs = new(int32(16))
	for _, r := range f.r.toUsers(v1alpha1.OriginConfiguration)(t.Context(), f.configuration) {
		assert.Equal(t, "n1", r.Name, "nobody else has them")
		f.due[r.Name] = true
	}
	f.drain(t)
	assert.Equal(t, []v1alpha1.ObsoleteReference{{Kind: v1alpha1.OriginConfiguration, Name: "c", Rule: "r", Reason: v1alpha1.ObsoleteUpdated}}, f.firmware["n1"].Status.Obsolete)
	assert.Equal(t, 1, f.labelled())
}

// A change of settings wakes the nodes whose devices have them, and an edit that is none of the settings wakes nobody.
func TestOnlyOtherSettingsWakeANode(t *testing.T) {
	s := newConfiguredSite(t)
	old := s.configurations["c"].DeepCopy()
	for name, c := range map[string]struct {
		change func(*v1alpha1.ConfigurationTemplate)
		want   bool
	}{
		"another value":    {func(c *v1alpha1.ConfigurationTemplate) { c.Spec.Rules[0].Settings.NumVFs = new(int32(16)) }, true},
		"a rule less":      {func(c *v1alpha1.ConfigurationTemplate) { c.Spec.Rules = nil }, true},
		"another object":   {func(c *v1alpha1.ConfigurationTemplate) { c.UID = "another" }, true},
		"deletion":         {func(c *v1alpha1.ConfigurationTemplate) { c.DeletionTimestamp = &metav1.Time{} }, true},
		"another priority": {func(c *v1alpha1.ConfigurationTemplate) { c.Spec.Priority, c.Generation = 7, 9 }, false},
		"a status":         {func(c *v1alpha1.ConfigurationTemplate) { c.Status.ObservedGeneration = 9 }, false},
	} {
		now := old.DeepCopy()
		c.change(now)
		assert.Equal(t, c.want, configurationChanged.Update(event.UpdateEvent{ObjectOld: old, ObjectNew: now}), name)
	}
}
