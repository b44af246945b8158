package quarantine

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/watch"
)

// jobReports passes jobs that report bad images, each time the report changes. The deletion of a job lifts no quarantine.
var jobReports = predicate.Funcs{
	CreateFunc: func(e event.CreateEvent) bool { return len(badImages(e.Object)) > 0 },
	UpdateFunc: func(e event.UpdateEvent) bool {
		return !slices.Equal(badImages(e.ObjectOld), badImages(e.ObjectNew))
	},
	DeleteFunc: func(event.DeleteEvent) bool { return false },
}

func badImages(o client.Object) []v1alpha1.BadImage {
	if j, ok := o.(*v1alpha1.FirmwareJob); ok {
		return j.Status.BadImages
	}
	return nil
}

// sourceChanged passes lifts, changes of the images in store, and writes of others to this reconciler's part.
var sourceChanged = watch.Changed(func(a, b *v1alpha1.FirmwareSource) bool {
	return !a.Spec.LiftQuarantineRequestedAt.Equal(b.Spec.LiftQuarantineRequestedAt) ||
		!equality.Semantic.DeepEqual(a.Status.Images, b.Status.Images) || !same(a, b)
})

func condition(src *v1alpha1.FirmwareSource) *metav1.Condition {
	return meta.FindStatusCondition(src.Status.Conditions, v1alpha1.ConditionQuarantined)
}
