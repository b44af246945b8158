package match

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/desired"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
)

// A pin that matches no device of its node was meant for one. Until it matches, or is removed, templates assign nothing to the
// devices that may be that one: those that bear a serial number or PCI address which the pin names, or, where none does, those of
// its class.

// bond is what a device is to a pin of its node.
type bond byte

const (
	stranger bond = iota
	// named by serial number or PCI address, and different otherwise.
	named
	// matched, or not known not to be while the device cannot be read.
	matching
)

// met counts the devices of a node by what they are to a pin.
type met struct{ matching, named int }

// state is the strongest bond of the pin with any device.
func (m met) state() bond {
	switch {
	case m.matching > 0:
		return matching
	case m.named > 0:
		return named
	}
	return stranger
}

func (d *device) bondWith(p *Rule) bond {
	switch {
	case p.Selector.Matches(d.facts) || d.observed.unread && p.Selector.MayMatch(d.facts):
		return matching
	case p.Selector.names(d.facts):
		return named
	}
	return stranger
}

// rebind finds for all pins and devices of a node what they are to each other.
func (ix *Index) rebind(n *node) {
	n.met = make([]met, len(n.pins))
	for _, d := range n.devices {
		d.bonds = nil
		ix.bind(d)
	}
	if len(n.pins) > 0 {
		ix.affectPins(n)
	}
}

// bind finds what a device is to the pins of its node. It reports whether other devices of the node must be decided for again.
func (ix *Index) bind(d *device) (turned bool) {
	next := make([]bond, len(d.node.pins))
	for i, p := range d.node.pins {
		next[i] = d.bondWith(p)
	}
	return ix.rebond(d, next)
}

// release ends that a device is anything to the pins of its node.
func (ix *Index) release(d *device) (turned bool) {
	return ix.rebond(d, make([]bond, len(d.node.pins)))
}

func (ix *Index) rebond(d *device, next []bond) (turned bool) {
	for i := range next {
		m := &d.node.met[i]
		was := m.state()
		if d.bonds != nil {
			m.count(d.bonds[i], -1)
		}
		m.count(next[i], 1)
		turned = turned || m.state() != was
		if turned || m.state() != matching {
			ix.affectPins(d.node)
		}
	}
	d.bonds = next
	return turned
}

// affectPins notes a node of which it may have to be said anew which pins match nothing.
func (ix *Index) affectPins(n *node) {
	if ix.affected.nodes == nil {
		ix.affected.nodes = map[string]struct{}{}
	}
	ix.affected.nodes[n.name] = struct{}{}
}

func (m *met) count(b bond, n int) {
	switch b {
	case matching:
		m.matching += n
	case named:
		m.named += n
	case stranger:
	}
}

func (ix *Index) refreshOthers(d *device) {
	for _, o := range d.node.devices {
		if o != d {
			ix.refresh(o)
		}
	}
}

// unmatched is the first pin that matches no device and may be meant for this one; nil where there is none, or a pin matches it.
func (d *device) unmatched() *Rule {
	if len(d.pins) > 0 {
		return nil
	}
	for i, p := range d.node.pins {
		state := d.node.met[i].state()
		if state != matching && p.Selector.class == d.facts.Class && (state == stranger || d.bonds[i] == named) {
			return p
		}
	}
	return nil
}

// holdOff keeps a template from assigning or flashing anything while a pin matches nothing that may be meant for the device. What
// a template assigned before stays, and is not flashed.
func (ix *Index) holdOff(d *device, out Decision) Decision {
	pin := d.unmatched()
	if pin == nil || out.Conflict != nil || (templateOf(out.Firmware) == Ref{}) || out.Action != Assign && !out.Verdict.Outcome.Due() {
		return out
	}
	if out.Action == Assign {
		out = Decision{Firmware: d.current}
		if (templateOf(d.current) == Ref{}) {
			out = change(d.current, nil)
		}
		out.Verdict = plan.Decide(desired.Of(out.Firmware.Desired(), d.node.retry), d.observed.Facts)
	}
	out.Blocked = &Block{Reason: v1alpha1.ReasonNoMatch, By: pin.Party}
	return out
}

// heldOff reports whether a pin that matches nothing keeps templates from the device.
func (d Decision) heldOff() bool {
	return d.Blocked != nil && d.Blocked.Reason == v1alpha1.ReasonNoMatch
}

// Pins are the pins of a node that match none of its devices.
type Pins struct {
	UID        string
	Generation int64
	// Unmatched are those pins in the order of the spec. There is none while it is not known which devices the node has, or while the
	// pins are for another machine.
	Unmatched []UnmatchedPin
}

// UnmatchedPin is a pin that matches no device of its node.
type UnmatchedPin struct {
	Name  string
	Class v1alpha1.DeviceClass
	// Nearest is the device that differs in least from what the pin selects; nil where the node has no device of the class.
	Nearest *Near
	// Elsewhere are the first 3 devices of other nodes, in order of name, that bear a serial number which the pin names.
	Elsewhere []Place
}

// Place is a device and the node that it is in.
type Place struct{ Device, Node string }

// rename notes which serial numbers the pins of a node name, instead of those that they named.
func (ix *Index) rename(n *node, pins []*Rule) {
	for _, p := range n.pins {
		for serial := range p.Selector.serials {
			delete(ix.named[serial], n)
			if len(ix.named[serial]) == 0 {
				delete(ix.named, serial)
			}
		}
	}
	for _, p := range pins {
		for serial := range p.Selector.serials {
			if ix.named[serial] == nil {
				ix.named[serial] = map[*node]struct{}{}
			}
			ix.named[serial][n] = struct{}{}
		}
	}
}

// affectNaming notes the other nodes with a pin that names the device by its serial number.
func (ix *Index) affectNaming(d *device) {
	if d.facts.spelled == nil {
		return
	}
	for _, serial := range d.facts.spelled.serials {
		for n := range ix.named[serial] {
			if n != d.node && serial != "" {
				ix.affectPins(n)
			}
		}
	}
}

// elsewhere finds the devices of other nodes that a pin names by their serial numbers.
func (ix *Index) elsewhere(n *node, p *Rule) []Place {
	if p.Selector.serials == nil {
		return nil
	}
	var names []string
	for name, d := range ix.devices {
		if d.node != n && d.facts.Class == p.Selector.class && p.Selector.serials.has(d.facts.spelling().serials) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var out []Place
	for _, name := range names[:min(len(names), namedDevices)] {
		out = append(out, Place{name, ix.devices[name].node.name})
	}
	return out
}

// Pins returns the pins of a node that match nothing; false where there is no NodeFirmware of the name.
func (ix *Index) Pins(name string) (Pins, bool) {
	n := ix.nodes[name]
	if n == nil || !n.firmware {
		return Pins{}, false
	}
	out := Pins{UID: n.firmwareUID, Generation: n.firmwareGeneration}
	if !n.exists || !n.scanned || n.otherMachine != "" || len(n.devices) == 0 {
		return out, true
	}
	for _, d := range n.devices {
		if d.facts.Class == "" { // the daemon has not said yet what it is
			return out, true
		}
	}
	for i, p := range n.pins {
		if n.met[i].state() != matching {
			out.Unmatched = append(out.Unmatched, UnmatchedPin{Name: p.Rule, Class: p.Selector.class, Nearest: n.nearest(nil, p), Elsewhere: ix.elsewhere(n, p)})
		}
	}
	return out, true
}

// Near is a rule and a device that it does not match, though no other differs in less.
type Near struct {
	Device, Rule string
	// Differs lists the fields of the rule's selector that do not match, in the order of the API.
	Differs []Difference
}

// Difference is a field of a selector that does not match, and what the device has there; empty where it reports nothing.
type Difference struct{ Field, Has string }

// comparedNodes bounds the nodes whose devices are compared, so that a template that matches nothing stays cheap.
const comparedNodes = 64

// nearest compares the rules with the devices of the first chosen nodes in order of name. Of several it returns the first by
// the names of node and device and the order of the rules.
func (t *template) nearest() *Near {
	nodes := slices.SortedFunc(maps.Keys(t.nodes), func(a, b *node) int { return cmp.Compare(a.name, b.name) })
	var best *Near
	for _, n := range nodes[:min(len(nodes), comparedNodes)] {
		best = n.nearest(best, t.compiled.Rules...)
	}
	return best
}

// nearest compares the rules with the devices of a node. It returns best where none comes nearer.
func (n *node) nearest(best *Near, rules ...*Rule) *Near {
	for _, name := range slices.Sorted(maps.Keys(n.devices)) {
		for _, r := range rules {
			differs := r.Selector.differences(n.devices[name].facts)
			if len(differs) > 0 && (best == nil || len(differs) < len(best.Differs)) {
				best = &Near{Device: name, Rule: r.Rule, Differs: differs}
			}
		}
	}
	return best
}

// differences lists what keeps the selector from matching a device of its class; nothing for a device of another class.
func (s *Selector) differences(d Device) []Difference {
	if s.class != d.Class {
		return nil
	}
	is := d.spelling()
	var out []Difference
	for _, f := range []struct {
		name string
		is   bool
		has  []string
	}{
		{"vendor", s.vendors.has(is.vendors), []string{d.VendorID, d.Vendor}}, {"models", s.models.has(is.models), []string{d.DeviceID, d.Model}},
		{"boardIDs", s.boards.has(is.boards), []string{d.BoardID}}, {"serialNumbers", s.serials.has(is.serials), []string{d.SerialNumber}},
		{"pciAddresses", s.buses.has(is.buses), d.PCIAddresses},
	} {
		if !f.is {
			reported := slices.DeleteFunc(slices.Clone(f.has), func(v string) bool { return v == "" })
			out = append(out, Difference{Field: f.name, Has: strings.Join(reported, ", ")})
		}
	}
	return out
}
