package rollout

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// Whether a source lists the rollback image of a job depends on what the device is, what it runs and where its firmware comes from.
func TestADeviceThatARollbackImageMayBeForStartsAPass(t *testing.T) {
	device := func(change func(*v1alpha1.NodeDevice)) *v1alpha1.NodeDevice {
		d := &v1alpha1.NodeDevice{
			Spec:   v1alpha1.NodeDeviceSpec{NodeName: "n", Origin: []v1alpha1.Origin{{Kind: v1alpha1.OriginSource, Name: "s"}}},
			Status: v1alpha1.NodeDeviceStatus{Firmware: &v1alpha1.ObservedFirmware{Running: "1"}},
		}
		change(d)
		return d
	}
	for name, c := range map[string]struct {
		change func(*v1alpha1.NodeDevice)
		passes bool
	}{
		"nothing":        {func(*v1alpha1.NodeDevice) {}, false},
		"what it stores": {func(d *v1alpha1.NodeDevice) { d.Status.Firmware.Stored = "2" }, false},
		"the board":      {func(d *v1alpha1.NodeDevice) { d.Status.BoardID = "MT_1" }, true},
		"what it runs":   {func(d *v1alpha1.NodeDevice) { d.Status.Firmware.Running = "2" }, true},
		"first read":     {func(d *v1alpha1.NodeDevice) { d.Status.Firmware = nil }, true},
		"its source":     {func(d *v1alpha1.NodeDevice) { d.Spec.Origin[0].Name = "other" }, true},
		"no source":      {func(d *v1alpha1.NodeDevice) { d.Spec.Origin = nil }, true},
	} {
		e := event.UpdateEvent{ObjectOld: device(func(*v1alpha1.NodeDevice) {}), ObjectNew: device(c.change)}
		assert.Equal(t, c.passes, deviceChanged.Update(e), name)
	}
}
