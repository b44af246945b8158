package lifetime

import (
	"time"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// Limits are after how many hours of power devices fail, by the name of their catalog, their component and the version that they run.
// Without any limit it is nil.
type Limits map[string]map[v1alpha1.ComponentKey]map[string]v1alpha1.CatalogLimit

// End is when a device fails if it stays on and its firmware is not updated.
type End struct {
	At time.Time
	// Issue is the vulnerability that says so.
	Issue string
}

// Of are the limits that catalogs list.
func Of(catalogs []v1alpha1.FirmwareCatalog) Limits {
	var out Limits
	for _, c := range catalogs {
		for i := range c.Status.Components {
			for _, run := range c.Status.Components[i].Running {
				if run.Limit != nil {
					out = out.with(c.Name, c.Status.Components[i].Key(), run.Version, *run.Limit)
				}
			}
		}
	}
	return out
}

func (l Limits) with(catalog string, component v1alpha1.ComponentKey, version string, limit v1alpha1.CatalogLimit) Limits {
	if l == nil {
		l = Limits{}
	}
	if l[catalog] == nil {
		l[catalog] = map[v1alpha1.ComponentKey]map[string]v1alpha1.CatalogLimit{}
	}
	if l[catalog][component] == nil {
		l[catalog][component] = map[string]v1alpha1.CatalogLimit{}
	}
	l[catalog][component][version] = limit
	return l
}

// First is when the first of the devices of a job fails whose firmware it updates; zero where none does.
func (l Limits) First(j *v1alpha1.FirmwareJob, machine *v1alpha1.Machine, device func(name string) (*v1alpha1.NodeDevice, error)) (first time.Time, err error) {
	if l == nil || machine == nil {
		return first, nil
	}
	for i := range j.Spec.Task.Devices {
		u := &j.Spec.Task.Devices[i]
		if u.SettingsOnly() {
			continue
		}
		d, err := device(u.Name)
		if err != nil {
			return time.Time{}, err
		}
		if d == nil {
			continue
		}
		if end, fails := l.End(machine, &d.Status); fails && (first.IsZero() || end.At.Before(first)) {
			first = end.At
		}
	}
	return first, nil
}

// End is when a device of a machine fails. False where no catalog has a limit for the version that it runs, or for how long it has been powered
// on is not known.
func (l Limits) End(machine *v1alpha1.Machine, d *v1alpha1.NodeDeviceStatus) (End, bool) {
	if l == nil || machine == nil {
		return End{}, false
	}
	m, err := v1alpha1.CatalogOf(machine.Vendor, machine.Model)
	if err != nil {
		return End{}, false // there is no catalog for such a machine
	}
	limit, found := l[m.CatalogName()][d.Component()][d.Running()]
	if !found {
		return End{}, false
	}
	at, known := d.Reaches(limit.PowerOnHours)
	return End{At: at, Issue: limit.Issue}, known
}
