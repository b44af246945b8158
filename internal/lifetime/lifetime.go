package lifetime

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// Sooner compares when two fail: what fails first comes first, and what does not fail, which is nil, last.
func Sooner(a, b *metav1.Time) int {
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return 1
	case b == nil:
		return -1
	}
	return a.Compare(b.Time)
}

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

// First is when the first of the devices of a job fails whose firmware it updates to a version under which it would not fail then; zero where
// none does.
func (l Limits) First(j *v1alpha1.FirmwareJob, machine *v1alpha1.Machine, device func(name string) (*v1alpha1.NodeDevice, error)) (first time.Time, err error) {
	of := l.of(machine)
	if of == nil {
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
		versions := of[d.Status.Component()]
		if then, has := versions[u.Version]; has && then.PowerOnHours <= versions[d.Status.Running()].PowerOnHours {
			continue // it would fail as early
		}
		if end, fails := ends(versions, &d.Status); fails && (first.IsZero() || end.At.Before(first)) {
			first = end.At
		}
	}
	return first, nil
}

// End is when a device of a machine fails. False where no catalog has a limit for the version that it runs, or for how long it has been powered
// on is not known.
func (l Limits) End(machine *v1alpha1.Machine, d *v1alpha1.NodeDeviceStatus) (End, bool) {
	of := l.of(machine)
	if of == nil {
		return End{}, false
	}
	return ends(of[d.Component()], d)
}

// of are the limits for a model of machines, by component and version; nil where there is none.
func (l Limits) of(machine *v1alpha1.Machine) map[v1alpha1.ComponentKey]map[string]v1alpha1.CatalogLimit {
	if l == nil || machine == nil {
		return nil
	}
	m, err := v1alpha1.CatalogOf(machine.Vendor, machine.Model)
	if err != nil {
		return nil // there is no catalog for such a machine
	}
	return l[m.CatalogName()]
}

func ends(versions map[string]v1alpha1.CatalogLimit, d *v1alpha1.NodeDeviceStatus) (End, bool) {
	limit, found := versions[d.Running()]
	if !found {
		return End{}, false
	}
	at, known := d.Reaches(limit.PowerOnHours)
	return End{At: at, Issue: limit.Issue}, known
}
