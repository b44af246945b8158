package v1alpha1_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/apitest"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/golden"
)

// TestDescribeConfigurationGolden: what `kubectl describe` prints of declared settings, and of a device on its way to them.
func TestDescribeConfigurationGolden(t *testing.T) {
	env := apitest.New(t)
	c, d := configurationsInUse()[1].(*v1alpha1.ConfigurationTemplate), configuringDevice()
	template, device := c.Status, d.Status
	template.AssignedDevices = []string{d.Name}
	require.NoError(t, env.Client.Create(t.Context(), c))
	require.NoError(t, env.Client.Create(t.Context(), d))
	c.Status, d.Status = template, device
	require.NoError(t, env.Client.Status().Update(t.Context(), c))
	require.NoError(t, env.Client.Status().Update(t.Context(), d))
	var out strings.Builder
	for _, o := range []struct{ kind, name string }{{"ConfigurationTemplate", c.Name}, {"NodeDevice", d.Name}} {
		out.WriteString("$ kubectl describe " + strings.ToLower(o.kind) + " " + o.name + "\n" + env.Describe(t, v1alpha1.GroupVersion.WithKind(o.kind), o.name) + "\n")
	}
	golden.Equal(t, "testdata/describe-configurationtemplate.golden", out.String())
}

// configuringDevice runs its firmware, and waits for the job that changes its settings.
func configuringDevice() *v1alpha1.NodeDevice {
	d := configuredDevice()
	d.Spec.Configuration.Parameters = []v1alpha1.ParameterValue{{Name: "PCI_ATOMIC_MODE", Value: "1"}}
	d.Status = v1alpha1.NodeDeviceStatus{
		Class: v1alpha1.ClassNIC, UniqueID: "b83fd2a1c4e0", Vendor: "Mellanox", Model: "ConnectX-6 Dx", PCIID: "15b3:101d", BoardID: "MT_0000000359",
		Firmware:      &v1alpha1.ObservedFirmware{Running: "22.41.1000", Stored: "22.41.1000", Driver: "mstflint"},
		Configuration: &v1alpha1.ObservedConfiguration{Digest: d.Spec.Configuration.Digest(), State: v1alpha1.ConfigurationOutOfDate, Activation: v1alpha1.ActivationDeviceReset},
		Parameters: []v1alpha1.ObservedParameter{
			{Name: "PCI_ATOMIC_MODE", Next: new("PCI_ATOMIC_DISABLED_EXT_ATOMIC_ENABLED(0)")}, {Name: "numVFs", Current: new("0"), Next: new("0")},
		},
		Conditions: ready(metav1.ConditionFalse, v1alpha1.ReasonPending, "The change of its settings waits for a job, and needs an activation (DeviceReset): "+
			"numVFs is 0 instead of 8, PCI_ATOMIC_MODE is PCI_ATOMIC_DISABLED_EXT_ATOMIC_ENABLED(0) instead of 1."),
	}
	return d
}
