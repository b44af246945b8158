package provenance

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/match"
)

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
