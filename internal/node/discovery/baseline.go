package discovery

import (
	"errors"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/baseline"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
)

// baseline is that of the node, or empty where the scan left something unknown: what was read before may not be so any more. It stays as it is until
// the scan that asks for settings which were declared since the last one.
func (f facts) baseline(
	cards []card, statuses map[string]v1alpha1.NodeDeviceStatus, specs map[string]v1alpha1.NodeDeviceSpec, problems []string,
) string {
	if len(problems) > 0 || len(statuses) != len(cards) {
		return ""
	}
	var devices []baseline.Device
	waits := false
	for _, c := range cards {
		s, obj := statuses[c.name], v1alpha1.NodeDevice{Spec: specs[c.name]}
		d := baseline.DeviceOf(&s)
		if f.waits(c.device, obj) {
			waits = true
		} else {
			d.Unknown = c.device.Err != nil || f.settings && obj.Spec.Configuration != nil && !f.knowsSettings(c)
		}
		devices = append(devices, d)
	}
	of := baseline.Of(machine(f.snapshot.Machine), devices)
	if of != "" && waits {
		return f.nodeFirmware.Status.Baseline
	}
	return of
}

// knowsSettings reports whether the scan found the settings of the device, or that it has none.
func (f facts) knowsSettings(c card) bool {
	read, asked := f.snapshot.Parameters[c.device.UniqueID]
	return asked && (read.Err == nil || errors.Is(read.Err, driver.ErrNotSupported))
}
