package quarantine

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/internal/watch"
)

// jobReports passes jobs that report bad images, each time the report changes or becomes one to believe, and the end of a job, which
// may have taken its report back. The deletion of a job changes nothing.
var jobReports = predicate.Funcs{
	CreateFunc: func(e event.CreateEvent) bool { return len(reportOf(e.Object).images) > 0 },
	UpdateFunc: func(e event.UpdateEvent) bool {
		was, is := reportOf(e.ObjectOld), reportOf(e.ObjectNew)
		return was.admitted != is.admitted && len(is.images) > 0 || was.failed != is.failed || !slices.Equal(was.images, is.images)
	},
	DeleteFunc: func(event.DeleteEvent) bool { return false },
}

type jobReport struct {
	images           []v1alpha1.BlamedDevice
	admitted, failed bool
}

func reportOf(o client.Object) jobReport {
	if j, ok := o.(*v1alpha1.FirmwareJob); ok {
		return jobReport{j.Status.Blamed, j.Admitted(), j.Failed()}
	}
	return jobReport{}
}

// quarantineChanged passes what a person decided, and writes of others to this reconciler's part.
var quarantineChanged = watch.Changed(func(a, b *v1alpha1.FirmwareQuarantine) bool {
	return a.Generation != b.Generation || !equality.Semantic.DeepEqual(a.Status, b.Status)
})
