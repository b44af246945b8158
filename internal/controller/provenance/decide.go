package provenance

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/match"
)

// maxListed bounds the list in the status, as the API does.
const maxListed = 64

// facts about one node. The objects belong to the cache and must not be changed.
type facts struct {
	// firmware is nil when there is none.
	firmware *v1alpha1.NodeFirmware
	devices  []v1alpha1.NodeDevice
	// objects are those that the devices recorded and that exist.
	objects map[id]object
	now     time.Time
}

// decide lists, in order, what the firmware and the settings of the node's devices came from and what is not as it was: the object has another uid or
// is gone, or the part of it that matters has another content. An edit that changes no content makes nothing obsolete.
func decide(f facts) []v1alpha1.ObsoleteReference {
	if f.firmware == nil {
		return nil
	}
	all := map[v1alpha1.ObsoleteReference]struct{}{}
	for i := range f.devices {
		for _, r := range f.obsoleteOf(&f.devices[i]) {
			all[r] = struct{}{}
		}
	}
	return slices.SortedFunc(maps.Keys(all), func(a, b v1alpha1.ObsoleteReference) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Reason, b.Reason))
	})
}

// obsoleteOf looks at firmware and settings apart: what is desired of one may come from elsewhere while the other is as it was.
func (f facts) obsoleteOf(d *v1alpha1.NodeDevice) []v1alpha1.ObsoleteReference {
	if d.Status.Applied == nil {
		return nil
	}
	var out []v1alpha1.ObsoleteReference
	isOld := map[bool]bool{}
	for _, o := range d.Status.Applied.Origin {
		if reason := f.changed(o); reason != "" {
			isOld[isOfSettings(o)] = true
			out = append(out, reference(o, reason))
		}
	}
	for _, was := range []*v1alpha1.Origin{supersededBy(d), reconfiguredBy(d)} {
		if was != nil && !isOld[isOfSettings(*was)] {
			out = append(out, reference(*was, v1alpha1.ObsoleteSuperseded))
		}
	}
	return out
}

func isOfSettings(o v1alpha1.Origin) bool { return o.Kind == v1alpha1.OriginConfiguration }

func reference(o v1alpha1.Origin, reason v1alpha1.ObsoleteReason) v1alpha1.ObsoleteReference {
	return v1alpha1.ObsoleteReference{Kind: o.Kind, Name: o.Name, Rule: o.Rule, Reason: reason}
}

// changed says what became of an object since the firmware or the settings of a device came from it; empty when it is as it was.
func (f facts) changed(o v1alpha1.Origin) v1alpha1.ObsoleteReason {
	if o.UID == "" { // there was no source of that name
		return ""
	}
	now, exists := f.objects[id{o.Kind, o.Name}]
	switch {
	case !exists:
		return v1alpha1.ObsoleteDeleted
	case now.uid != o.UID:
		return v1alpha1.ObsoleteRecreated
	}
	if o.Kind == v1alpha1.OriginSource {
		if now.holds(o.Hash) {
			return ""
		}
		return v1alpha1.ObsoleteUpdated
	}
	switch hash, has := now.hashes[o.Rule]; {
	case !has:
		return v1alpha1.ObsoleteDeleted
	case hash != o.Hash:
		return v1alpha1.ObsoleteUpdated
	}
	return ""
}

// supersededBy is what the firmware of a device came from, where another template or pin assigns another image now; nil otherwise.
func supersededBy(d *v1alpha1.NodeDevice) *v1alpha1.Origin {
	now, was := v1alpha1.AssignedBy(d.Spec.Origin), v1alpha1.AssignedBy(d.Status.Applied.Origin)
	w := d.Spec.Firmware
	if now == nil || was == nil || w == nil || w.Digest == "" || w.Digest == d.Status.Applied.Digest || isSame(now, was) {
		return nil
	}
	return was
}

// reconfiguredBy is what the settings of a device came from, where another template assigns other settings now; nil otherwise.
func reconfiguredBy(d *v1alpha1.NodeDevice) *v1alpha1.Origin {
	now, was := v1alpha1.ConfiguredBy(d.Spec.Origin), v1alpha1.ConfiguredBy(d.Status.Applied.Origin)
	if now == nil || was == nil || d.Spec.Configuration == nil || hashOf(d.Spec.Configuration) == was.Hash || isSame(now, was) {
		return nil
	}
	return was
}

func isSame(a, b *v1alpha1.Origin) bool {
	return a.Kind == b.Kind && a.Name == b.Name && a.Rule == b.Rule
}

// hashOf is that of settings in the origin of what has them.
func hashOf(c *v1alpha1.DesiredConfiguration) string { return v1alpha1.ImageHash(c.Digest()) }

// id names an object, whichever one has that name at present.
type id struct {
	kind v1alpha1.OriginKind
	name string
}

// object is an object as it is now.
type object struct {
	uid string
	// hashes are those of its rules or pins by name; nil for a source.
	hashes map[string]string
	// images of a source; none while it is not known which it holds.
	images []v1alpha1.StoredImage
}

// holds reports whether a source holds the image with the hash, or is not known not to.
func (o object) holds(hash string) bool {
	return hash == "" || len(o.images) == 0 ||
		slices.ContainsFunc(o.images, func(i v1alpha1.StoredImage) bool { return v1alpha1.ImageHash(i.Digest) == hash })
}

func templateObject(o *v1alpha1.FirmwareTemplate) object {
	return object{uid: string(o.UID), hashes: match.HashesOf(o.Spec.Rules)}
}

func configurationObject(o *v1alpha1.ConfigurationTemplate) object {
	out := object{uid: string(o.UID), hashes: make(map[string]string, len(o.Spec.Rules))}
	for i := range o.Spec.Rules {
		r := &o.Spec.Rules[i]
		out.hashes[r.Name] = hashOf(&r.DesiredConfiguration)
	}
	return out
}

func pinsObject(o *v1alpha1.NodeFirmware) object {
	return object{uid: string(o.UID), hashes: match.HashesOf(o.Spec.Pins)}
}

func sourceObject(o *v1alpha1.FirmwareSource) object {
	out := object{uid: string(o.UID)}
	if o.Status.ObservedGeneration >= o.Generation && meta.IsStatusConditionTrue(o.Status.Conditions, v1alpha1.ConditionReady) {
		out.images = o.Status.Images
	}
	return out
}
