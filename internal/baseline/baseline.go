package baseline

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// Device is what counts of a device when nodes are compared: nothing of it is of one unit, such as a serial number, an address or a name.
type Device struct {
	Class v1alpha1.DeviceClass
	// Model is the name that the device reports, ModelKey its v1alpha1.ModelKey, and Board its board id.
	Model, ModelKey, Board string
	// Firmware is the running version, or what is said of it for people.
	Firmware string
	// Settings are the parameters that are declared, and those that are to be reset. Those that drifted do not count.
	Settings []v1alpha1.ObservedParameter
	// Unknown says that not all of this could be read, so that the device is like no other.
	Unknown bool
}

// DeviceOf takes from a status what counts of the device.
func DeviceOf(s *v1alpha1.NodeDeviceStatus) Device {
	return Device{
		Class: s.Class, Model: s.Model, ModelKey: s.ModelKey(), Board: s.BoardID,
		Firmware: string(inventory.NormalizeVersion(s.Running())), Settings: s.Parameters,
	}
}

// Of returns the baseline of a node: 16 hexadecimal digits that are the same for a machine of the same model with the same devices, in any order.
// It is empty where something is unknown.
func Of(m *v1alpha1.Machine, devices []Device) string {
	var lines []string
	for _, d := range devices {
		if d.Unknown {
			return ""
		}
		lines = append(lines, fmt.Sprintf("%q %q %q", d.kind(), d.Firmware, d.settings()))
	}
	slices.Sort(lines)
	if m == nil {
		m = &v1alpha1.Machine{}
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q\n%s", m.Vendor, m.Model, strings.Join(lines, "\n")))
	return fmt.Sprintf("%x", sum[:8])
}

// kind is what devices have in common that are compared with each other.
type kind struct {
	class               v1alpha1.DeviceClass
	model, named, board string
}

func (d Device) kind() kind {
	return kind{d.Class, d.ModelKey, inventory.NormalizeID(d.Model), inventory.NormalizeID(d.Board)}
}

// settings are the values in force, by name. Where a device does not report that of a parameter, the stored one stands for it.
func (d Device) settings() map[string]string {
	out := map[string]string{}
	for _, p := range d.Settings {
		if value := cmp.Or(p.Current, p.Next); value != nil && p.Was == nil {
			out[p.Name] = *value
		}
	}
	return out
}

// Difference is what one node has of one kind of device, and what another has; empty for none.
type Difference struct{ What, Has, Other string }

// Compare lists in what the devices of two nodes differ, in order of class and model. It lists something if the nodes have different baselines and
// their machines are of one model. What is unknown differs from everything.
func Compare(devices, other []Device) []Difference {
	has, others, both := byKind(devices), byKind(other), byKind(slices.Concat(devices, other))
	kinds := slices.SortedFunc(maps.Keys(both), compareKinds)
	named := map[string]int{}
	for _, k := range kinds {
		named[both[k][0].label()]++
	}
	var out []Difference
	for _, k := range kinds {
		first, common := both[k][0], common(both[k])
		d := Difference{first.label(), said(has[k], common), said(others[k], common)}
		if named[d.What] > 1 {
			d.What = strings.TrimSpace(d.What + " " + first.Board)
		}
		if d.Has != d.Other || slices.ContainsFunc(both[k], func(d Device) bool { return d.Unknown }) {
			out = append(out, d)
		}
	}
	return out
}

func compareKinds(a, b kind) int {
	return cmp.Or(cmp.Compare(a.class, b.class), cmp.Compare(a.named, b.named), cmp.Compare(a.model, b.model), cmp.Compare(a.board, b.board))
}

func byKind(devices []Device) map[kind][]Device {
	out := map[kind][]Device{}
	for _, d := range devices {
		out[d.kind()] = append(out[d.kind()], d)
	}
	return out
}

// label names the kind of the device for people.
func (d Device) label() string {
	model := d.Model
	if model == "" && d.ModelKey != v1alpha1.AnyModel {
		model = d.ModelKey
	}
	return strings.TrimSpace(string(d.Class) + " " + model)
}

// common are the settings that all devices have alike.
func common(devices []Device) map[string]string {
	out := devices[0].settings()
	for _, d := range devices[1:] {
		is := d.settings()
		maps.DeleteFunc(out, func(name, value string) bool { v, has := is[name]; return !has || v != value })
	}
	return out
}

// said is what devices of one kind run, and the settings of each that are not common to all.
func said(devices []Device, common map[string]string) string {
	count := map[string]int{}
	for _, d := range devices {
		var own []string
		for name, value := range d.settings() {
			if _, all := common[name]; !all {
				own = append(own, name+"="+value)
			}
		}
		s := cmp.Or(d.Firmware, "no version")
		if slices.Sort(own); len(own) > 0 {
			s += " [" + strings.Join(own, ", ") + "]"
		}
		count[s]++
	}
	var out []string
	for _, s := range slices.Sorted(maps.Keys(count)) {
		if n := count[s]; n > 1 {
			s = fmt.Sprintf("%d × %s", n, s)
		}
		out = append(out, s)
	}
	return strings.Join(out, "; ")
}
