package match

import (
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

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
