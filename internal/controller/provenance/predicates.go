package provenance

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/internal/watch"
)

// deviceChanged passes what a device recorded and what is desired.
var deviceChanged = watch.Changed(func(a, b *v1alpha1.NodeDevice) bool {
	return a.Generation != b.Generation || a.Spec.NodeName != b.Spec.NodeName || !equality.Semantic.DeepEqual(a.Status.Applied, b.Status.Applied)
})

// firmwareChanged passes a change of the spec, and writes of others to this reconciler's part.
var firmwareChanged = watch.Changed(func(a, b *v1alpha1.NodeFirmware) bool {
	return a.Generation != b.Generation || isLabelled(a) != isLabelled(b) || !slices.Equal(a.Status.Obsolete, b.Status.Obsolete) ||
		conditionOf(a.Status.Conditions) != conditionOf(b.Status.Conditions)
})

// templateChanged and sourceChanged pass what makes another object of a template or source, in the sense of this package.
var (
	templateChanged = watch.Changed(func(a, b *v1alpha1.FirmwareTemplate) bool {
		x, y := templateObject(a), templateObject(b)
		return x.uid != y.uid || !maps.Equal(x.hashes, y.hashes) || (a.DeletionTimestamp == nil) != (b.DeletionTimestamp == nil)
	})
	sourceChanged = watch.Changed(func(a, b *v1alpha1.FirmwareSource) bool {
		x, y := sourceObject(a), sourceObject(b)
		return x.uid != y.uid || !slices.EqualFunc(x.images, y.images, sameDigest) || (a.DeletionTimestamp == nil) != (b.DeletionTimestamp == nil)
	})
)

func sameDigest(a, b v1alpha1.StoredImage) bool { return a.Digest == b.Digest }
