package template

import (
	"testing"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/apitest"
)

// settings creates a ConfigurationTemplate with one rule for the ConnectX-6 Dx of the nodes in a pool.
func (f *fleet) settings(name, pool string, vfs int32) *v1alpha1.ConfigurationTemplate {
	f.Helper()
	t := &v1alpha1.ConfigurationTemplate{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.ConfigurationTemplateSpec{
		NodeSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"pool": pool}},
		Rules: []v1alpha1.ConfigurationRule{{
			Name: "sriov", Selector: v1alpha1.DeviceSelector{Class: v1alpha1.ClassNIC, Vendor: "15b3", Models: []string{"101d"}},
			DesiredConfiguration: v1alpha1.DesiredConfiguration{Settings: v1alpha1.Settings{NumVFs: ptr.To(vfs)}},
		}},
	}}
	f.create(t)
	return t
}

func (f *fleet) awaitSettings(name, reason string, want status.Status) *v1alpha1.ConfigurationTemplate {
	f.Helper()
	t := &v1alpha1.ConfigurationTemplate{}
	require.EventuallyWithT(f, func(c *assert.CollectT) {
		require.NoError(c, f.Client.Get(f.Context(), client.ObjectKey{Name: name}, t))
		ready := meta.FindStatusCondition(t.Status.Conditions, v1alpha1.ConditionReady)
		require.NotNil(c, ready)
		assert.Equal(c, reason, ready.Reason, ready.Message)
	}, time.Minute, 10*time.Millisecond)
	apitest.RequireStatus(f, t, want)
	return t
}

// R001-24, R001-9, R001-12, R000-18: the settings of a device are written beside its firmware, on a real API server, and their template
// tells how far they are, and which device two of them claim.
func TestSettingsOfTheFleetAreAssignedAndCounted(t *testing.T) {
	f := newFleet(t)
	f.node("a", map[string]string{"pool": "gpu"})
	f.node("b", map[string]string{"pool": "cpu"})
	f.source("s", imageFor(board, v1, 1))
	a, b := f.discover("a", board, running), f.discover("b", board, running)
	f.startOperator()
	fct := f.settings("vfs", "gpu", 8)

	d := f.awaitDevice(a, func(c *assert.CollectT, d *v1alpha1.NodeDevice) { assert.NotNil(c, d.Spec.Configuration) })
	assert.Equal(t, &v1alpha1.DesiredConfiguration{
		Policy: v1alpha1.PolicyApply, Settings: v1alpha1.Settings{NumVFs: ptr.To[int32](8)}, Unlisted: v1alpha1.UnlistedKeep,
	}, d.Spec.Configuration)
	assert.Equal(t, []v1alpha1.Origin{{
		Kind: v1alpha1.OriginConfiguration, Name: "vfs", UID: string(fct.UID), Generation: 1, Rule: "sriov", Hash: v1alpha1.ImageHash(d.Spec.Configuration.Digest()),
	}}, d.Spec.Origin)
	got := f.awaitSettings("vfs", v1alpha1.ReasonProgressing, status.InProgressStatus)
	assert.Equal(t, v1alpha1.TemplateNodes{Selected: 1, OutOfDate: 1}, got.Status.Nodes)
	assert.Equal(t, []string{a}, got.Status.AssignedDevices)

	f.template("fw", "gpu", v1, "s")
	d = f.awaitVersion(a, v1, "fw")
	assert.Len(t, d.Spec.Origin, 3)
	assert.NotNil(t, d.Spec.Configuration)

	observed := func(state v1alpha1.ConfigurationState) func(*v1alpha1.NodeDeviceStatus) {
		return func(s *v1alpha1.NodeDeviceStatus) {
			s.Configuration = &v1alpha1.ObservedConfiguration{Digest: d.Spec.Configuration.Digest(), State: state}
			s.Parameters = []v1alpha1.ObservedParameter{{Name: "numVFs", Current: ptr.To("8")}}
		}
	}
	f.discover("a", board, running, observed(v1alpha1.ConfigurationInvalid))
	got = f.awaitSettings("vfs", v1alpha1.ReasonParameterInvalid, status.FailedStatus)
	assert.Contains(t, meta.FindStatusCondition(got.Status.Conditions, v1alpha1.ConditionReady).Message, "kubectl edit fct vfs")
	f.discover("a", board, running, observed(v1alpha1.ConfigurationUpToDate))
	got = f.awaitSettings("vfs", v1alpha1.ReasonSucceeded, status.CurrentStatus)
	assert.Equal(t, v1alpha1.TemplateNodes{Selected: 1, UpToDate: 1}, got.Status.Nodes)
	assert.Equal(t, "1 of 1 assigned device have the desired settings.", meta.FindStatusCondition(got.Status.Conditions, v1alpha1.ConditionReady).Message)

	f.settings("other", "gpu", 4)
	got = f.awaitSettings("vfs", v1alpha1.ReasonConflict, status.FailedStatus)
	assert.Contains(t, meta.FindStatusCondition(got.Status.Conditions, v1alpha1.ConditionConflict).Message, `rule "sriov" of ConfigurationTemplate "vfs"`)
	d = f.awaitDevice(a, func(c *assert.CollectT, d *v1alpha1.NodeDevice) {
		assert.True(c, meta.IsStatusConditionTrue(d.Status.Conditions, v1alpha1.ConditionConflict))
	})
	assert.EqualValues(t, 8, *d.Spec.Configuration.Settings.NumVFs)
	require.NoError(t, f.Client.Delete(t.Context(), fct))
	f.awaitDevice(a, func(c *assert.CollectT, d *v1alpha1.NodeDevice) {
		assert.EqualValues(c, 4, *d.Spec.Configuration.Settings.NumVFs)
	})
	assert.Nil(t, f.device(b).Spec.Configuration)
}
