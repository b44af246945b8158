package job

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// vfs are settings as a person declares them.
func vfs(n int32) v1alpha1.DesiredConfiguration {
	return v1alpha1.DesiredConfiguration{
		Policy: v1alpha1.PolicyApply, Settings: v1alpha1.Settings{NumVFs: &n}, Parameters: []v1alpha1.ParameterValue{{Name: "A", Value: "1"}},
		Unlisted: v1alpha1.UnlistedReset,
	}
}

// Settings are written only as the operator assigned them to the device, and only while a person declares them.
func TestOnlyWhatAPersonWantsIsSet(t *testing.T) {
	type device = v1alpha1.NodeDevice
	type update = v1alpha1.TaskDevice
	type template = v1alpha1.ConfigurationTemplate
	of := func(change func(*template)) func(*wishes) {
		return func(w *wishes) { o := w.configurations["c"]; change(&o); w.configurations["c"] = o }
	}
	for name, c := range map[string]struct {
		// job and operator are what the operator says otherwise, and person is what people wrote otherwise.
		job      func(*update)
		operator func(*device)
		person   func(*wishes)
		says     string
	}{
		"as declared":          {},
		"in another order":     {person: of(func(o *template) { o.Spec.Rules[0].Unlisted, o.Spec.Rules[0].Policy = v1alpha1.UnlistedReset, "" })},
		"a paused template":    {person: of(func(o *template) { o.Spec.State = v1alpha1.TemplatePaused })},
		"others than assigned": {job: func(u *update) { u.Configuration = image("f") }, says: "but now it is to have sha256:"},
		"none assigned":        {operator: func(d *device) { d.Spec.Configuration = nil }, says: "none are assigned"},
		"only reported":        {operator: func(d *device) { d.Spec.Configuration.Policy = v1alpha1.PolicyValidate }, says: "policy is Validate"},
		"another device":       {job: func(u *update) { u.UniqueID = "other" }, says: "the id other"},
		"others than declared": {person: of(func(o *template) { o.Spec.Rules[0].DesiredConfiguration = vfs(4) }), says: `rule "r" of ConfigurationTemplate "c" declares others`},
		"the rest is kept":     {person: of(func(o *template) { o.Spec.Rules[0].Unlisted = v1alpha1.UnlistedKeep }), says: "declares others"},
		"declared to be reported": {person: of(func(o *template) { o.Spec.Rules[0].Policy = v1alpha1.PolicyValidate }),
			says: `the policy of rule "r" of ConfigurationTemplate "c" is Validate`},
		"declared for other devices": {person: of(func(o *template) { o.Spec.Rules[0].Selector.Class = v1alpha1.ClassDisk }), says: "no rule of the ConfigurationTemplate"},
		"declared for other nodes": {person: of(func(o *template) {
			o.Spec.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"pool": "x"}}
		}), says: "no rule of the ConfigurationTemplate"},
		"declared for other machines": {person: of(func(o *template) { o.Spec.Machine = &v1alpha1.MachineSelector{Vendor: "Lenovo"} }), says: "no rule of the ConfigurationTemplate"},
		"the template is gone":        {person: func(w *wishes) { delete(w.configurations, "c") }, says: "no longer wanted: no rule of the ConfigurationTemplate"},
		"the template is deleted":     {person: of(func(o *template) { o.DeletionTimestamp = &metav1.Time{} }), says: "no rule of the ConfigurationTemplate"},
		"nobody is named":             {operator: func(d *device) { d.Spec.Origin = nil }, says: "no rule of the ConfigurationTemplate"},
		"another template is named":   {operator: func(d *device) { d.Spec.Origin[0].Name = "other" }, says: "no rule of the ConfigurationTemplate"},
	} {
		t.Run(name, func(t *testing.T) {
			assigned := vfs(8)
			d := device{
				ObjectMeta: metav1.ObjectMeta{Name: "nic"},
				Spec: v1alpha1.NodeDeviceSpec{
					Configuration: &assigned, Origin: []v1alpha1.Origin{{Kind: v1alpha1.OriginConfiguration, Name: "c", Rule: "r"}},
				},
				Status: v1alpha1.NodeDeviceStatus{UniqueID: "u", Class: v1alpha1.ClassNIC},
			}
			u := update{Name: "nic", UniqueID: "u", Configuration: assigned.Digest()}
			w := wishes{configurations: map[string]template{"c": {ObjectMeta: metav1.ObjectMeta{Name: "c"}, Spec: v1alpha1.ConfigurationTemplateSpec{
				Rules: []v1alpha1.ConfigurationRule{{
					Name: "r", Selector: v1alpha1.DeviceSelector{Class: v1alpha1.ClassNIC, Vendor: v1alpha1.AnyVendor}, DesiredConfiguration: vfs(8),
				}},
			}}}}
			if c.job != nil {
				c.job(&u)
			}
			if c.operator != nil {
				c.operator(&d)
			}
			if c.person != nil {
				c.person(&w)
			}
			got := refusal(state{
				object:  &v1alpha1.FirmwareJob{Spec: v1alpha1.FirmwareJobSpec{Task: v1alpha1.JobTask{Type: v1alpha1.JobTypeUpdate, Devices: []update{u}}}},
				devices: map[string]device{"nic": d}, wishes: w,
			})
			if c.says == "" {
				assert.Nil(t, got)
				return
			}
			require.NotNil(t, got)
			assert.Equal(t, step.JobRejected, got.Reason)
			assert.Contains(t, got.Message, c.says)
			assert.Contains(t, got.Message, "nothing was written")
		})
	}
}

// A job that flashes a device and gives it settings is held to both.
func TestFirmwareBesideSettingsIsJudgedToo(t *testing.T) {
	assigned := vfs(8)
	d := v1alpha1.NodeDevice{Spec: v1alpha1.NodeDeviceSpec{Configuration: &assigned}, Status: v1alpha1.NodeDeviceStatus{UniqueID: "u"}}
	u := v1alpha1.TaskDevice{Name: "nic", UniqueID: "u", Version: "2.0", Digest: image("a"), Configuration: assigned.Digest()}
	got := refusal(state{
		object:  &v1alpha1.FirmwareJob{Spec: v1alpha1.FirmwareJobSpec{Task: v1alpha1.JobTask{Type: v1alpha1.JobTypeUpdate, Devices: []v1alpha1.TaskDevice{u}}}},
		devices: map[string]v1alpha1.NodeDevice{"nic": d},
	})
	require.NotNil(t, got)
	assert.Contains(t, got.Message, "no firmware is assigned")
}

// An update has the settings of its device, and comes from the objects that what it does comes from.
func TestUpdateHasTheSettingsOfItsDevice(t *testing.T) {
	assigned := vfs(8)
	template, source := v1alpha1.Origin{Kind: v1alpha1.OriginTemplate, Name: "t"}, v1alpha1.Origin{Kind: v1alpha1.OriginSource, Name: "s"}
	d := v1alpha1.NodeDevice{Spec: v1alpha1.NodeDeviceSpec{
		Firmware: &v1alpha1.DesiredFirmware{Version: "2.0"}, Configuration: &assigned,
		Origin: []v1alpha1.Origin{template, source, {Kind: v1alpha1.OriginConfiguration, Name: "c"}},
	}}
	names := func(u journal.Update) (out []string) {
		for _, o := range u.Origin {
			out = append(out, o.Name)
		}
		return out
	}
	firmware := v1alpha1.TaskDevice{Name: "nic", Version: "2.0", Digest: image("a")}
	u := updateOf(firmware, d)
	assert.False(t, u.Configures(), "nothing says that its settings are due")
	assert.Equal(t, []string{"t", "s"}, names(u))

	settings := v1alpha1.TaskDevice{Name: "nic", Configuration: assigned.Digest()}
	u = updateOf(settings, d)
	assert.Equal(t, []journal.Setting{{Name: "numVFs", Value: "8"}, {Name: "A", Value: "1"}}, u.Settings)
	assert.True(t, u.ResetUnlisted)
	assert.Equal(t, string(assigned.Digest()), u.Configuration)
	assert.Equal(t, []string{"c"}, names(u))

	firmware.Configuration = assigned.Digest()
	assert.Equal(t, []string{"t", "s", "c"}, names(updateOf(firmware, d)))
	firmware.Configuration = image("f")
	assert.False(t, updateOf(firmware, d).Configures(), "it is not what the job names")
}
