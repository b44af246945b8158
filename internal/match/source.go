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
