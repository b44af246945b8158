package match

import (
	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

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
