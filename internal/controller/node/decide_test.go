package node

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

func TestOnlyWhatAPersonWroteKeepsTheNodeFirmwareOfANodeThatIsGone(t *testing.T) {
	for name, c := range map[string]struct {
		spec v1alpha1.NodeFirmwareSpec
		kept bool
	}{
		"nothing":          {},
		"pins":             {v1alpha1.NodeFirmwareSpec{Pins: []v1alpha1.FirmwareRule{pin}}, true},
		"a scan threshold": {v1alpha1.NodeFirmwareSpec{ScanThreshold: "10m"}, true},
	} {
		o := &v1alpha1.NodeFirmware{Spec: c.spec}
		now := time.Now()
		d := decide(facts{name: "gone", firmware: o, goneSince: now.Add(-time.Hour), now: now, retention: time.Hour})
		assert.Equal(t, c.kept, d.keep != nil, name)
		assert.Equal(t, !c.kept, d.firmware != nil, name)
	}
}

// Pins stay with the machine at which they were first seen, until a new request adopts the one that is there now.
func TestPinnedTo(t *testing.T) {
	pins, scanned := []v1alpha1.FirmwareRule{pin}, metav1.Now()
	type at = v1alpha1.NodeFirmwareStatus
	reports := func(serial string) at {
		return at{Machine: &v1alpha1.Machine{SerialNumber: serial}, LastScanTime: &scanned}
	}
	was := func(s at, machine, adopt string) at {
		s.PinnedMachine, s.Requests.Adopt = machine, adopt
		return s
	}
	for name, tt := range map[string]struct {
		pins   []v1alpha1.FirmwareRule
		adopt  string
		status at
		want   *pinned
	}{
		"no pins":                              {nil, "", reports("A"), nil},
		"no machine has reported":              {pins, "now", at{}, nil},
		"first seen":                           {pins, "", reports("A"), &pinned{"A", ""}},
		"first seen, with a request":           {pins, "now", reports("A"), &pinned{"A", "now"}},
		"without a serial number":              {pins, "", reports(""), nil},
		"as it was":                            {pins, "", was(reports("A"), "A", ""), nil},
		"another machine":                      {pins, "", was(reports("B"), "A", ""), nil},
		"one that reports no serial number":    {pins, "", was(at{LastScanTime: &scanned}, "A", ""), nil},
		"adopted":                              {pins, "now", was(reports("B"), "A", "before"), &pinned{"B", "now"}},
		"adopted, reports no serial number":    {pins, "now", was(at{LastScanTime: &scanned}, "A", ""), &pinned{"", "now"}},
		"a request that was answered":          {pins, "now", was(reports("B"), "A", "now"), nil},
		"a request that was taken back":        {pins, "", was(reports("B"), "A", "now"), nil},
		"the pins are removed":                 {nil, "", was(reports("B"), "A", "now"), &pinned{"", "now"}},
		"the pins are removed before it scans": {nil, "", was(at{}, "A", ""), &pinned{}},
	} {
		o := &v1alpha1.NodeFirmware{Spec: v1alpha1.NodeFirmwareSpec{Pins: tt.pins, Requests: v1alpha1.NodeRequests{Adopt: tt.adopt}}, Status: tt.status}
		got := pinnedTo(o)
		assert.Equal(t, tt.want, got, name)
		if got != nil {
			o.Status.PinnedMachine, o.Status.Requests.Adopt = got.machine, got.adopt
			assert.Nil(t, pinnedTo(o), "%s: once is enough", name)
		}
	}
}
