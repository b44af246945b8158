package match

import (
	"slices"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/desired"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
)

// Action says what has to be done to the assignment of a device.
type Action int

// The actions.
const (
	// Keep leaves it as it is.
	Keep Action = iota
	// Assign writes Decision.Firmware and Decision.Configuration.
	Assign
	// Remove takes both away.
	Remove
)

// Decision is what should become of one device.
type Decision struct {
	// UID of the device the decision is about; an object of the same name with another uid is another device.
	UID    string
	Action Action
	// Firmware is spec.firmware and its part of spec.origin once the action is done; nil where none is assigned. It is read-only.
	Firmware *Assigned
	// Configuration is spec.configuration and its part of spec.origin, likewise.
	Configuration *Configured
	// Verdict is what the device needs to run Firmware, by what was last read from it: a device that cannot be read now
	// is judged as it was when it could.
	Verdict plan.Decision
	// Conflict lists every party that claims the device, in order, when there are several for its firmware or for its settings. Nothing
	// changes then: the last assignment stays, also when the object it came from is gone.
	Conflict []Party
	// Blocked says why Firmware cannot be planned at present; nil when it can be, or when there is nothing to plan.
	Blocked *Block
}

// Done reports whether nothing has to be written to the spec of the device, which may be newer than the one the decision was
// made from.
func (d Decision) Done(o *v1alpha1.NodeDevice) bool {
	return d.Action == Keep || sameAssignment(AssignedTo(o), d.Firmware) && sameConfigured(ConfiguredTo(o), d.Configuration)
}

// Block says why an assigned firmware cannot be planned.
type Block struct {
	// Reason is a reason of the condition Blocked. Message is empty where the reason and the fields below say everything.
	Reason, Message string
	// By is the rule or pin that assigns the firmware.
	By Party
	// Source and Version name the image that is at issue, and the others are the facts an image is looked up by.
	Source, Version string
	Class           v1alpha1.DeviceClass
	Model, BoardID  string
}

// hold is a claim on a device that keeps its assignment as it is: the claim of a template that is paused or invalid, or of
// a rule or pin that would match if all facts about the device could be read.
type hold struct {
	Party
	reason string
}

// decide makes the decision about a device. It reports false when there is none to make: the Node does not exist (the
// device goes with it), or the device was not inspected yet.
func (ix *Index) decide(d *device) (Decision, bool) {
	if !d.node.exists || d.facts.Class == "" {
		return Decision{}, false
	}
	if why := d.node.otherMachine; why != "" {
		return Decision{
			Firmware: d.current, Configuration: d.configured, Verdict: plan.Decide(desired.Of(d.current.Desired(), d.node.retry), d.observed.Facts),
			Blocked: &Block{Reason: v1alpha1.ReasonHardwareChanged, Message: why},
		}, true
	}
	out, noImage := ix.assign(d)
	want := desired.Of(out.Firmware.Desired(), d.node.retry)
	out.Verdict = plan.Decide(want, d.observed.Facts)
	if out.Conflict == nil {
		out.Blocked = ix.blocked(d, out, want, noImage)
	}
	return ix.configure(d, ix.holdOff(d, out)), true
}

// assign is the policy: which firmware a device gets, and why that has no image if it has none.
//
//   - Pins beat templates: where a pin matches, rules of templates do not count. Of pins, those for one device beat the others.
//     Pins of another machine, which had the name of the node before, change nothing on any device of the node; decide does not
//     ask then.
//   - A paused template counts like an active one, so that pausing never hands its devices to another template.
//   - A template that is paused or invalid holds what it assigned, even where its rules do not match any more, until
//     it is active and valid again or is deleted.
//   - Missing knowledge removes nothing: while a device cannot be read, or the machine is not known yet, the rule or
//     pin that assigned the firmware still counts unless a known fact contradicts it.
//   - More than one claim is a conflict, and a conflict changes nothing.
func (ix *Index) assign(d *device) (out Decision, noImage *Block) {
	claims, held := ix.claims(d)
	switch {
	case len(claims) > 1 || len(claims) == 1 && held != nil:
		return Decision{Firmware: d.current, Conflict: parties(claims, held)}, nil
	case held != nil:
		return Decision{Firmware: d.current}, ix.heldWithoutImage(d, held.reason)
	case len(claims) == 0:
		return change(d.current, nil), nil
	case ix.paused(claims[0]) && d.assignedBy(claims[0].Kind, claims[0].Name):
		return Decision{Firmware: d.current}, ix.heldWithoutImage(d, v1alpha1.ReasonPaused)
	case ix.paused(claims[0]):
		return change(d.current, nil), nil
	}
	firmware, noImage := ix.firmware(d, claims[0])
	return change(d.current, firmware), noImage
}

// claims lists the rules or pins that match, and the claim that only holds.
func (ix *Index) claims(d *device) ([]*Rule, *hold) {
	held := ix.heldByPin(d)
	switch {
	case held == nil && len(d.pins) == 0:
		return d.rules, ix.heldByTemplate(d, d.current.by(), d.rules)
	case held == nil:
		return d.pins, nil
	case isForOne(held) && !slices.ContainsFunc(d.pins, isForOne):
		return nil, &hold{held.Party, v1alpha1.ReasonReadFailed}
	case !isForOne(held) && slices.ContainsFunc(d.pins, isForOne):
		return d.pins, nil
	}
	return d.pins, &hold{held.Party, v1alpha1.ReasonReadFailed}
}

// heldByPin is the pin that assigned the firmware of a device that cannot be read, where it would match if all facts were
// known.
func (ix *Index) heldByPin(d *device) *Rule {
	by := d.current.by()
	if !d.observed.unread || by.Kind != v1alpha1.OriginPin || by.Name != d.node.name {
		return nil
	}
	for _, p := range d.node.pins {
		if p.Party == by && !p.Selector.Matches(d.facts) && p.Selector.MayMatch(d.facts) {
			return p
		}
	}
	return nil
}

// heldByTemplate is the claim of a template that only holds what its rule by assigned, where that is none of the rules which match now.
func (ix *Index) heldByTemplate(d *device, by Party, rules []*Rule) *hold {
	t := ix.templates[by.ref()] // nil for a pin
	if t == nil {
		return nil
	}
	switch {
	case t.compiled == nil:
		return &hold{by, v1alpha1.ReasonInvalidSpec}
	case t.compiled.Paused:
		if slices.ContainsFunc(rules, func(r *Rule) bool { return r.Name == t.ref.Name }) {
			return nil
		}
		return &hold{by, v1alpha1.ReasonPaused}
	}
	for _, r := range t.compiled.Rules {
		if r.Party == by && !slices.Contains(rules, r) && t.mayChoose(d.node) &&
			(r.Selector.Matches(d.facts) || d.observed.unread && r.Selector.MayMatch(d.facts)) {
			return &hold{by, v1alpha1.ReasonReadFailed}
		}
	}
	return nil
}

func (ix *Index) paused(r *Rule) bool {
	t := ix.templates[r.ref()] // nil for a pin
	return t != nil && t.compiled != nil && t.compiled.Paused
}

// change compares what is assigned with what should be. An edit that changes nothing for the device causes no write, and an origin whose
// content is the same keeps the generation in which it was first so.
func change(current, next *Assigned) Decision {
	switch {
	case next == nil && current == nil:
		return Decision{}
	case next == nil:
		return Decision{Action: Remove}
	case sameAssignment(current, next):
		return Decision{Firmware: current}
	case current != nil:
		for i := range min(len(current.Origin), len(next.Origin)) {
			if sameOrigin(current.Origin[i], next.Origin[i]) {
				next.Origin[i] = current.Origin[i]
			}
		}
	}
	return Decision{Action: Assign, Firmware: next}
}

func (d *device) assignedBy(kind v1alpha1.OriginKind, name string) bool {
	by := d.current.by()
	return by.Kind == kind && by.Name == name
}

func parties(claims []*Rule, held *hold) []Party {
	out := make([]Party, 0, len(claims)+1)
	for _, r := range claims {
		out = append(out, r.Party)
	}
	if held != nil {
		out = append(out, held.Party)
	}
	slices.SortFunc(out, Party.compare)
	return out
}

// sameFindings reports whether two decisions put the same conditions on a device.
func sameFindings(a, b Decision) bool {
	return slices.Equal(a.Conflict, b.Conflict) &&
		(a.Blocked == nil) == (b.Blocked == nil) && (a.Blocked == nil || *a.Blocked == *b.Blocked)
}

// Assigned is what the operator writes into the spec of a device: the firmware that should run, and the objects that it comes
// from.
type Assigned struct {
	v1alpha1.DesiredFirmware
	Origin []v1alpha1.Origin
}

// AssignedTo is what the spec of a device says; nil where nothing is assigned.
func AssignedTo(d *v1alpha1.NodeDevice) *Assigned {
	if d.Spec.Firmware == nil {
		return nil
	}
	return &Assigned{DesiredFirmware: *d.Spec.Firmware, Origin: ofFirmware(d.Spec.Origin)}
}

// Desired is the firmware that should run; nil where nothing is assigned.
func (a *Assigned) Desired() *v1alpha1.DesiredFirmware {
	if a == nil {
		return nil
	}
	return &a.DesiredFirmware
}

// by is the rule or pin that assigned the firmware; the zero Party where nothing is assigned.
func (a *Assigned) by() Party {
	if a == nil {
		return Party{}
	}
	o := v1alpha1.AssignedBy(a.Origin)
	if o == nil {
		return Party{}
	}
	return Party{o.Kind, o.Name, o.Rule}
}

// source is the name of the source of the image; empty where there is none.
func (a *Assigned) source() string {
	if a == nil {
		return ""
	}
	o := v1alpha1.ImageFrom(a.Origin)
	if o == nil {
		return ""
	}
	return o.Name
}

// isOf reports whether the spec of a device says exactly the same.
func (a *Assigned) isOf(o *v1alpha1.NodeDevice) bool {
	if a == nil || o.Spec.Firmware == nil {
		return a == nil && o.Spec.Firmware == nil
	}
	return SameFirmware(a.DesiredFirmware, *o.Spec.Firmware) && slices.Equal(a.Origin, ofFirmware(o.Spec.Origin))
}

// sameAssignment reports whether both mean the same. The generations of the origins do not count: they are those in which the
// content was first so.
func sameAssignment(a, b *Assigned) bool {
	if a == nil || b == nil {
		return a == b
	}
	return SameFirmware(a.DesiredFirmware, b.DesiredFirmware) && slices.EqualFunc(a.Origin, b.Origin, sameOrigin)
}

// SameFirmware reports whether both are the same firmware, by the same way and on the same terms.
func SameFirmware(a, b v1alpha1.DesiredFirmware) bool {
	return SameWish(a, b) && a.Digest == b.Digest && equalPath(a.Path, b.Path)
}

// SameWish is SameFirmware without what follows from the source: the images and the way.
func SameWish(a, b v1alpha1.DesiredFirmware) bool {
	return a.Version == b.Version && a.Policy == b.Policy && a.Downgrade == b.Downgrade
}

func sameOrigin(a, b v1alpha1.Origin) bool {
	a.Generation, b.Generation = 0, 0
	return a == b
}
