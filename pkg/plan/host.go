package plan

import "github.com/nodefirmware/node-firmware-operator/pkg/inventory"

// Host is what is to be done about all devices of one host.
type Host struct {
	// Devices are in the order they were given.
	Devices []Assessment
	// Disruption is the strongest activation any due update is expected to need.
	Disruption inventory.Activation
}

// Assessment is the decision about one device.
type Assessment struct {
	Device   inventory.Device
	Wish     Wish
	Decision Decision
}

// Due is the number of devices whose update is due.
func (h Host) Due() int {
	n := 0
	for _, a := range h.Devices {
		if a.Decision.Outcome.Due() {
			n++
		}
	}
	return n
}

// Assess decides about every device of a host. The wish of a device is found by its unique id.
func Assess(devices []inventory.Device, wishes map[string]Wish) Host {
	var h Host
	for _, d := range devices {
		w := wishes[d.UniqueID]
		a := Assessment{Device: d, Wish: w, Decision: Decide(w, FactsOf(d))}
		if a.Decision.Outcome.Due() {
			h.Disruption = max(h.Disruption, a.Decision.Activation)
		}
		h.Devices = append(h.Devices, a)
	}
	return h
}

// FactsOf are the facts about a device that was just inspected. They know nothing of failures in the past.
func FactsOf(d inventory.Device) Facts {
	f := Facts{Driver: d.Driver}
	if d.Err != nil {
		f.Unreadable = d.Err.Error()
	}
	if fw := d.Firmware; fw != nil {
		f.ReadOnly, f.Running, f.Stored = fw.ReadOnly, fw.Running, fw.Stored
		f.Activation, f.Format = fw.Activation, fw.Format
	} else if f.Unreadable == "" && f.Driver != "" {
		f.Unreadable = "the driver reported no firmware"
	}
	return f
}
