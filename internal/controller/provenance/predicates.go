package provenance

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/watch"
)

// deviceChanged passes what a device recorded, what is desired, and what says whether both still count.
var deviceChanged = watch.Changed(func(a, b *v1alpha1.NodeDevice) bool {
	return a.Generation != b.Generation || a.Spec.NodeName != b.Spec.NodeName || running(a) != running(b) ||
		isContested(a) != isContested(b) ||
		meta.IsStatusConditionTrue(a.Status.Conditions, v1alpha1.ConditionReady) != meta.IsStatusConditionTrue(b.Status.Conditions, v1alpha1.ConditionReady) ||
		!equality.Semantic.DeepEqual(a.Status.LastApplied, b.Status.LastApplied)
})

func running(d *v1alpha1.NodeDevice) string {
	if d.Status.Firmware == nil {
		return ""
	}
	return d.Status.Firmware.Running
}

// firmwareChanged passes a change of the spec, and writes of others to this reconciler's part.
var firmwareChanged = watch.Changed(func(a, b *v1alpha1.NodeFirmware) bool {
	return a.Generation != b.Generation || isLabelled(a) != isLabelled(b) ||
		!slices.Equal(a.Status.Obsolete, b.Status.Obsolete) || !slices.Equal(a.Status.Confirmed, b.Status.Confirmed) ||
		conditionOf(a.Status.Conditions) != conditionOf(b.Status.Conditions)
})

// templateChanged and sourceChanged pass what makes another object of a template or source, in the sense of this package.
var (
	templateChanged = watch.Changed(func(a, b *v1alpha1.FirmwareTemplate) bool {
		x, y := templateObject(a), templateObject(b)
		return x.ObjectReference != y.ObjectReference || x.settled != y.settled || (a.DeletionTimestamp == nil) != (b.DeletionTimestamp == nil)
	})
	sourceChanged = watch.Changed(func(a, b *v1alpha1.FirmwareSource) bool {
		x, y := sourceObject(a), sourceObject(b)
		return x.ObjectReference != y.ObjectReference || x.settled != y.settled || (a.DeletionTimestamp == nil) != (b.DeletionTimestamp == nil)
	})
)
