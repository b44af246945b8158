package node

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

func TestOnlyWhatAPersonWroteKeepsTheNodeFirmwareOfANodeThatIsGone(t *testing.T) {
	for name, c := range map[string]struct {
		spec v1alpha1.NodeFirmwareSpec
		kept bool
	}{
		"nothing":          {},
		"pins":             {v1alpha1.NodeFirmwareSpec{Pins: []v1alpha1.FirmwarePin{pin}}, true},
		"a scan threshold": {v1alpha1.NodeFirmwareSpec{ScanThreshold: "10m"}, true},
	} {
		o := &v1alpha1.NodeFirmware{Spec: c.spec}
		now := time.Now()
		d := decide(facts{name: "gone", firmware: o, goneSince: now.Add(-time.Hour), now: now, retention: time.Hour})
		assert.Equal(t, c.kept, d.keep != nil, name)
		assert.Equal(t, !c.kept, d.firmware != nil, name)
	}
}
