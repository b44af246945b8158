package watch

import (
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// Changed passes creations, deletions, and the updates that differ says matter.
func Changed[T client.Object](differ func(a, b T) bool) predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		a, okA := e.ObjectOld.(T)
		b, okB := e.ObjectNew.(T)
		return !okA || !okB || a.GetUID() != b.GetUID() || differ(a, b)
	}}
}
