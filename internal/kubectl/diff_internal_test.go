package kubectl

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

func TestDifferencesAreThoseOfTheOperator(t *testing.T) {
	compare := func(change func(a, b *nodeFacts)) []Differs {
		a, b := heldNode(), heldNode()
		b.node.Name, b.devices[0].Name, b.devices[0].Spec.NodeName = "m", "m-nic", "m"
		for _, f := range []*nodeFacts{a, b} {
			f.jobs, f.node.Status.Machine, f.devices[0].Status.Class = nil, &v1alpha1.Machine{Vendor: "Dell Inc.", Model: "R650"}, v1alpha1.ClassNIC
		}
		change(a, b)
		d, err := differenceOf(t.Context(), world(t, interceptor.Funcs{}, append(objects(a), objects(b)...)...), "n", "m")
		require.NoError(t, err)
		return d.Rows
	}
	assert.Empty(t, compare(func(_, b *nodeFacts) { b.devices[0].Status.Firmware.Running = " 1\x00" }))
	assert.Empty(t, compare(func(a, b *nodeFacts) {
		a.devices[0].Spec.Firmware.Version, b.devices[0].Spec.Firmware.Version = "1 ", "1"
	}))
	assert.Equal(t, []Differs{{"NIC 15b3:101d", []string{"unknown, should run 2", "unknown, should run 2"}}}, compare(func(a, b *nodeFacts) {
		a.devices[0].Status.Firmware, b.devices[0].Status.Firmware = nil, nil
	}))
	assert.Equal(t, []Differs{{"NIC 15b3:101d", []string{"1, should run 2", "unknown, was 1, should run 2"}}}, compare(func(_, b *nodeFacts) {
		b.devices[0].Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionInspected, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonReadFailed}}
	}))
	assert.Equal(t, []Differs{{"NIC 15b3:101d", []string{"1, should run 2", "unknown"}}, {"machine", []string{"Dell Inc. R650", "unknown"}}}, compare(func(_, b *nodeFacts) {
		b.devices, b.node.Status.Machine = nil, nil
	}), "nobody has looked")
	assert.Equal(t, []Differs{{"NIC 15b3:101d", []string{"1, should run 2", ""}}}, compare(func(_, b *nodeFacts) { b.devices = nil }))
	numVFs := func(d *v1alpha1.NodeDevice, value string) {
		d.Status.Parameters = []v1alpha1.ObservedParameter{{Name: "linkType", Current: ptr.To("Ethernet")}, {Name: "numVFs", Current: &value}}
	}
	assert.Equal(t, []Differs{{"NIC 15b3:101d", []string{"1, should run 2 [numVFs=4]", "1, should run 2 [numVFs=8]"}}}, compare(func(a, b *nodeFacts) {
		numVFs(a.devices[0], "4")
		numVFs(b.devices[0], "8")
	}), "a setting counts by what is in force")
	assert.Empty(t, compare(func(a, b *nodeFacts) {
		a.devices[0].Status.PCIAddress, b.devices[0].Status.PCIAddress = "0000:3b:00.0", "0000:af:00.0"
		for i, f := range []*nodeFacts{a, b} {
			other := f.devices[0].DeepCopy()
			other.Name, other.Status.UniqueID, other.Status.PCIAddress = f.node.Name+"-second", "second", "0000:5e:00.0"
			f.devices = append(f.devices, other)
			f.devices[i].Status.Firmware.Running = "3"
		}
	}), "in another slot it is the same")
}
