package watch

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/internal/index"
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

// Delayed enqueues what an object concerns some time after its event, so that events with one cause are one pass. What waits already is
// not enqueued again: a stream of events delays nothing. After an update it is what the object concerned before and concerns now.
func Delayed(by time.Duration, concerns handler.MapFunc) handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	enqueue := func(ctx context.Context, o client.Object, q queue) {
		for _, r := range concerns(ctx, o) {
			q.AddAfter(r, by)
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) { enqueue(ctx, e.Object, q) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			enqueue(ctx, e.ObjectOld, q)
			enqueue(ctx, e.ObjectNew, q)
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) { enqueue(ctx, e.Object, q) },
	}
}

// ToNode is the node that a device, a job or a pod is of.
func ToNode(_ context.Context, o client.Object) []reconcile.Request {
	return Requests(index.ByNode(o)...)
}

// Requests are those for the objects of these names; there is none for "".
func Requests(names ...string) []reconcile.Request {
	var out []reconcile.Request
	for _, name := range names {
		if name != "" {
			out = append(out, reconcile.Request{NamespacedName: client.ObjectKey{Name: name}})
		}
	}
	return out
}
