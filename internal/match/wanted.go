package match

import (
	"fmt"
	"slices"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
)

// wanted is the firmware a rule assigns to a device. It has no digest, so that nothing is flashed, where there is an
// obstacle: the source has no image for the device, or the way to the version cannot be followed. None of this depends on
// what runs.
func (ix *Index) wanted(d *device, r *Rule) (*v1alpha1.DesiredFirmware, *Obstacle) {
	out := &v1alpha1.DesiredFirmware{
		Version: string(r.Version), SourceRef: v1alpha1.SourceReference{Name: r.Source}, UpdatePolicy: r.Policy, Downgrade: r.Downgrade,
		Origin: v1alpha1.Origin{Kind: r.Kind, Name: r.Name, UID: r.UID, Generation: &r.Generation, Rule: r.Rule},
	}
	digest, reason := ix.resolve(d, r.Source, r.Version)
	s := ix.sources[r.Source]
	if s != nil {
		out.Downgrade = EffectiveDowngrade(r.Downgrade, s.said.downgrade)
	}
	if s == nil || digest == "" {
		return out, &Obstacle{Reason: reason, Version: r.Version}
	}
	path, o := Route(r.Version, func(v inventory.Version) (v1alpha1.Digest, string) { return ix.resolve(d, r.Source, v) }, r.Paths, s.paths)
	switch {
	case o == nil:
		out.Digest, out.Path = digest, path
	case o.Reason == v1alpha1.ReasonSourceNotReady: // what is assigned stays until the source is
		out.Digest, out.Path = digest, d.current.Path
	}
	return out, o
}

// standing is what keeps an assignment without a digest that is held as it is. Otherwise is the reason when the source
// could give one.
func (ix *Index) standing(d *device, otherwise string) *Obstacle {
	if d.current == nil {
		return nil
	}
	version := inventory.NormalizeVersion(d.current.Version)
	_, reason := ix.resolve(d, d.current.SourceRef.Name, version)
	return &Obstacle{Reason: orDefault(reason, otherwise), Version: version}
}

// resolve finds the digest of the image for a device. With the reason SourceNotReady it is the one that is assigned
// already, if that is for the same version: whether it will be given again is not known yet.
func (ix *Index) resolve(d *device, source string, v inventory.Version) (v1alpha1.Digest, string) {
	s := ix.sources[source]
	if s == nil {
		return "", v1alpha1.ReasonSourceNotFound
	}
	digest, reason := Resolve(s.images[v], d.facts, v)
	if s.said.ready {
		return digest, reason
	}
	// Nothing new is taken from a source that is not ready. What it verified before and still lists stays in use, so
	// that an edit of the source costs the devices nothing.
	assigned := d.assigned(source, v)
	if digest != "" && assigned == digest {
		return digest, ""
	}
	return assigned, v1alpha1.ReasonSourceNotReady
}

// assigned is the image of a source that the device's assignment uses for a version: the wanted one, or one on the way.
func (d *device) assigned(source string, v inventory.Version) v1alpha1.Digest {
	c := d.current
	if c == nil || c.SourceRef.Name != source {
		return ""
	}
	if c.Version == string(v) {
		return c.Digest
	}
	if c.Path != nil {
		for _, h := range c.Path.Hops {
			if h.Version == string(v) {
				return h.Digest
			}
		}
	}
	return ""
}

// blocked finds what keeps the firmware from being planned; nil when nothing does or nothing is to be planned. What
// failed before, and what cannot be read now, is not blocked: its state says so already.
func (ix *Index) blocked(d *device, f *v1alpha1.DesiredFirmware, o *Obstacle) *Block {
	facts := d.observed.Facts
	facts.Unreadable = ""
	wish := Wish(f, d.node.retry)
	p := plan.Decide(wish, facts)
	out := Block{Reason: string(p.Reason), Message: p.Message}
	switch p.Reason {
	case plan.ReasonNotUpdatable, plan.ReasonDowngradeForbidden, plan.ReasonPowerCycleRequired, plan.ReasonEdgeBlocked,
		plan.ReasonBelowMinimumVersion, plan.ReasonDeviceUnhealthy:
	case plan.ReasonImageNotFound:
		out.Message = ""
		if o != nil {
			out.Reason, out.Message, out.Version = o.Reason, o.Message, string(o.Version)
		}
	default:
		if !p.Outcome.Due() {
			return nil
		}
		if out = ix.withheld(d, f, way(wish, facts.Running), o); out.Reason == "" {
			return nil
		}
	}
	out.By = Party{f.Origin.Kind, f.Origin.Name, f.Origin.Rule}
	out.Source, out.Version = f.SourceRef.Name, orDefault(out.Version, f.Version)
	out.Class, out.Model, out.BoardID = d.facts.Class, d.facts.Model, d.facts.BoardID
	return &out
}

// withheld says why the images of an update that is due must not be used; the zero Block when they may.
func (ix *Index) withheld(d *device, f *v1alpha1.DesiredFirmware, way []plan.Hop, o *Obstacle) Block {
	name := f.SourceRef.Name
	for _, step := range way {
		if s := ix.sources[name]; s != nil {
			if e, bad := s.bad.Blocks(v1alpha1.Digest(step.Digest.String()), modelOf(d.facts)); bad {
				return Block{Reason: v1alpha1.ReasonQuarantined, Version: string(step.Version), Message: quarantined(name, e)}
			}
		}
	}
	if o != nil && o.Reason == v1alpha1.ReasonSourceNotReady {
		return Block{Reason: o.Reason}
	}
	for _, step := range way {
		if _, reason := ix.resolve(d, name, step.Version); reason == v1alpha1.ReasonSourceNotReady {
			return Block{Reason: reason}
		}
	}
	return Block{}
}

// way lists what would be flashed one after the other over the running version, the wanted version last.
func way(w plan.Wish, running inventory.Version) []plan.Hop {
	var out []plan.Hop
	for len(out) < len(w.Hops) {
		at := slices.IndexFunc(w.Hops, func(h plan.Hop) bool { return slices.Contains(h.From, running) })
		if at < 0 {
			break
		}
		out = append(out, w.Hops[at])
		running = w.Hops[at].Version
	}
	return append(out, plan.Hop{Version: w.Version, Digest: w.Digest, Path: w.Path})
}

func modelOf(d Device) string { return v1alpha1.ModelKey(d.VendorID, d.DeviceID, d.Vendor, d.Model) }

func quarantined(source string, e v1alpha1.QuarantinedImage) string {
	cause := ""
	if e.Message != "" {
		cause = ": " + e.Message
	}
	return fmt.Sprintf("version %s is quarantined for model %s: on node %s, job %s left a device or the node unhealthy%s. "+
		"Wish for another version, or set liftQuarantineRequestedAt on FirmwareSource %q to flash it again",
		e.Version, e.Model, e.NodeName, e.Job, cause, source)
}
