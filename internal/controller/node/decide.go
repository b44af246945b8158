package node

import (
	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// decision is what has to be done about one node's name.
type decision struct {
	// create the NodeFirmware of a Node that has none.
	create bool
	// end these jobs: no process is left that runs or reports them.
	end []v1alpha1.FirmwareJob
	// release our part in the node's maintenance.
	release bool
	// delete these devices and this NodeFirmware.
	devices  []v1alpha1.NodeDevice
	firmware *v1alpha1.NodeFirmware
	// keep a NodeFirmware without a Node because it holds a request of a person.
	keep *v1alpha1.NodeFirmware
}

// decide is the policy for Nodes that come and go. A NodeFirmware that is owned by its Node, which is what this
// operator makes, goes with it, pins and all. One that a person made, without an owner, stays while it holds a request
// of theirs: it may be for a machine that joins later. When a Node was replaced by another of the same name, only
// what the old one owns goes; a job is left to the daemon, which may be running it on the same machine.
func decide(f facts) decision {
	if f.node != nil && f.firmware == nil {
		return decision{create: true}
	}
	if !f.left {
		return decision{}
	}
	var d decision
	for _, o := range f.devices {
		if f.node == nil || foreign(&o, f.node) {
			d.devices = append(d.devices, o)
		}
	}
	switch {
	case f.firmware == nil:
	case ownerOf(f.firmware) != "", !requests(f.firmware.Spec):
		d.firmware = f.firmware
	default:
		d.keep = f.firmware
	}
	if f.node != nil {
		return d
	}
	for _, j := range f.jobs {
		if !j.Ended() {
			d.end = append(d.end, j)
		}
	}
	d.release = true
	return d
}

// requests reports whether the spec holds a person's pins or settings.
func requests(s v1alpha1.NodeFirmwareSpec) bool {
	return len(s.Pins) > 0 || s.ScanThreshold != ""
}
