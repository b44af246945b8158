package match

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

func card() Device {
	return Device{
		Class: v1alpha1.ClassNIC, Vendor: "Mellanox Technologies", VendorID: "15b3", DeviceID: "101d",
		Model: "ConnectX-6 Dx", BoardID: "MT_0000000359", SerialNumber: "MT2128X01234",
		PCIAddresses: []string{"0000:3b:00.0", "0000:3b:00.1"},
	}
}

// R001-8: device type, vendor, model, board, serial numbers and PCI addresses choose devices.
func TestSelectorMatchesByEachFact(t *testing.T) {
	tests := []struct {
		name string
		s    v1alpha1.DeviceSelector
		want bool
	}{
		{"class alone", v1alpha1.DeviceSelector{}, true},
		{"another class", v1alpha1.DeviceSelector{Class: v1alpha1.ClassDisk}, false},
		{"vendor id in upper case", v1alpha1.DeviceSelector{Vendor: "15B3"}, true},
		{"vendor name in lower case", v1alpha1.DeviceSelector{Vendor: "mellanox technologies"}, true},
		{"every vendor on purpose", v1alpha1.DeviceSelector{Vendor: "any"}, true},
		{"another vendor", v1alpha1.DeviceSelector{Vendor: "8086"}, false},
		{"vendor as a slug", v1alpha1.DeviceSelector{Vendor: "mellanox-technologies"}, true},
		{"vendor spelled otherwise", v1alpha1.DeviceSelector{Vendor: " MELLANOX, Technologies."}, true},
		{"part of the vendor's name", v1alpha1.DeviceSelector{Vendor: "Mellanox"}, false},
		{"device id", v1alpha1.DeviceSelector{Models: []string{"1021", "101D"}}, true},
		{"model name", v1alpha1.DeviceSelector{Models: []string{"connectx-6 dx"}}, true},
		{"another model", v1alpha1.DeviceSelector{Models: []string{"1021"}}, false},
		{"board id with blanks and case", v1alpha1.DeviceSelector{BoardIDs: []string{" mt_0000000359 "}}, true},
		{"another board id", v1alpha1.DeviceSelector{BoardIDs: []string{"MT_0000000540"}}, false},
		{"serial number", v1alpha1.DeviceSelector{SerialNumbers: []string{"MT2128X01234"}}, true},
		{"another serial number", v1alpha1.DeviceSelector{SerialNumbers: []string{"MT2128X01235"}}, false},
		{"second function", v1alpha1.DeviceSelector{PCIAddresses: []string{"0000:3b:00.1"}}, true},
		{"another address", v1alpha1.DeviceSelector{PCIAddresses: []string{"0000:3c:00.0"}}, false},
		{"all but one list", v1alpha1.DeviceSelector{
			Vendor: "15b3", Models: []string{"101d"}, BoardIDs: []string{"MT_0000000540"},
		}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.s.Class == "" {
				tt.s.Class = v1alpha1.ClassNIC
			}
			assert.Equal(t, tt.want, NewSelector(tt.s).Matches(card()))
		})
	}
}

func TestUnknownFactMatchesNoList(t *testing.T) {
	unread := card()
	unread.BoardID = ""
	s := NewSelector(v1alpha1.DeviceSelector{Class: v1alpha1.ClassNIC, BoardIDs: []string{"MT_0000000359"}})
	assert.False(t, s.Matches(unread))
	assert.True(t, s.MayMatch(unread), "the board of a device that cannot be read may be the wanted one")
	unread.VendorID, unread.Vendor = "8086", "Intel"
	s = NewSelector(v1alpha1.DeviceSelector{Class: v1alpha1.ClassNIC, Vendor: "15b3"})
	assert.False(t, s.MayMatch(unread), "what is known must match")
}

func TestDeviceFactsAreTheSameWithAndWithoutACluster(t *testing.T) {
	a0, err := inventory.ParsePCIAddress("0000:3b:00.0")
	require.NoError(t, err)
	a1, err := inventory.ParsePCIAddress("0000:3b:00.1")
	require.NoError(t, err)
	local := DeviceFrom(inventory.Identity{
		Class: inventory.NIC, Vendor: "Mellanox Technologies", VendorID: "15b3", DeviceID: "101d",
		Model: "ConnectX-6 Dx", BoardID: "MT_0000000359", SerialNumber: "MT2128X01234",
		PCI: []inventory.PCIAddress{a0, a1},
	})
	cluster := DeviceOf(&v1alpha1.NodeDevice{Status: v1alpha1.NodeDeviceStatus{
		Class: v1alpha1.ClassNIC, Vendor: "Mellanox Technologies", PCIID: "15b3:101d",
		Model: "ConnectX-6 Dx", BoardID: "MT_0000000359", SerialNumber: "MT2128X01234", PCIAddress: "0000:3b:00.0",
		Ports: []v1alpha1.DevicePort{{PCIAddress: "0000:3b:00.0"}, {PCIAddress: "0000:3b:00.1"}},
	}})
	assert.Equal(t, card(), local)
	assert.Equal(t, local, cluster)
}

// R000-16, R001-8: a template chooses nodes by labels and machine model.
func TestTemplateChoosesNodes(t *testing.T) {
	tpl, err := NewTemplate(&v1alpha1.FirmwareTemplate{Spec: v1alpha1.FirmwareTemplateSpec{
		NodeSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"pool": "gpu"}},
		Machine:      &v1alpha1.MachineSelector{Vendor: "lenovo", Model: "7x21"},
	}})
	require.NoError(t, err)
	assert.True(t, tpl.ChoosesLabels(map[string]string{"pool": "gpu", "zone": "a"}))
	assert.False(t, tpl.ChoosesLabels(map[string]string{"pool": "cpu"}))
	assert.True(t, tpl.ChoosesMachine(" Lenovo ", "7X21"))
	assert.True(t, tpl.ChoosesMachine("LENOVO.", "7x21"))
	assert.False(t, tpl.ChoosesMachine("Lenovo", "7X22"))
	assert.False(t, tpl.ChoosesMachine("Dell", "7X21"))
	assert.False(t, tpl.ChoosesMachine("", ""))
}

func TestBadNodeSelectorNamesField(t *testing.T) {
	_, err := NewTemplate(&v1alpha1.FirmwareTemplate{Spec: v1alpha1.FirmwareTemplateSpec{
		NodeSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "pool", Operator: "Near", Values: []string{"gpu"}},
		}},
	}})
	require.ErrorContains(t, err, "spec.nodeSelector")
}

func TestImageIsResolvedByBoard(t *testing.T) {
	a, b := v1alpha1.Digest("sha256:a"), v1alpha1.Digest("sha256:b")
	image := func(d v1alpha1.Digest, boards ...string) Image {
		return NewImage(v1alpha1.StoredImage{Digest: d, Version: "22.41.1000", Class: v1alpha1.ClassNIC, BoardIDs: boards})
	}
	tests := []struct {
		name    string
		images  []Image
		version inventory.Version
		digest  v1alpha1.Digest
		reason  string
	}{
		{"the board's image", []Image{image(a, "MT_0000000359"), image(b, "MT_0000000540")}, "22.41.1000", a, ""},
		{"another board", []Image{image(b, "MT_0000000540")}, "22.41.1000", "", v1alpha1.ReasonImageNotFound},
		{"another version", []Image{image(a, "MT_0000000359")}, "22.42.1000", "", v1alpha1.ReasonImageNotFound},
		{"two contents", []Image{image(a, "MT_0000000359"), image(b)}, "22.41.1000", "", v1alpha1.ReasonImageAmbiguous},
		{"one content listed twice", []Image{image(a, "MT_0000000359"), image(a)}, "22.41.1000", a, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			digest, reason := Resolve(tt.images, card(), tt.version)
			assert.Equal(t, tt.digest, digest)
			assert.Equal(t, tt.reason, reason)
		})
	}
}
