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
	"github.com/nodefirmware/node-firmware-operator/internal/controller/internal/watch"
	"github.com/nodefirmware/node-firmware-operator/internal/quarantine"
)

// jobReports passes jobs that report bad images, each time the report changes. The deletion of a job lifts no quarantine.
var jobReports = predicate.Funcs{
	CreateFunc: func(e event.CreateEvent) bool { return len(badImages(e.Object)) > 0 },
	UpdateFunc: func(e event.UpdateEvent) bool {
		return !slices.Equal(badImages(e.ObjectOld), badImages(e.ObjectNew)) ||
			len(badImages(e.ObjectNew)) > 0 && admitted(e.ObjectOld) != admitted(e.ObjectNew)
	},
	DeleteFunc: func(e event.DeleteEvent) bool { return len(badImages(e.Object)) > 0 }, // it needs not be remembered as lifted
}

func admitted(o client.Object) bool {
	j, ok := o.(*v1alpha1.FirmwareJob)
	return ok && j.Admitted()
}

func badImages(o client.Object) []v1alpha1.BlamedDevice {
	if j, ok := o.(*v1alpha1.FirmwareJob); ok {
		return j.Status.Blamed
	}
	return nil
}

// sourceChanged passes lifts, changes of the images in store, and writes of others to this reconciler's part.
var sourceChanged = watch.Changed(func(a, b *v1alpha1.FirmwareSource) bool {
	return quarantine.Requests(a) != quarantine.Requests(b) ||
		!equality.Semantic.DeepEqual(a.Status.Images, b.Status.Images) || !same(a, b)
})

func condition(src *v1alpha1.FirmwareSource) *metav1.Condition {
	return meta.FindStatusCondition(src.Status.Conditions, v1alpha1.ConditionQuarantined)
}
