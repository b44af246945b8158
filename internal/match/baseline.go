package match

import (
	"cmp"
	"maps"
	"slices"

	"github.com/nodefirmware/node-firmware-operator/internal/baseline"
)

// Unlike are chosen nodes that have one baseline, and not that of most nodes of their machine model.
type Unlike struct {
	Nodes int32
	// Node is the first of them in order of name, and Like the first of those that have the baseline of most.
	Node, Like string
	// Differs says in what; empty where the devices that were seen so far are alike.
	Differs []baseline.Difference
}

// equals are chosen nodes whose machine has one vendor and model, and that have one baseline.
type equals struct {
	machine  [2]string
	baseline string
}

type group struct {
	equals
	nodes int32
	first *node
}

// compareNodes adds to a tally how many baselines there are, and who has another one than most.
func (t *template) compareNodes(out *Tally) {
	all := map[equals]*group{}
	g := &group{} // most nodes are like the one before
	for n := range t.nodes {
		if n.baseline == "" {
			continue
		}
		key := equals{[2]string{n.vendor, n.model}, n.baseline}
		if g.equals != key {
			if g = all[key]; g == nil {
				g = &group{equals: key, first: n}
				all[key] = g
			}
		}
		g.nodes++
		if n.name < g.first.name {
			g.first = n
		}
	}
	groups := slices.SortedFunc(maps.Values(all), func(a, b *group) int { return cmp.Compare(a.first.name, b.first.name) })
	most, baselines := map[[2]string]*group{}, map[[2]string]int32{}
	for _, g := range groups {
		baselines[g.machine]++
		out.Baselines = max(out.Baselines, baselines[g.machine])
		if m := most[g.machine]; m == nil || g.nodes > m.nodes {
			most[g.machine] = g
		}
	}
	t.compared = out.Baselines > 1
	for _, g := range groups {
		usual := most[g.machine]
		if g == usual {
			continue
		}
		out.NodesUnlike += g.nodes
		if len(out.Unlike) < namedDevices {
			out.Unlike = append(out.Unlike, Unlike{
				g.nodes, g.first.name, usual.first.name, baseline.Compare(g.first.contents(), usual.first.contents()),
			})
		}
	}
}

// contents are what counts of the devices of the node.
func (n *node) contents() []baseline.Device {
	var out []baseline.Device
	for _, name := range slices.Sorted(maps.Keys(n.devices)) {
		d := n.devices[name]
		f := d.facts
		out = append(out, baseline.Device{
			Class: f.Class, Model: f.Model, ModelKey: f.spelling().model, Board: f.BoardID, Firmware: string(d.observed.Running), Settings: d.parameters,
		})
	}
	return out
}
