package v1alpha1_test

import (
	"testing"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/apitest"
)

// oneOfEach is a valid object of every kind, without a status.
func oneOfEach() map[string]client.Object {
	return map[string]client.Object{
		"FirmwareTemplate":      validTemplate(),
		"ConfigurationTemplate": validConfiguration(),
		"FirmwareSource":        validSource(),
		"FirmwareCatalog":       validCatalog(),
		"FirmwareQuarantine":    validQuarantine(),
		"RolloutPolicy":         &v1alpha1.RolloutPolicy{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}},
		"CleaningPolicy":        validCleaning(),
		"NodeFirmware":          validNodeFirmware(),
		"NodeDevice":            validDevice(),
		"FirmwareJob":           validJob(),
	}
}

// TestKindsAreClusterScoped (R000-9).
func TestKindsAreClusterScoped(t *testing.T) {
	env := apitest.New(t)
	for kind := range oneOfEach() {
		mapping, err := env.Client.RESTMapper().RESTMapping(v1alpha1.GroupVersion.WithKind(kind).GroupKind(), "v1alpha1")
		require.NoError(t, err)
		assert.Equal(t, meta.RESTScopeNameRoot, mapping.Scope.Name(), kind)
	}
}

// TestNewObjectIsInProgress: Helm and Flux see an object that was not reconciled yet as in progress.
func TestNewObjectIsInProgress(t *testing.T) {
	env := apitest.New(t)
	for kind, object := range oneOfEach() {
		t.Run(kind, func(t *testing.T) {
			require.NoError(t, env.Client.Create(t.Context(), object))
			stored := &unstructured.Unstructured{}
			stored.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind))
			require.NoError(t, env.Client.Get(t.Context(), client.ObjectKeyFromObject(object), stored))
			observed, _, err := unstructured.NestedInt64(stored.Object, "status", "observedGeneration")
			require.NoError(t, err)
			assert.Equal(t, int64(-1), observed)
			apitest.RequireStatus(t, stored, status.InProgressStatus)
		})
	}
}

func TestDefaults(t *testing.T) {
	env := apitest.New(t)
	kinds := oneOfEach()
	for _, object := range kinds {
		require.NoError(t, env.Client.Create(t.Context(), object))
	}
	rule := kinds["FirmwareTemplate"].(*v1alpha1.FirmwareTemplate).Spec
	assert.Equal(t, v1alpha1.TemplateActive, rule.State)
	assert.Equal(t, v1alpha1.PolicyApply, rule.Rules[0].Policy)
	assert.Equal(t, v1alpha1.DowngradeForbid, rule.Rules[0].Downgrade, "a template never downgrades by accident")
	settings := kinds["ConfigurationTemplate"].(*v1alpha1.ConfigurationTemplate).Spec
	assert.Equal(t, v1alpha1.TemplateActive, settings.State)
	assert.Equal(t, v1alpha1.PolicyApply, settings.Rules[0].Policy)
	assert.Equal(t, v1alpha1.UnlistedKeep, settings.Rules[0].Unlisted, "what is not named is left alone")
	pin := kinds["NodeFirmware"].(*v1alpha1.NodeFirmware).Spec
	assert.Empty(t, pin.ScanThreshold, "it is left to the daemon's --scan-interval")
	assert.Equal(t, v1alpha1.PolicyApply, pin.Pins[0].Policy)
	assert.Equal(t, v1alpha1.DowngradeForbid, pin.Pins[0].Downgrade, "and neither does a pin")
	policy := kinds["RolloutPolicy"].(*v1alpha1.RolloutPolicy).Spec
	assert.Equal(t, v1alpha1.RolloutActive, policy.State)
	assert.Equal(t, intstr.FromInt32(1), *policy.MaxUnavailable, "one node at a time by default")
	assert.Equal(t, v1alpha1.Requirements{v1alpha1.RequireUnlock}, policy.Require)
	assert.EqualValues(t, "60s", policy.HealthyFor)
	assert.Equal(t, v1alpha1.CleaningActive, kinds["CleaningPolicy"].(*v1alpha1.CleaningPolicy).Spec.State)
	job := kinds["FirmwareJob"].(*v1alpha1.FirmwareJob).Spec
	assert.Equal(t, v1alpha1.Duration("60s"), job.Task.HealthyFor)
	assert.Empty(t, job.Task.Require)
}

// TestSelectableFields (R001-5): a watcher can ask for the objects of one node and gets no others.
func TestSelectableFields(t *testing.T) {
	env := apitest.New(t)
	for _, node := range []string{"gpu-017", "gpu-018"} {
		device, job := validDevice(), validJob()
		device.Name, device.Spec.NodeName = node+"-nic", node
		job.Name, job.Spec.NodeName = node+"-job", node
		require.NoError(t, env.Client.Create(t.Context(), device))
		require.NoError(t, env.Client.Create(t.Context(), job))
	}
	node := client.MatchingFields{"spec.nodeName": "gpu-018"}
	var devices v1alpha1.NodeDeviceList
	require.NoError(t, env.Client.List(t.Context(), &devices, node))
	require.Len(t, devices.Items, 1)
	assert.Equal(t, "gpu-018-nic", devices.Items[0].Name)
	var jobs v1alpha1.FirmwareJobList
	require.NoError(t, env.Client.List(t.Context(), &jobs, node))
	require.Len(t, jobs.Items, 1)
	assert.Equal(t, "gpu-018-job", jobs.Items[0].Name)
}

// TestOneNodeFirmwarePerNode (R000-15): the Node's name is the object's name, and there is no namespace to have a
// second one in.
func TestOneNodeFirmwarePerNode(t *testing.T) {
	env := apitest.New(t)
	require.NoError(t, env.Client.Create(t.Context(), validNodeFirmware()))
	second := validNodeFirmware()
	second.Namespace = corev1.NamespaceDefault
	err := env.Client.Create(t.Context(), second)
	require.True(t, apierrors.IsAlreadyExists(err), "%v", err)
}

// TestNodeFirmwareRoundTrip (R000-11): BIOS and firmware of a node with name, vendor and version are kept as
// written.
func TestNodeFirmwareRoundTrip(t *testing.T) {
	env := apitest.New(t)
	written := validNodeFirmware()
	written.Spec.Pins = append(written.Spec.Pins, v1alpha1.FirmwareRule{
		Name: "cx6dx", Selector: v1alpha1.DeviceSelector{Class: v1alpha1.ClassNIC, Vendor: "15b3", Models: []string{"101d"}, BoardIDs: []string{"MT_0000000359"}, SerialNumbers: []string{"MT2128X01234"}, PCIAddresses: []string{"0000:3b:00.0"}}, Version: "22.41.1000",
		SourceRef: v1alpha1.SourceReference{Name: "cx6dx-2241"},
		Policy:    v1alpha1.PolicyValidate, Downgrade: v1alpha1.DowngradeForbid,
	})
	want := written.DeepCopy().Spec
	want.Pins[0].Policy, want.Pins[0].Downgrade = v1alpha1.PolicyApply, v1alpha1.DowngradeForbid
	require.NoError(t, env.Client.Create(t.Context(), written))
	read := &v1alpha1.NodeFirmware{}
	require.NoError(t, env.Client.Get(t.Context(), client.ObjectKeyFromObject(written), read))
	assert.Equal(t, want, read.Spec)
}

// TestSpecAndStatusWrittenApart: a write of the object leaves the status alone, and a write of the status the spec.
func TestSpecAndStatusWrittenApart(t *testing.T) {
	env := apitest.New(t)
	device := validDevice()
	device.Status.Model = "invented"
	require.NoError(t, env.Client.Create(t.Context(), device))
	assert.Empty(t, device.Status.Model)
	device.Status.Model = "ConnectX-6 Dx"
	device.Spec.Firmware = nil
	require.NoError(t, env.Client.Status().Update(t.Context(), device))
	read := &v1alpha1.NodeDevice{}
	require.NoError(t, env.Client.Get(t.Context(), client.ObjectKeyFromObject(device), read))
	assert.Equal(t, "ConnectX-6 Dx", read.Status.Model)
	assert.NotNil(t, read.Spec.Firmware)
}
