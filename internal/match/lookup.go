package match

import (
	"maps"
	"slices"
	"sort"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// bucket is a key to find rules by: class, the list that restricts the rule most, and one value of that list.
type bucket struct {
	class v1alpha1.DeviceClass
	list  byte
	value string
}

func (t *template) chooses(n *node) bool {
	return n.exists && t.compiled != nil && t.compiled.ChoosesLabels(n.labels) &&
		t.compiled.ChoosesMachine(n.vendor, n.model)
}

// mayChoose is chooses for a node whose machine may not be known yet.
func (t *template) mayChoose(n *node) bool {
	return t.chooses(n) || n.exists && !n.machineKnown && t.compiled.ChoosesLabels(n.labels)
}

// refreshNode finds the templates that choose a node, and decides for its devices again.
func (ix *Index) refreshNode(n *node) {
	for _, t := range ix.templates {
		_, was := t.nodes[n]
		if is := t.chooses(n); is != was {
			if is {
				t.nodes[n] = struct{}{}
			} else {
				delete(t.nodes, n)
			}
			ix.affected.templates[t.ref] = struct{}{}
		}
	}
	ix.rebind(n)
	for _, d := range n.devices {
		ix.rematch(d)
		ix.refresh(d)
	}
}

// removeRules takes a template's rules out of the index and returns the devices whose decision may change by that.
func (ix *Index) removeRules(t *template) map[*device]struct{} {
	touched := maps.Clone(ix.byTemplate[t.ref])
	if touched == nil {
		touched = map[*device]struct{}{}
	}
	for name := range t.matched.members {
		touched[ix.devices[name]] = struct{}{}
	}
	for d := range touched {
		of := d.rulesOf(t.ref.Kind)
		*of = slices.DeleteFunc(*of, func(r *Rule) bool { return r.Name == t.ref.Name })
	}
	if t.compiled != nil {
		for _, r := range t.compiled.Rules {
			for _, b := range r.Selector.buckets() {
				ix.rules[b] = slices.DeleteFunc(ix.rules[b], func(o *Rule) bool { return o == r })
				if len(ix.rules[b]) == 0 {
					delete(ix.rules, b)
				}
			}
		}
	}
	return touched
}

// addRules puts a template's rules into the index and adds the devices they match to touched.
func (ix *Index) addRules(t *template, touched map[*device]struct{}) {
	t.nodes = map[*node]struct{}{}
	if t.compiled == nil {
		return
	}
	for _, r := range t.compiled.Rules {
		for _, b := range r.Selector.buckets() {
			ix.rules[b] = append(ix.rules[b], r)
		}
	}
	for _, n := range ix.nodes {
		if !t.chooses(n) {
			continue
		}
		t.nodes[n] = struct{}{}
		for _, d := range n.devices {
			if rules := t.compiled.Match(d.facts); len(rules) > 0 {
				of := d.rulesOf(t.ref.Kind)
				*of = append(*of, rules...)
				slices.SortFunc(*of, byParty)
				touched[d] = struct{}{}
			}
		}
	}
}

// rulesOf are the device's rules of templates of a kind.
func (d *device) rulesOf(kind v1alpha1.OriginKind) *[]*Rule {
	if kind == v1alpha1.OriginConfiguration {
		return &d.settings
	}
	return &d.rules
}

func byParty(a, b *Rule) int { return a.Party.compare(b.Party) }

// buckets are the keys a selector's rule is found by: those of the list that restricts it most.
func (s *Selector) buckets() []bucket {
	for _, l := range []struct {
		list   byte
		values set
	}{{'s', s.serials}, {'p', s.buses}, {'b', s.boards}, {'m', s.models}, {'v', s.vendors}} {
		if l.values != nil {
			out := make([]bucket, 0, len(l.values))
			for v := range l.values {
				out = append(out, bucket{s.class, l.list, v})
			}
			return out
		}
	}
	return []bucket{{class: s.class}}
}

// isForOne reports whether a pin is for one device, so that it takes precedence over pins that are for a kind of device.
func isForOne(p *Rule) bool { return p.Selector.single() }

// Pinned are the pins that count for a device: those that match it, and of these only those for one device where there are some.
func Pinned(pins []*Rule, d Device) []*Rule {
	var out []*Rule
	for _, p := range pins {
		if p.Selector.Matches(d) {
			out = append(out, p)
		}
	}
	if slices.ContainsFunc(out, isForOne) {
		out = slices.DeleteFunc(out, func(p *Rule) bool { return !isForOne(p) })
	}
	return out
}

func (ix *Index) rematch(d *device) {
	d.rules, d.settings, d.pins = nil, nil, Pinned(d.node.pins, d.facts)
	look := func(list byte, values ...string) {
		for _, v := range values {
			for _, r := range ix.rules[bucket{d.facts.Class, list, v}] {
				of := d.rulesOf(r.Kind)
				if _, chosen := ix.templates[r.ref()].nodes[d.node]; chosen && r.Selector.Matches(d.facts) && !slices.Contains(*of, r) {
					*of = append(*of, r)
				}
			}
		}
	}
	is := d.facts.spelling()
	look('s', is.serials...)
	look('p', is.buses...)
	look('b', is.boards...)
	look('m', is.models...)
	look('v', is.vendors...)
	look(0, "")
	slices.SortFunc(d.rules, byParty)
	slices.SortFunc(d.settings, byParty)
}

// MaxDevices bounds the devices of one node. A node that reports more lies or is broken, and must not cost the others the
// operator's memory and time. No machine has a tenth of it.
const MaxDevices = 512

// crowd are the devices of a node that are left out, as they were last seen: the cache holds these objects in any case. The zero
// value is empty.
type crowd struct {
	names   *firsts
	objects map[string]*v1alpha1.NodeDevice
}

// leaveOut leaves a device of a crowded node out until there is room. It returns the name of the node for the first one.
func (ix *Index) leaveOut(n *node, o *v1alpha1.NodeDevice) (crowded string) {
	if before := ix.left[o.Name]; before != n {
		ix.takeIn(o.Name)
	}
	if len(n.left.objects) == 0 {
		n.left, crowded = crowd{newFirsts(MaxDevices), map[string]*v1alpha1.NodeDevice{}}, n.name
	}
	n.left.names.add(o.Name)
	n.left.objects[o.Name], ix.left[o.Name] = o, n
	return crowded
}

// takeIn ends that a device is left out, if it is.
func (ix *Index) takeIn(name string) {
	n := ix.left[name]
	if n == nil {
		return
	}
	n.left.names.remove(name)
	delete(n.left.objects, name)
	delete(ix.left, name)
}

// admit adds those devices of a node that were left out, in order of name, for which there is room now.
func (ix *Index) admit(n *node) {
	for n != nil && len(n.devices) < MaxDevices && len(n.left.objects) > 0 {
		ix.set(nil, n.left.objects[n.left.names.head[0]])
	}
}

// firsts is a set of names that knows its first few members in order. Adding and removing cost the same for any size
// of the set, except for one pass over the set after keep of the first members were removed.
type firsts struct {
	keep    int
	members map[string]struct{}
	// head holds the smallest members in order: all of them, or at least keep and at most 2*keep.
	head []string
}

func newFirsts(keep int) *firsts { return &firsts{keep: keep, members: map[string]struct{}{}} }

func (f *firsts) add(name string) {
	if _, ok := f.members[name]; ok {
		return
	}
	complete := len(f.head) == len(f.members)
	f.members[name] = struct{}{}
	at := sort.SearchStrings(f.head, name)
	if at == len(f.head) && !complete {
		return
	}
	f.head = slices.Insert(f.head, at, name)
	if len(f.head) > 2*f.keep {
		f.head = f.head[:2*f.keep]
	}
}

func (f *firsts) remove(name string) {
	if _, ok := f.members[name]; !ok {
		return
	}
	delete(f.members, name)
	at, ok := slices.BinarySearch(f.head, name)
	if !ok {
		return
	}
	f.head = slices.Delete(f.head, at, at+1)
	if len(f.head) < f.keep && len(f.head) < len(f.members) {
		f.refill()
	}
}

func (f *firsts) refill() {
	all := slices.Sorted(maps.Keys(f.members))
	f.head = slices.Clone(all[:min(len(all), 2*f.keep)])
}

// first returns the first members in order, at most keep.
func (f *firsts) first() []string { return slices.Clone(f.head[:min(len(f.head), f.keep)]) }
