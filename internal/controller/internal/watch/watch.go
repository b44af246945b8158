package watch

import (
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// Changed passes creations, deletions, and the updates that differ says matter.
func Changed[T client.Object](differ func(a, b T) bool) predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		a, okA := e.ObjectOld.(T)
		b, okB := e.ObjectNew.(T)
		return !okA || !okB || a.GetUID() != b.GetUID() || differ(a, b)
	}}
}

// Quarantines passes what a person decided, and what jobs reported: what may change which images are quarantined. A condition says the
// same.
var Quarantines = Changed(func(a, b *v1alpha1.FirmwareQuarantine) bool {
	return a.Generation != b.Generation || a.Status.Scope != b.Status.Scope || !equality.Semantic.DeepEqual(a.Status.Reports, b.Status.Reports)
})
