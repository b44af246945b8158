package match

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/desired"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
)

// Configured is what the operator writes into the spec of a device: the settings that should be in force, and the template that they
// come from.
type Configured struct {
	v1alpha1.DesiredConfiguration
	Origin v1alpha1.Origin

	digest v1alpha1.Digest
}

// ConfiguredTo is what the spec of a device says; nil where no settings are assigned.
func ConfiguredTo(d *v1alpha1.NodeDevice) *Configured {
	c := d.Spec.Configuration
	if c == nil {
		return nil
	}
	out := &Configured{DesiredConfiguration: *c, digest: c.Digest()}
	if o := v1alpha1.ConfiguredBy(d.Spec.Origin); o != nil {
		out.Origin = *o
	}
	return out
}

// Desired are the settings that should be in force; nil where none are assigned.
func (c *Configured) Desired() *v1alpha1.DesiredConfiguration {
	if c == nil {
		return nil
	}
	return &c.DesiredConfiguration
}

// by is the rule that assigned the settings; the zero Party where none are assigned.
func (c *Configured) by() Party {
	if c == nil {
		return Party{}
	}
	return Party{c.Origin.Kind, c.Origin.Name, c.Origin.Rule}
}

func (c *Configured) digestOf() v1alpha1.Digest {
	if c == nil {
		return ""
	}
	return c.digest
}

// isOf reports whether the spec of a device says exactly the same.
func (c *Configured) isOf(o *v1alpha1.NodeDevice) bool {
	if c == nil || o.Spec.Configuration == nil {
		return c == nil && o.Spec.Configuration == nil
	}
	by := v1alpha1.ConfiguredBy(o.Spec.Origin)
	return by != nil && *by == c.Origin && equality.Semantic.DeepEqual(c.DesiredConfiguration, *o.Spec.Configuration)
}

// sameConfigured reports whether both mean the same, as sameAssignment does for firmware.
func sameConfigured(a, b *Configured) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.digest == b.digest && a.Policy == b.Policy && sameOrigin(a.Origin, b.Origin)
}

// ofFirmware is the part of an origin that is of firmware: the template of settings comes last.
func ofFirmware(origin []v1alpha1.Origin) []v1alpha1.Origin {
	if n := len(origin) - 1; n >= 0 && origin[n].Kind == v1alpha1.OriginConfiguration {
		return origin[:n:n]
	}
	return origin
}

// Origin is spec.origin of the device once the decision is written.
func (d Decision) Origin() []v1alpha1.Origin {
	var out []v1alpha1.Origin
	if d.Firmware != nil {
		out = slices.Clone(d.Firmware.Origin)
	}
	if d.Configuration != nil {
		out = append(out, d.Configuration.Origin)
	}
	return out
}

// configure adds to the decision about the firmware of a device which settings it gets. The policy is that of assign, but that pins have no
// settings. A conflict about either changes neither.
func (ix *Index) configure(d *device, out Decision) Decision {
	if len(d.settings) == 0 && d.configured == nil { // as good as always
		return out
	}
	next, claims := d.configured, d.settings
	held := ix.heldByTemplate(d, d.configured.by(), d.settings)
	switch {
	case len(claims) > 1 || len(claims) == 1 && held != nil:
		if out.Conflict == nil {
			out = Decision{Firmware: d.current, Verdict: plan.Decide(desired.Of(d.current.Desired(), d.node.retry), d.observed.Facts)}
		}
		out.Conflict = append(slices.Clone(out.Conflict), parties(claims, held)...)
		slices.SortFunc(out.Conflict, Party.compare)
	case out.Conflict != nil, held != nil:
	case len(claims) == 0, ix.paused(claims[0]) && d.configured.by().ref() != claims[0].ref():
		next = nil
	case !ix.paused(claims[0]):
		next = claims[0].configured()
	}
	if sameConfigured(d.configured, next) {
		out.Configuration = d.configured
		return ix.blockSettings(d, out)
	}
	out.Configuration, out.Action = next, Assign
	switch {
	case next == nil && out.Firmware == nil:
		out.Action = Remove
	case next != nil && d.configured != nil && sameOrigin(next.Origin, d.configured.Origin):
		next.Origin = d.configured.Origin // of the generation in which it was first so
	}
	return ix.blockSettings(d, out)
}

// configured is what the rule assigns.
func (r *Rule) configured() *Configured {
	return &Configured{
		DesiredConfiguration: *r.Configuration, digest: r.Digest,
		Origin: v1alpha1.Origin{Kind: r.Kind, Name: r.Name, UID: r.UID, Generation: r.Generation, Rule: r.Rule, Hash: r.Hash},
	}
}

// blockSettings says that settings are quarantined, where they are what the device needs now.
func (ix *Index) blockSettings(d *device, out Decision) Decision {
	if out.Blocked != nil || out.Conflict != nil || out.Verdict.Outcome.Due() || d.standing(out.Configuration) != desired.SettingsDue {
		return out
	}
	q, bad := ix.bad.Blocks(out.Configuration.digest, d.facts.spelling().model, ix.pools.Of(d.node.labels))
	if !bad {
		return out
	}
	version := v1alpha1.SettingsVersion(out.Configuration.digest)
	out.Blocked = &Block{
		Reason: v1alpha1.ReasonQuarantined, Message: quarantined(version, &q), By: out.Configuration.by(), Version: version,
		Class: d.facts.Class, Model: d.facts.Model, BoardID: d.facts.BoardID,
	}
	return out
}

// standing is how far the device has the settings.
func (d *device) standing(c *Configured) desired.Standing {
	if d.observed.Unhealthy && !d.node.retry.Clears(d.observed.UnhealthyUnder) && c != nil {
		return desired.SettingsFailed
	}
	return desired.StandingOf(c.Desired(), c.digestOf(), d.observed.settings, d.node.retry)
}

// settingsMark is what the device contributes to the counts of a template of settings, but for whether it matches and conflicts.
func (d *device) settingsMark(t *template, conflict bool) (m mark) {
	switch c := d.decision.Configuration; {
	case c.by().ref() == t.ref:
	case c == nil && d.decision.Conflict == nil:
		return unassigned
	default:
		return 0
	}
	is := d.standing(d.decision.Configuration)
	if is == desired.SettingsInForce && !d.observed.unread {
		if d.observed.updating {
			m |= updating
		}
		return m | applied
	}
	m |= notApplied
	switch {
	case d.observed.updating:
		m |= updating
	case conflict:
	case d.observed.unread:
		m |= pending
	case is == desired.SettingsInvalid, d.decision.blocksSettings():
		m |= blocked
	case is == desired.SettingsDiffer:
		m |= mismatched
	case is == desired.SettingsFailed:
		m |= failed
	default:
		m |= pending
	}
	return m
}

// blocksSettings reports whether what blocks the device are its settings.
func (d Decision) blocksSettings() bool {
	return d.Blocked != nil && d.Blocked.By.Kind == v1alpha1.OriginConfiguration
}

// block says what blocks the device for a template.
func (d *device) block(t *template) Block {
	if t.ref.Kind == v1alpha1.OriginConfiguration && !d.decision.blocksSettings() {
		return Block{Reason: v1alpha1.ReasonParameterInvalid, By: d.decision.Configuration.by()}
	}
	return *d.decision.Blocked
}
