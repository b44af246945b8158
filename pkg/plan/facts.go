package plan

import "github.com/nodefirmware/node-firmware-operator/pkg/inventory"

// FactsOf returns the facts about a device that was just inspected. Past failures are not included.
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
