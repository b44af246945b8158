package discovery

import (
	"errors"
	"slices"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/desired"
	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/internal/status"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// drifted are the settings that a flash changed and no job gave the device, by its unique id, without those of devices that were found to have
// them as they were.
func (d *Discovery) drifted() map[string][]journal.Setting {
	view, err := d.config.Journal.View()
	if err != nil { // publishing fails for it, and says so
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	out := map[string][]journal.Setting{}
	for id, device := range view.Devices {
		if len(device.Drift) > 0 && !slices.Equal(device.Drift, d.asBefore[id]) {
			out[id] = device.Drift
		}
	}
	return out
}

// noteAsBefore notes a device of which nothing is as a flash left it any more, so that it need not be asked again.
func (d *Discovery) noteAsBefore(uniqueID string, drift []journal.Setting, read Parameters) {
	if len(drift) == 0 || read.Err != nil || len(undeclared(drift, nil, read.All)) > 0 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.asBefore == nil {
		d.asBefore = map[string][]journal.Setting{}
	}
	d.asBefore[uniqueID] = drift
}

// drift says in the status which settings of the device a flash changed and nobody declares, and returns them. What was said before stays where
// they cannot be read.
func (f facts) drift(found inventory.Device, obj v1alpha1.NodeDevice, out *v1alpha1.NodeDeviceStatus) []status.Drifted {
	before := f.records.devices[out.UniqueID].Drift
	read, asked := f.snapshot.Parameters[out.UniqueID]
	switch {
	case len(before) == 0 || errors.Is(read.Err, driver.ErrNotSupported):
		return nil
	case asked && read.Err == nil && found.Err == nil:
		out.Parameters = withParameters(out.Parameters, undeclared(before, obj.Spec.Configuration, read.All), true, read.All)
	case obj.Status.UniqueID == out.UniqueID:
		names, everything := declaredNames(obj.Spec.Configuration)
		kept := slices.DeleteFunc(slices.Clone(obj.Status.Parameters), func(p v1alpha1.ObservedParameter) bool {
			return p.Was == nil || everything || slices.Contains(names, p.Name)
		})
		out.Parameters = slices.DeleteFunc(out.Parameters, func(p v1alpha1.ObservedParameter) bool { return p.Was != nil })
		out.Parameters = append(out.Parameters, kept...)
		slices.SortFunc(out.Parameters, byName)
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
	names, everything := declaredNames(declared)
	return slices.DeleteFunc(inventory.Changed(was, all), func(s inventory.Setting) bool { return everything || inventory.Covers(names, s.Name, all) })
}

// declaredNames are the names of the settings that are declared; everything says that all others are to have their defaults.
func declaredNames(declared *v1alpha1.DesiredConfiguration) (names []string, everything bool) {
	if declared == nil {
		return nil, false
	}
	want := desired.Configuration(*declared)
	for _, s := range want.Set {
		names = append(names, s.Name)
	}
	return names, want.ResetUnlisted
}
