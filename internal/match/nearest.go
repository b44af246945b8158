package match

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

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
