package simhost

import (
	"fmt"
	"strconv"
	"strings"
)

// nvParameter is a setting of a card: what its firmware and the tool know of it.
type nvParameter struct {
	name string
	// values are the texts of the values by number; nil for a plain number.
	values []string
	// lowest is the number of the first of them.
	lowest   int
	standard int
	// most is the largest number the card takes.
	most int
	// since is the first version that knows it; empty for all.
	since string
	// elements is the length of an array; 0 for no array.
	elements int
}

// linkType is the setting that says what a port speaks; ethernet is the larger of its numbers.
func linkType(port int) string { return fmt.Sprintf("LINK_TYPE_P%d", port+1) }

const ethernet = 2

var nvSwitch = []string{"False", "True"}

// nvParameters are those that the running firmware of the card knows, as the tool lists them.
func (n NIC) nvParameters(fw *nicState) []nvParameter {
	all := []nvParameter{
		{name: "PCI_ATOMIC_MODE", values: []string{"PCI_ATOMIC_DISABLED_EXT_ATOMIC_ENABLED", "PCI_ATOMICS_ENABLED_EXT_ATOMICS_DISABLED"}, most: 1},
		{name: "NUM_OF_VFS", most: 127},
		{name: "SRIOV_EN", values: nvSwitch, most: 1},
		{name: "ROCE_ADAPTIVE_ROUTING_EN", values: nvSwitch, most: 1, standard: 1, since: "30.41.0"},
		{name: "HOST_CHAINING_DESCRIPTORS", standard: 9, most: 15, elements: 8},
	}
	for port := range n.Ports {
		all = append(all, nvParameter{name: linkType(port), values: []string{"IB", "ETH"}, lowest: 1, standard: ethernet, most: ethernet})
	}
	var known []nvParameter
	for _, p := range all {
		if p.since == "" || compareDotted(fw.Running.Version, p.since) >= 0 {
			known = append(known, p)
		}
	}
	return known
}

// takes reads a value as the tool does: a number, or a text in any case.
func (p nvParameter) takes(value string) (number int, ok bool) {
	if n, err := strconv.ParseUint(value, 0, 32); err == nil {
		return int(n), p.values == nil || int(n) >= p.lowest && int(n) < p.lowest+len(p.values)
	}
	for i, text := range p.values {
		if strings.EqualFold(text, value) {
			return p.lowest + i, true
		}
	}
	return 0, false
}

// shows is a value as the tool prints it.
func (p nvParameter) shows(n int) string {
	if p.values == nil {
		return strconv.Itoa(n)
	}
	return fmt.Sprintf("%s(%d)", p.values[n-p.lowest], n)
}

// nvValue is what the card keeps of a setting that has not its default.
type nvValue struct{ Current, Next int }

// nv is the value of a setting, or of an element of an array.
func (n *nicState) nv(name string, standard int) nvValue {
	if v, ok := n.NV[name]; ok {
		return v
	}
	return nvValue{standard, standard}
}

// store keeps values for the next reset.
func (n *nicState) store(values map[string]nvValue) {
	if n.NV == nil {
		n.NV = map[string]nvValue{}
	}
	for name, v := range values {
		n.NV[name] = v
	}
}

// loadNV puts the stored settings into force.
func (n *nicState) loadNV() {
	for name, v := range n.NV {
		n.NV[name] = nvValue{v.Next, v.Next}
	}
}
