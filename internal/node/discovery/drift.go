package discovery

import (
	"slices"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/desired"
	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/internal/status"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// drifted are the unique ids of the devices of which a flash changed settings that no job gave them.
func (d *Discovery) drifted() map[string]bool {
	view, err := d.config.Journal.View()
	if err != nil { // publishing fails for it, and says so
		return nil
	}
	out := map[string]bool{}
	for id, device := range view.Devices {
		if len(device.Drift) > 0 {
			out[id] = true
		}
	}
	return out
}

// drift says in the status which settings of the device a flash changed and nobody declares, and returns them. What was said before stays where
// they cannot be read.
func (f facts) drift(found inventory.Device, obj v1alpha1.NodeDevice, out *v1alpha1.NodeDeviceStatus) []status.Drifted {
	before := f.records.devices[out.UniqueID].Drift
	if len(before) == 0 {
		return nil
	}
	if read, asked := f.snapshot.Parameters[out.UniqueID]; asked && read.Err == nil && found.Err == nil {
		out.Parameters = withParameters(out.Parameters, undeclared(before, obj.Spec.Configuration, read.All), true, read.All)
	} else if obj.Status.UniqueID == out.UniqueID {
		out.Parameters = slices.DeleteFunc(slices.Clone(obj.Status.Parameters), func(p v1alpha1.ObservedParameter) bool {
			return p.Was == nil && !slices.ContainsFunc(out.Parameters, func(kept v1alpha1.ObservedParameter) bool { return kept.Name == p.Name })
		})
	}
	var drifted []status.Drifted
	for _, p := range out.Parameters {
		if p.Was != nil {
			drifted = append(drifted, status.Drifted{Name: p.Name, Is: p.Next, Was: *p.Was})
		}
	}
	return drifted
}

// undeclared are those of the settings that the device stores otherwise and that nothing declares.
func undeclared(before []journal.Setting, declared *v1alpha1.DesiredConfiguration, all []inventory.Parameter) []inventory.Setting {
	var was []inventory.Setting
	for _, s := range before {
		was = append(was, inventory.Setting(s))
	}
	changed := inventory.Changed(was, all)
	if declared == nil {
		return changed
	}
	want := desired.Configuration(*declared)
	if want.ResetUnlisted {
		return nil
	}
	var names []string
	for _, s := range want.Set {
		names = append(names, s.Name)
	}
	return slices.DeleteFunc(changed, func(s inventory.Setting) bool { return inventory.Covers(names, s.Name, all) })
}
