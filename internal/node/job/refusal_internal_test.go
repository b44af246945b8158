package job

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

func image(digit string) v1alpha1.Digest {
	return v1alpha1.Digest("sha256:" + strings.Repeat(digit, 64))
}

// Whoever made the job: an update that is not what the operator assigned to the device is not carried out.
func TestUpdateAgreesWithTheDevice(t *testing.T) {
	type update = v1alpha1.TaskDevice
	type device = v1alpha1.NodeDevice
	const none step.Reason = ""
	for name, c := range map[string]struct {
		update func(*update)
		device func(*device)
		want   step.Reason
		says   string
	}{
		"as assigned":                  {want: none},
		"spelled otherwise":            {update: func(u *update) { u.Version = " 2.0" }, want: none},
		"another version":              {update: func(u *update) { u.Version = "2.1" }, want: step.JobRejected, says: "but now 2.0"},
		"another image":                {update: func(u *update) { u.Digest = image("f") }, want: step.JobRejected, says: ") is to be flashed"},
		"no image":                     {update: func(u *update) { u.Digest = "" }, want: step.JobRejected},
		"another device":               {update: func(u *update) { u.UniqueID = "other" }, want: step.JobRejected, says: "the id other"},
		"nothing assigned":             {device: func(d *device) { d.Spec.Firmware = nil }, want: step.JobRejected, says: "no firmware is assigned"},
		"only reported":                {device: func(d *device) { d.Spec.Firmware.Policy = v1alpha1.PolicyValidate }, want: step.JobRejected, says: "Validate"},
		"never read":                   {device: func(d *device) { d.Status.Firmware = nil }, want: step.ReadFailed},
		"an older version is assigned": {device: func(d *device) { d.Status.Firmware.Running = "3.0" }, want: step.JobRejected, says: "older"},
		"an older version is assigned and allowed": {
			device: func(d *device) { d.Status.Firmware.Running, d.Spec.Firmware.Downgrade = "3.0", v1alpha1.DowngradeAllow }, want: none,
		},
		"a blocked edge": {
			device: func(d *device) {
				d.Spec.Firmware.Path = []v1alpha1.UpgradeStep{{UpgradePath: v1alpha1.UpgradePath{To: d.Spec.Firmware.Version, From: []string{"1.0"}}}}
			}, want: step.JobRejected, says: "must not be flashed over",
		},
		"past a hop":               {device: hop, want: step.JobRejected, says: "1.5"},
		"by a hop":                 {update: func(u *update) { u.Version, u.Digest = "1.5", image("b") }, device: hop, want: none},
		"a hop from elsewhere":     {update: func(u *update) { u.Version, u.Digest = "1.5", image("b") }, device: func(d *device) { hop(d); d.Status.Firmware.Running = "1.2" }, want: step.JobRejected},
		"an image that runs":       {device: func(d *device) { d.Status.Firmware.Running = "2.0" }, want: none},
		"a hop that runs":          {update: func(u *update) { u.Version, u.Digest = "1.5", image("b") }, device: func(d *device) { hop(d); d.Status.Firmware.Running = "1.5" }, want: none},
		"other bytes of a hop":     {update: func(u *update) { u.Version, u.Digest = "1.5", image("c") }, device: func(d *device) { hop(d); d.Status.Firmware.Running = "1.5" }, want: step.JobRejected},
		"a version it went beyond": {update: func(u *update) { u.Version, u.Digest = "1.5", image("b") }, device: func(d *device) { hop(d); d.Status.Firmware.Running = "2.0" }, want: step.JobRejected, says: "runs the desired"},
	} {
		t.Run(name, func(t *testing.T) {
			u := update{Name: "nic", UniqueID: "u", FromVersion: "1.0", Version: "2.0", Digest: image("a")}
			d := device{
				ObjectMeta: metav1.ObjectMeta{Name: "nic"},
				Spec: v1alpha1.NodeDeviceSpec{Origin: []v1alpha1.Origin{{Kind: v1alpha1.OriginTemplate, Name: "t", Rule: "r"}}, Firmware: &v1alpha1.DesiredFirmware{
					Version: "2.0", Digest: image("a"), Policy: v1alpha1.PolicyApply, Downgrade: v1alpha1.DowngradeForbid,
				}},
				Status: v1alpha1.NodeDeviceStatus{UniqueID: "u", Class: v1alpha1.ClassNIC, Firmware: &v1alpha1.ObservedFirmware{
					Running: "1.0", Driver: "sim", VersionFormat: v1alpha1.VersionFormatDotted,
				}},
			}
			if c.update != nil {
				c.update(&u)
			}
			if c.device != nil {
				c.device(&d)
			}
			got := refusal(state{
				object:  &v1alpha1.FirmwareJob{Spec: v1alpha1.FirmwareJobSpec{Task: v1alpha1.JobTask{Type: v1alpha1.JobTypeUpdate, Devices: []update{u}}}},
				devices: map[string]device{"nic": d}, wishes: granted(d),
			})
			if c.want == none {
				assert.Nil(t, got)
				return
			}
			require.NotNil(t, got)
			assert.Equal(t, c.want, got.Reason)
			assert.Contains(t, got.Message, c.says)
			assert.Contains(t, got.Message, "nothing was written")
			assert.True(t, got.Reason == step.DowngradeForbidden || got.Reason.Passing(), "the planner decides again")
		})
	}
}

func hop(d *v1alpha1.NodeDevice) {
	d.Spec.Firmware.Path = []v1alpha1.UpgradeStep{{UpgradePath: v1alpha1.UpgradePath{To: d.Spec.Firmware.Version, From: []string{"1.0"}, Via: "1.5"}, Digest: image("b")}}
}

// R003-42: what a newer operator asks for is not taken for something else.
func TestRefusesWhatItDoesNotKnow(t *testing.T) {
	for what, task := range map[string]v1alpha1.JobTask{
		"jobs of type Polish":  {Type: "Polish"},
		"the requirement Luck": {Type: v1alpha1.JobTypeUpdate, Require: v1alpha1.Requirements{v1alpha1.RequireRollback, "Luck"}},
	} {
		got := refusal(state{object: &v1alpha1.FirmwareJob{Spec: v1alpha1.FirmwareJobSpec{Task: task}}})
		require.NotNil(t, got, what)
		assert.Equal(t, step.JobRejected, got.Reason)
		assert.Contains(t, got.Message, "does not know "+what+", and nothing was done")
	}
	known := v1alpha1.JobTask{Type: v1alpha1.JobTypeUpdate, Require: v1alpha1.Requirements{v1alpha1.RequireRollback, v1alpha1.RequireWriteProtection, v1alpha1.RequireUnlock}}
	assert.Nil(t, refusal(state{object: &v1alpha1.FirmwareJob{Spec: v1alpha1.FirmwareJobSpec{Task: known}}}))
}
