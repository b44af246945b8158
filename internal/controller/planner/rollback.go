package planner

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/match"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// rollbackImage is an image of the running version, with which a rollback can bring that version back: the one that was
// flashed last, or else the only one for the device in any source that is ready. It is "" when there is none or several, and
// never one that is quarantined.
func (f facts) rollbackImage(d *v1alpha1.NodeDevice) v1alpha1.Digest {
	if d.Status.Firmware == nil || d.Status.Firmware.Running == "" {
		return ""
	}
	running := inventory.NormalizeVersion(d.Status.Firmware.Running)
	images := f.imagesOf(d, running)
	if last := d.Status.Applied; last != nil && last.Digest != "" {
		flashed := func(i match.Image) bool { return i.Digest == last.Digest && i.For(match.DeviceOf(d), running) }
		if slices.ContainsFunc(images, flashed) {
			return last.Digest
		}
	}
	digest, _ := match.Resolve(images, match.DeviceOf(d), running)
	return digest
}

// imagesOf are the images of a version that may be for the device. Their sources are not assigned to the device, so an image
// that names neither model nor board is taken only from the device's own source.
func (f facts) imagesOf(d *v1alpha1.NodeDevice, version inventory.Version) []match.Image {
	var out []match.Image
	for i := range f.sources {
		src := &f.sources[i]
		if !isReady(src) {
			continue
		}
		own := d.Spec.SourceName() == src.Name
		for _, image := range src.Status.Images {
			fits := image.Class == d.Status.Class && inventory.NormalizeVersion(image.Version) == version
			isSpecific := len(image.Models) > 0 || len(image.BoardIDs) > 0
			if fits && (own || isSpecific) && !f.isBad(d, image.Digest) {
				out = append(out, match.NewImage(image))
			}
		}
	}
	return out
}

func isReady(src *v1alpha1.FirmwareSource) bool {
	return src.DeletionTimestamp == nil && src.Status.ObservedGeneration == src.Generation &&
		meta.IsStatusConditionTrue(src.Status.Conditions, v1alpha1.ConditionReady)
}
