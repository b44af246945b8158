package baseline_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/baseline"
)

// status draws what a daemon says of a device, from few values, so that many devices are alike.
func status(t *rapid.T) v1alpha1.NodeDeviceStatus {
	few := func(what string, of ...string) string { return rapid.SampledFrom(of).Draw(t, what) }
	s := v1alpha1.NodeDeviceStatus{
		Class: v1alpha1.DeviceClass(few("class", "NIC", "Disk")), Model: few("model", "", "a", "b"), Vendor: few("vendor", "", "v"),
		PCIID: few("PCI id", "", "15b3:101d"), BoardID: few("board", "", "x", "y"), Firmware: &v1alpha1.ObservedFirmware{Running: few("running", "1", "2", "2\x00", "")},
	}
	for _, name := range []string{"numVFs", "linkType"} {
		if value := few(name, "", "4", "8"); value != "" {
			s.Parameters = append(s.Parameters, v1alpha1.ObservedParameter{Name: name, Current: &value, Next: ptr.To(few("next", "4", "8"))})
		}
	}
	return s
}

func devicesOf(all []v1alpha1.NodeDeviceStatus) (out []baseline.Device) {
	for i := range all {
		out = append(out, baseline.DeviceOf(&all[i]))
	}
	return out
}

// R003-3: two nodes with equal devices have one baseline, and what is of one unit, or only stored, and the order of the devices are no difference.
func TestEqualNodesHaveOneBaseline(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		one := rapid.SliceOfN(rapid.Custom(status), 0, 6).Draw(t, "devices")
		other := rapid.Permutation(one).Draw(t, "order")
		for i := range other {
			s := other[i].DeepCopy()
			s.UniqueID, s.SerialNumber, s.PCIAddress = fmt.Sprint("id", i), fmt.Sprint("S", i), fmt.Sprintf("0000:%02x:00.0", i)
			s.Ports, s.Arrays = []v1alpha1.DevicePort{{NetDevice: fmt.Sprint("eth", i)}}, []string{fmt.Sprint("md", i)}
			s.Firmware.Stored, s.Firmware.Notes = "3", []string{"in use"}
			for p := range s.Parameters {
				s.Parameters[p].Next = ptr.To("16")
			}
			other[i] = *s
		}
		a := baseline.Of(&v1alpha1.Machine{Vendor: "Lenovo", Model: "7X21", SerialNumber: "J1"}, devicesOf(one))
		b := baseline.Of(&v1alpha1.Machine{Vendor: "Lenovo", Model: "7X21", SerialNumber: "J2"}, devicesOf(other))
		require.Regexp(t, "^[0-9a-f]{16}$", a)
		require.Equal(t, a, b)
		require.Empty(t, baseline.Compare(devicesOf(one), devicesOf(other)))
		require.NotEqual(t, a, baseline.Of(&v1alpha1.Machine{Vendor: "Lenovo", Model: "7X22"}, devicesOf(one)))
	})
}

// Where two nodes have different baselines there is something that differs, and the other way round.
func TestBaselinesDifferWhereSomethingDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		one := devicesOf(rapid.SliceOfN(rapid.Custom(status), 0, 4).Draw(t, "devices"))
		other := devicesOf(rapid.SliceOfN(rapid.Custom(status), 0, 4).Draw(t, "other devices"))
		if rapid.Bool().Draw(t, "of one node") {
			other = append([]baseline.Device{}, one...)
			if len(other) > 0 {
				s := status(t)
				other[rapid.IntRange(0, len(other)-1).Draw(t, "changed")] = baseline.DeviceOf(&s)
			}
		}
		same := baseline.Of(nil, one) == baseline.Of(nil, other)
		require.Equal(t, same, len(baseline.Compare(one, other)) == 0)
		back := baseline.Compare(other, one)
		for i, d := range baseline.Compare(one, other) {
			require.Equal(t, d.Has, back[i].Other)
			require.Equal(t, d.Other, back[i].Has)
		}
	})
}

func TestWhatDiffersIsSaid(t *testing.T) {
	drive := baseline.Device{Class: v1alpha1.ClassDisk, Model: "PM9A3", ModelKey: "144d:a80a", Firmware: "GDC5602Q"}
	nic := func(firmware string, settings ...string) baseline.Device {
		d := baseline.Device{Class: v1alpha1.ClassNIC, Model: "ConnectX-6 Dx", ModelKey: "15b3:101d", Board: "MT_1", Firmware: firmware}
		for i := 0; i < len(settings); i += 2 {
			d.Settings = append(d.Settings, v1alpha1.ObservedParameter{Name: settings[i], Current: &settings[i+1]})
		}
		return d
	}
	otherBoard, old, silent := nic("1"), drive, nic("1")
	otherBoard.Board, old.Firmware, silent.Unknown = "MT_2", "GDC5302Q", true
	stored := nic("1")
	stored.Settings = []v1alpha1.ObservedParameter{{Name: "numVFs", Next: ptr.To("8")}, {Name: "gone"}}
	type nodes struct{ has, other []baseline.Device }
	of := func(d ...baseline.Device) []baseline.Device { return d }
	for name, c := range map[string]struct {
		of   nodes
		want []baseline.Difference
	}{
		"nothing":      {nodes{of(drive, nic("1")), of(nic("1"), drive)}, nil},
		"a drive less": {nodes{of(drive), of(drive, drive)}, []baseline.Difference{{"Disk PM9A3", "GDC5602Q", "2 × GDC5602Q"}}},
		"no drive":     {nodes{nil, of(drive)}, []baseline.Difference{{"Disk PM9A3", "", "GDC5602Q"}}},
		"one of two drives runs another version": {nodes{of(drive, old), of(drive, drive)},
			[]baseline.Difference{{"Disk PM9A3", "GDC5302Q; GDC5602Q", "2 × GDC5602Q"}}},
		"a version and a drive": {nodes{of(nic("1"), drive), of(nic("2"))},
			[]baseline.Difference{{"Disk PM9A3", "GDC5602Q", ""}, {"NIC ConnectX-6 Dx", "1", "2"}}},
		"a setting, and others are the same": {nodes{of(nic("1", "numVFs", "4", "linkType", "Ethernet")), of(nic("1", "numVFs", "8", "linkType", "Ethernet"))},
			[]baseline.Difference{{"NIC ConnectX-6 Dx", "1 [numVFs=4]", "1 [numVFs=8]"}}},
		"a setting that only one declares": {nodes{of(nic("1", "numVFs", "4")), of(nic("1"))}, []baseline.Difference{{"NIC ConnectX-6 Dx", "1 [numVFs=4]", "1"}}},
		"the same on other cards": {nodes{of(nic("1", "numVFs", "4"), nic("2", "numVFs", "8")), of(nic("1", "numVFs", "8"), nic("2", "numVFs", "4"))},
			[]baseline.Difference{{"NIC ConnectX-6 Dx", "1 [numVFs=4]; 2 [numVFs=8]", "1 [numVFs=8]; 2 [numVFs=4]"}}},
		"another board": {nodes{of(nic("1")), of(otherBoard)},
			[]baseline.Difference{{"NIC ConnectX-6 Dx MT_1", "1", ""}, {"NIC ConnectX-6 Dx MT_2", "", "1"}}},
		"a value that is only stored": {nodes{of(stored), of(nic("1", "numVFs", "8"))}, nil},
		"what is unknown":             {nodes{of(silent), of(silent)}, []baseline.Difference{{"NIC ConnectX-6 Dx", "1", "1"}}},
		"no version, and no name": {nodes{of(baseline.Device{Class: v1alpha1.ClassNIC, ModelKey: "15b3:101d"}), nil},
			[]baseline.Difference{{"NIC 15b3:101d", "no version", ""}}},
	} {
		assert.Equal(t, c.want, baseline.Compare(c.of.has, c.of.other), name)
	}
	assert.Empty(t, baseline.Of(nil, of(drive, silent)), "what is unknown has no baseline")
}
