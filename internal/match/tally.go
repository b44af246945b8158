package match

import (
	"slices"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
)

const (
	// listedDevices bounds status.assignedDevices of a template.
	listedDevices = 50
	// namedDevices bounds the devices a message names.
	namedDevices = 3
)

// Tally counts the devices of one template by what the index knows of them.
type Tally struct {
	// Kind of the template.
	Kind       v1alpha1.OriginKind
	UID        string
	Generation int64
	Paused     bool
	// Invalid says which field of the spec is invalid, and why; empty when none is.
	Invalid string

	// Nodes chosen by label and machine model.
	Nodes int32
	// NodesApplied are those of Nodes on which each device of Applied and NotApplied is of Applied, and NodesNotApplied
	// those with a device of NotApplied. The others have neither.
	NodesApplied, NodesNotApplied int32
	// Baselines are the different ones of the nodes of one machine model, of that with the most. NodesUnlike have not that of most nodes of
	// their model, and Unlike are the first of them.
	Baselines, NodesUnlike int32
	Unlike                 []Unlike
	Counts
	// Devices are the first 50 of Applied and NotApplied in order of name, without those withheld.
	Devices []string
	// Nearest is what comes nearest to a match where nothing matches; nil where something does, and where no chosen node has a
	// device of the class of a rule.
	Nearest *Near
	// Conflicts, Blocks, Failures and Restores name the first 3 devices of Conflicting, Blocked, Failed and Restored, in order of name.
	Conflicts          []ConflictOn
	Blocks             []BlockOn
	Failures, Restores []FailureOn
}

// FailureOn names a device whose last update failed, or was undone by a restore, and its node.
type FailureOn struct{ Device, Node string }

// ConflictOn names a device and all parties that claim it.
type ConflictOn struct {
	Device  string
	Parties []Party
}

// BlockOn names a device and what blocks it.
type BlockOn struct {
	Device string
	Block
}

// Counts are numbers of devices.
type Counts struct {
	// Matched by a rule of the template, whatever came of it.
	Matched int32
	// Applied and NotApplied together are the devices that the template decides for; but for those withheld, its firmware is in effect
	// there.
	Applied, NotApplied int32
	// Updating, Blocked, Failed, Restored, Pending and Mismatched say why it is not applied; a device counts once. Mismatched
	// devices are only validated. Updating devices may be of Applied: they run the firmware, and the job has not judged them yet.
	Updating, Blocked, Failed, Restored, Pending, Mismatched int32
	// Waiting are those of Blocked whose source is being prepared, and Withheld those of it that the template has not assigned, because a
	// pin that matches nothing may mean them.
	Waiting, Withheld int32
	// Conflicting devices are claimed by several parties, this template among them.
	Conflicting int32
	// Unassigned devices match, but the template is paused and had not assigned them before.
	Unassigned int32
}

// mark is what one device contributes to the counts of one template.
type mark uint16

const (
	matched mark = 1 << iota
	applied
	notApplied
	updating
	blocked
	failed
	restored
	pending
	mismatched
	waiting
	withheld
	conflicting
	unassigned
)

// contribution is what a device adds to the tally of a template.
type contribution struct {
	t    *template
	mark mark
}

// contributions are those of a device to all templates that match it or hold its assignment.
func (ix *Index) contributions(d *device) []contribution {
	if !d.known {
		return nil
	}
	var out []contribution
	add := func(t *template) {
		if !slices.ContainsFunc(out, func(c contribution) bool { return c.t == t }) {
			out = append(out, contribution{t, d.markFor(t)})
		}
	}
	for _, rules := range [][]*Rule{d.rules, d.settings} {
		for _, r := range rules {
			add(ix.templates[r.ref()])
		}
	}
	for _, held := range []*hold{ix.heldByTemplate(d, d.current.by(), d.rules), ix.heldByTemplate(d, d.configured.by(), d.settings)} {
		if held != nil {
			add(ix.templates[held.ref()])
		}
	}
	return out
}

func (d *device) markFor(t *template) mark {
	m := matched
	conflict := slices.ContainsFunc(d.decision.Conflict, func(p Party) bool { return p.ref() == t.ref })
	if conflict {
		m |= conflicting
	}
	if t.ref.Kind == v1alpha1.OriginConfiguration {
		return m | d.settingsMark(t, conflict)
	}
	switch f := d.decision.Firmware; {
	case templateOf(f) == t.ref:
	case d.decision.heldOff():
		m |= withheld
	case f == nil && d.decision.Conflict == nil:
		return m | unassigned
	default:
		return m
	}
	verdict := d.decision.Verdict
	if verdict.Outcome == plan.UpToDate && !d.observed.unread && !d.decision.heldOff() {
		if d.observed.updating {
			m |= updating
		}
		return m | applied
	}
	m |= notApplied
	b := d.decision.Blocked
	if d.decision.blocksSettings() {
		b = nil
	}
	switch {
	case d.observed.updating:
		m |= updating
	case conflict:
	case b != nil && b.Reason == v1alpha1.ReasonSourceNotReady:
		m |= blocked | waiting
	case b != nil:
		m |= blocked
	case d.observed.unread: // what it runs now is not known
		m |= pending
	case verdict.Outcome == plan.Differs:
		m |= mismatched
	case verdict.Reason == plan.ReasonUpdateFailed:
		m |= failed
	case verdict.Reason == plan.ReasonRestored:
		m |= restored
	default:
		m |= pending
	}
	return m
}

// count adds n times the mark of a device to the template's tally.
func (t *template) count(d *device, m mark, n int32) {
	for _, c := range []struct {
		mark mark
		sum  *int32
	}{
		{matched, &t.counts.Matched}, {applied, &t.counts.Applied}, {notApplied, &t.counts.NotApplied},
		{updating, &t.counts.Updating}, {blocked, &t.counts.Blocked}, {failed, &t.counts.Failed}, {restored, &t.counts.Restored},
		{pending, &t.counts.Pending}, {mismatched, &t.counts.Mismatched}, {waiting, &t.counts.Waiting},
		{withheld, &t.counts.Withheld}, {conflicting, &t.counts.Conflicting}, {unassigned, &t.counts.Unassigned},
	} {
		if m&c.mark != 0 {
			*c.sum += n
		}
	}
	t.countNode(d.node, m, n)
	for _, c := range []struct {
		is    bool
		names *firsts
	}{
		{m&matched != 0, t.matched}, {m&(applied|notApplied) != 0 && m&withheld == 0, t.assigned},
		{m&conflicting != 0, t.conflicting}, {m&blocked != 0, t.blocked}, {m&failed != 0, t.failed},
		{m&restored != 0, t.restored},
	} {
		switch {
		case !c.is:
		case n > 0:
			c.names.add(d.name)
		default:
			c.names.remove(d.name)
		}
	}
}

func (t *template) countNode(on *node, m mark, n int32) {
	c := t.perNode[on]
	if m&applied != 0 {
		c.applied += n
	}
	if m&notApplied != 0 {
		c.notApplied += n
	}
	if c == (inEffect{}) {
		delete(t.perNode, on)
		return
	}
	t.perNode[on] = c
}

// Tally returns the tally of a template; false when there is no such template.
func (ix *Index) Tally(ref Ref) (Tally, bool) {
	t := ix.templates[ref]
	if t == nil {
		return Tally{}, false
	}
	out := Tally{
		Kind: t.ref.Kind, UID: t.uid, Generation: t.generation, Invalid: t.invalid, Paused: t.compiled != nil && t.compiled.Paused,
		Nodes: int32(len(t.nodes)), Counts: t.counts, Devices: t.assigned.first(),
	}
	for n := range t.nodes {
		switch c := t.perNode[n]; {
		case c.notApplied > 0:
			out.NodesNotApplied++
		case c.applied > 0:
			out.NodesApplied++
		}
	}
	t.compareNodes(&out)
	if t.counts.Matched == 0 {
		out.Nearest = t.nearest()
	}
	for _, d := range t.conflicting.first() {
		out.Conflicts = append(out.Conflicts, ConflictOn{d, ix.devices[d].decision.Conflict})
	}
	for _, d := range t.failed.first() {
		out.Failures = append(out.Failures, FailureOn{d, ix.devices[d].node.name})
	}
	for _, d := range t.restored.first() {
		out.Restores = append(out.Restores, FailureOn{d, ix.devices[d].node.name})
	}
	for _, d := range t.blocked.first() {
		out.Blocks = append(out.Blocks, BlockOn{d, ix.devices[d].block(t)})
	}
	return out, true
}
