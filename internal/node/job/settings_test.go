package job_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/node/engine"
	"github.com/nodefirmware/node-firmware-operator/internal/node/job"
	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// configure has a person declare settings for the adapters, the operator assign them to this one, and makes a job of them alone.
func (d *daemon) configure(name string, id inventory.Identity, value string) *v1alpha1.ConfigurationTemplate {
	d.T.Helper()
	template := d.declare(name, id, value)
	require.NoError(d.T, d.env.Client.Create(d.T.Context(), &v1alpha1.FirmwareJob{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.FirmwareJobSpec{
		NodeName: nodeName, Task: v1alpha1.JobTask{Type: v1alpha1.JobTypeUpdate, HealthyFor: "0s", Devices: []v1alpha1.TaskDevice{{
			Name: "node-" + id.UniqueID, UniqueID: id.UniqueID, Configuration: template.Spec.Rules[0].Digest(),
		}}},
	}}))
	d.admit(name)
	return template
}

// declare has a person declare settings for the adapters, and the operator assign them to this one.
func (d *daemon) declare(name string, id inventory.Identity, value string) *v1alpha1.ConfigurationTemplate {
	d.T.Helper()
	declared := v1alpha1.DesiredConfiguration{
		Policy: v1alpha1.PolicyApply, Unlisted: v1alpha1.UnlistedKeep, Parameters: []v1alpha1.ParameterValue{{Name: "VFS", Value: value}},
	}
	template := &v1alpha1.ConfigurationTemplate{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.ConfigurationTemplateSpec{
		Rules: []v1alpha1.ConfigurationRule{{
			Name: "r", Selector: v1alpha1.DeviceSelector{Class: v1alpha1.ClassNIC, Vendor: v1alpha1.AnyVendor}, DesiredConfiguration: declared,
		}},
	}}
	require.NoError(d.T, d.env.Client.Create(d.T.Context(), template))
	device := &v1alpha1.NodeDevice{ObjectMeta: metav1.ObjectMeta{Name: "node-" + id.UniqueID}}
	device.Spec.NodeName = nodeName
	require.NoError(d.T, client.IgnoreAlreadyExists(d.env.Client.Create(d.T.Context(), device)))
	require.NoError(d.T, d.env.Client.Get(d.T.Context(), client.ObjectKeyFromObject(device), device))
	device.Spec.Configuration = &declared
	device.Spec.Origin = []v1alpha1.Origin{{Kind: v1alpha1.OriginConfiguration, Name: name, UID: "x", Rule: "r"}}
	require.NoError(d.T, d.env.Client.Update(d.T.Context(), device))
	device.Status.Class, device.Status.UniqueID = v1alpha1.ClassNIC, id.UniqueID
	device.Status.Firmware = &v1alpha1.ObservedFirmware{Running: "1.0", Driver: "sim", VersionFormat: v1alpha1.VersionFormatDotted}
	require.NoError(d.T, d.env.Client.Status().Update(d.T.Context(), device))
	return template
}

// give makes an adapter with one parameter that needs a reboot.
func (d *daemon) give() inventory.Identity {
	id := d.ReadBackNIC(inventory.ActivateReboot)
	d.Sim.Give(id.UniqueID, inventory.Parameter{
		Name: "VFS", Current: inventory.Read("0"), Default: inventory.Read("0"), Spelling: inventory.SpelledAsNumber,
		Domain: inventory.Domain{Number: &inventory.Interval{Max: 127}}, Needs: inventory.ActivateReboot,
	})
	return id
}

// A job of settings alone brings them into force, and ends when they are read back.
func TestJobOfSettingsAlone(t *testing.T) {
	d := newDaemon(t)
	id := d.give()
	d.configure("j", id, "8")
	require.NoError(t, d.reconcile("j"))
	d.work()
	require.NoError(t, d.reconcile("j"))
	got := d.get("j")
	complete := condition(got, v1alpha1.ConditionComplete)
	require.NotNil(t, complete, "%+v", got.Status.Conditions)
	assert.Contains(t, complete.Message, "node-nic0 has its settings.")
	assert.EqualValues(t, 1, got.Status.Reboots)
	assert.Equal(t, "8", d.Sim.Parameter(id.UniqueID, "VFS").Current.String())
	assert.Zero(t, d.Sim.Count(drivertest.OpWrite, id.UniqueID), "no firmware is written")
	assert.Positive(t, d.refreshes, "results are published first")
}

// Settings that the device does not take fail the job, and are remembered by their digest.
func TestJobOfSettingsThatAreNotTaken(t *testing.T) {
	d := newDaemon(t)
	id := d.give()
	d.configure("j", id, "999")
	require.NoError(t, d.reconcile("j"))
	d.work()
	require.NoError(t, d.reconcile("j"))
	failed := condition(d.get("j"), v1alpha1.ConditionFailed)
	require.NotNil(t, failed)
	assert.Equal(t, v1alpha1.ReasonParameterInvalid, failed.Reason)
	view, err := d.journal.View()
	require.NoError(t, err)
	is := view.Devices[id.UniqueID]
	assert.Nil(t, is.LastFailure)
	require.NotNil(t, is.SettingsFailure)
	assert.Equal(t, string(d.get("j").Spec.Task.Devices[0].Configuration), is.SettingsFailure.Digest)
}

// What nobody declares any more is not written, whatever the operator assigned.
func TestJobOfSettingsThatNobodyDeclares(t *testing.T) {
	d := newDaemon(t)
	id := d.give()
	template := d.configure("j", id, "8")
	template.Spec.Rules[0].Parameters[0].Value = "4"
	require.NoError(t, d.env.Client.Update(t.Context(), template))
	require.NoError(t, d.reconcile("j"))
	d.work()
	require.NoError(t, d.reconcile("j"))
	failed := condition(d.get("j"), v1alpha1.ConditionFailed)
	require.NotNil(t, failed)
	assert.Equal(t, v1alpha1.ReasonJobRejected, failed.Reason)
	assert.Contains(t, failed.Message, "declares others")
	assert.Empty(t, d.Sim.Operations())
}

// Blame for settings alone is that of the device. Beside firmware, nobody knows which of the two it was.
func TestBlameForSettings(t *testing.T) {
	evidence := func(u journal.Update, f step.Failure) v1alpha1.Evidence {
		u.Device, f.Blames = "nic", []string{"nic"}
		j := journal.Job{Name: "j", Updates: []journal.Update{u}, Record: engine.NewRecord(plan.Catalog{}, []journal.Update{u})}
		for i := range j.Record.Steps {
			if j.Record.Steps[i].Kind == plan.Configure {
				j.Record.Steps[i].Attempt = 1
			}
		}
		j.Record.Failure = &f
		bad := job.Status(engine.Snapshot{Job: j}, "n1", v1alpha1.FirmwareJobStatus{}, 1, time.Now()).Blamed
		require.Len(t, bad, 1)
		return bad[0].Evidence
	}
	alone := journal.Update{Class: inventory.NIC, Settings: []journal.Setting{{Name: "VFS", Value: "8"}}}
	both := alone
	both.Version, both.Digest = "2.0", "sha256:a"
	unset, unhealthy := step.Failure{Reason: step.VerifyFailed, Device: "nic", Settings: true}, step.Failure{Reason: step.Unhealthy}
	assert.Equal(t, v1alpha1.EvidenceDevice, evidence(alone, unset))
	assert.Equal(t, v1alpha1.EvidenceDevice, evidence(alone, unhealthy))
	assert.Equal(t, v1alpha1.EvidenceNode, evidence(both, unset))
	assert.Equal(t, v1alpha1.EvidenceNode, evidence(both, unhealthy))
	unhealthy.Evidence = step.Network
	assert.Equal(t, v1alpha1.EvidenceNetwork, evidence(alone, unhealthy))
}

func TestSummaryOfSettings(t *testing.T) {
	settings := []journal.Setting{{Name: "VFS", Value: "8"}}
	alone, both := journal.Update{Device: "nic", Settings: settings}, journal.Update{Device: "bios", Version: "2.0", ResetUnlisted: true}
	for says, updates := range map[string][]journal.Update{
		"nic has its settings.":               {alone},
		"bios runs 2.0 and has its settings.": {both},
		"2 devices have their settings.":      {alone, alone},
		"2 devices run their target.":         {alone, both},
	} {
		j := journal.Job{Name: "j", Updates: updates, Finished: ptr.To(time.Now())}
		j.Record.Outcome = step.Complete
		got := job.Status(engine.Snapshot{Job: j}, "n1", v1alpha1.FirmwareJobStatus{}, 1, time.Now())
		complete := meta.FindStatusCondition(got.Conditions, v1alpha1.ConditionComplete)
		require.NotNil(t, complete)
		assert.Equal(t, says, complete.Message)
	}
}
