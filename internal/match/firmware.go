package match

import (
	"cmp"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/quarantine"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
)

// Firmware is what a rule or pin assigns to a device. Image finds the image of a version for the device, as Resolve does;
// paths are those of the source. Where the source has no image for the device, or the upgrade paths cannot be
// followed, the firmware has no digest, so that nothing is flashed, and the Block says why. With the reason SourceNotReady
// it has the digest that image found, if any, and no path. None of this depends on what the device runs.
func (r *Rule) Firmware(image func(inventory.Version) (v1alpha1.Digest, string), paths *Paths) (*Assigned, *Block) {
	out := &Assigned{
		DesiredFirmware: v1alpha1.DesiredFirmware{Version: string(r.Version), Policy: r.Policy, Downgrade: r.Downgrade},
		Origin: []v1alpha1.Origin{
			{Kind: r.Kind, Name: r.Name, UID: r.UID, Generation: r.Generation, Rule: r.Rule, Hash: r.Hash},
			{Kind: v1alpha1.OriginSource, Name: r.Source},
		},
	}
	digest, reason := image(r.Version)
	if digest == "" {
		return out, &Block{Reason: reason, Version: string(r.Version)}
	}
	path, wrong := route(r.Version, image, paths)
	if wrong == nil || wrong.Reason == v1alpha1.ReasonSourceNotReady {
		out.Digest, out.Path = digest, path
	}
	return out, wrong
}

func (ix *Index) firmware(d *device, r *Rule) (*Assigned, *Block) {
	var paths *Paths
	if s := ix.sources[r.Source]; s != nil {
		paths = s.paths
	}
	image := func(v inventory.Version) (v1alpha1.Digest, string) { return ix.resolve(d, r.Source, v) }
	out, noImage := r.Firmware(image, paths)
	from := v1alpha1.ImageFrom(out.Origin)
	switch was := v1alpha1.ImageFrom(d.currentOrigin()); {
	case noImage != nil && out.Digest != "": // what is assigned stays until the source is ready
		out.Path, *from = d.current.Path, *was
	case ix.sources[r.Source] != nil:
		s := ix.sources[r.Source].facts
		from.UID, from.Generation = s.uid, s.generation
		if out.Digest != "" {
			from.Hash = v1alpha1.ImageHash(out.Digest)
		}
	}
	return out, noImage
}

func (d *device) currentOrigin() []v1alpha1.Origin {
	if d.current == nil {
		return nil
	}
	return d.current.Origin
}

// heldWithoutImage says why an assignment that is held as it is has no image, if it has none. Otherwise is the reason
// where the source has one.
func (ix *Index) heldWithoutImage(d *device, otherwise string) *Block {
	if d.current == nil {
		return nil
	}
	version := inventory.NormalizeVersion(d.current.Version)
	_, reason := ix.resolve(d, d.current.source(), version)
	return &Block{Reason: cmp.Or(reason, otherwise), Version: string(version)}
}

// resolve finds the digest of the image for a device. With the reason SourceNotReady it is the one that is assigned
// already, if that is for the same version: whether the source will provide it again is not known yet.
func (ix *Index) resolve(d *device, source string, v inventory.Version) (v1alpha1.Digest, string) {
	s := ix.sources[source]
	if s == nil {
		return "", v1alpha1.ReasonSourceNotFound
	}
	digest, reason := Resolve(s.images[v], d.facts, v)
	if s.facts.ready {
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

// assigned is the image of a source that the device's assignment uses for a version: the desired one, or a hop.
func (d *device) assigned(source string, v inventory.Version) v1alpha1.Digest {
	c := d.current
	if c == nil || c.source() != source {
		return ""
	}
	if c.Version == string(v) {
		return c.Digest
	}
	for _, step := range c.Path {
		if step.Via == string(v) {
			return step.Digest
		}
	}
	return ""
}

// blocked says why the decided firmware cannot be planned; nil when it can be, or when there is nothing to plan. An update
// that failed before, and a device that cannot be read now, are not blocked: the device's own conditions say so.
func (ix *Index) blocked(d *device, decided Decision, want plan.Desired, noImage *Block) *Block {
	f, verdict := decided.Firmware, decided.Verdict
	out := Block{Reason: string(verdict.Reason), Message: verdict.Message}
	switch verdict.Reason {
	case plan.ReasonNotUpdatable, plan.ReasonDowngradeForbidden, plan.ReasonPowerCycleRequired, plan.ReasonPathBlocked,
		plan.ReasonDeviceUnhealthy:
	case plan.ReasonImageNotFound:
		out.Message = ""
		if noImage != nil {
			out = *noImage
		}
	default:
		if !verdict.Outcome.Due() {
			return nil
		}
		if out = ix.unusable(d, f, way(want, d.observed.Running, d.observed.Format), noImage); out.Reason == "" {
			return nil
		}
	}
	out.By = f.by()
	out.Source, out.Version = f.source(), cmp.Or(out.Version, f.Version)
	out.Class, out.Model, out.BoardID = d.facts.Class, d.facts.Model, d.facts.BoardID
	return &out
}

// unusable says why the images of an update that is due must not be used now; the zero Block when they may be.
func (ix *Index) unusable(d *device, f *Assigned, way []plan.Image, noImage *Block) Block {
	name := f.source()
	for _, step := range way {
		if q, bad := ix.bad.Blocks(v1alpha1.Digest(step.Digest.String()), d.facts.spelling().model, ix.pools.Of(d.node.labels)); bad {
			return Block{Reason: v1alpha1.ReasonQuarantined, Version: string(step.Version), Message: quarantined(string(step.Version), &q)}
		}
	}
	if noImage != nil && noImage.Reason == v1alpha1.ReasonSourceNotReady {
		return Block{Reason: noImage.Reason}
	}
	for _, step := range way {
		if _, reason := ix.resolve(d, name, step.Version); reason == v1alpha1.ReasonSourceNotReady {
			return Block{Reason: reason}
		}
	}
	return Block{}
}

// way lists what would be flashed one after the other over the running version, the desired version last.
func way(want plan.Desired, running inventory.Version, format inventory.VersionFormat) []plan.Image {
	var out []plan.Image
	for range len(want.Path) + 1 {
		next, err := want.Path.Next(plan.Image{Version: want.Version, Digest: want.Digest}, running, format)
		if err != nil { // what comes first may be flashed, and nothing after it
			break
		}
		out = append(out, next)
		if next.Version == want.Version {
			break
		}
		running = next.Version
	}
	return out
}

func quarantined(version string, q *v1alpha1.FirmwareQuarantine) string {
	return fmt.Sprintf("version %s is quarantined for model %s: %s. Select another version, or lift the quarantine: %s",
		version, q.Spec.Model, quarantine.Why(q), quarantine.Lift(q))
}

type source struct {
	facts  sourceFacts
	images map[inventory.Version][]Image
	paths  *Paths
}

// sourceFacts is the part of a FirmwareSource that decisions depend on or name.
type sourceFacts struct {
	uid        string
	generation int64
	ready      bool
	stored     []v1alpha1.StoredImage
	paths      []v1alpha1.UpgradePath
}

func sourceFactsOf(o *v1alpha1.FirmwareSource) sourceFacts {
	return sourceFacts{
		uid: string(o.UID), generation: o.Generation,
		ready: meta.IsStatusConditionTrue(o.Status.Conditions, v1alpha1.ConditionReady) &&
			o.Status.ObservedGeneration == o.Generation,
		stored: o.Status.Images, paths: o.Spec.UpgradePaths,
	}
}

func compileSource(o *v1alpha1.FirmwareSource) *source {
	out := &source{facts: sourceFactsOf(o), images: map[inventory.Version][]Image{}, paths: SourcePaths(o)}
	for _, i := range o.Status.Images {
		c := NewImage(i)
		out.images[c.version] = append(out.images[c.version], c)
	}
	return out
}

func (s *source) same(o *v1alpha1.FirmwareSource) bool {
	return reflect.DeepEqual(s.facts, sourceFactsOf(o))
}

// SourcePaths compiles the upgrade paths of a source.
func SourcePaths(o *v1alpha1.FirmwareSource) *Paths {
	return NewPaths(o.Spec.UpgradePaths, fmt.Sprintf("FirmwareSource %q", o.Name))
}

// Image is a compiled description of an image in a FirmwareSource.
type Image struct {
	Digest   v1alpha1.Digest
	version  inventory.Version
	selector *Selector
}

// NewImage compiles the description of a stored image.
func NewImage(i v1alpha1.StoredImage) Image {
	return Image{
		Digest: i.Digest, version: inventory.NormalizeVersion(i.Version),
		selector: NewSelector(v1alpha1.DeviceSelector{
			Class: i.Class, Vendor: i.Vendor, Models: i.Models, BoardIDs: i.BoardIDs,
		}),
	}
}

// For reports whether the image brings the device to the version.
func (i Image) For(d Device, v inventory.Version) bool {
	return i.version == v && i.selector.Matches(d)
}

// Resolve finds the image that brings the device to the version. When there is none, or several with different content, the
// digest is empty and the reason is ImageNotFound or ImageAmbiguous.
func Resolve(images []Image, d Device, v inventory.Version) (digest v1alpha1.Digest, reason string) {
	for _, i := range images {
		if !i.For(d, v) || i.Digest == digest {
			continue
		}
		if digest != "" {
			return "", v1alpha1.ReasonImageAmbiguous
		}
		digest = i.Digest
	}
	if digest == "" {
		return "", v1alpha1.ReasonImageNotFound
	}
	return digest, ""
}
