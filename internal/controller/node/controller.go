package node

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/internal/watch"
	"github.com/nodefirmware/node-firmware-operator/internal/maintenance/nodemaintenance"
	"github.com/nodefirmware/node-firmware-operator/internal/trace"
)

// workers is how many nodes are looked at side by side, each by one worker.
const workers = 8

// again is the wait before the next pass after a write that was based on an old object.
const again = 100 * time.Millisecond

// Reconciler is keyed by the name of a Node, whether or not that exists. It reads the cache to see whether there is
// anything to do, and nothing but the API server before it deletes or ends anything: a cache that is late shows
// objects of a Node it does not know yet.
type Reconciler struct {
	cached client.Reader
	// direct reads from and writes to the API server.
	direct    client.Client
	recorder  events.EventRecorder
	namespace string
	now       func() time.Time
	retention time.Duration

	// mu guards gone and warned.
	mu sync.Mutex
	// gone is since when Nodes are known to be gone, by name.
	gone map[string]time.Time
	// warned are the NodeFirmwares without a Node that were reported.
	warned map[types.UID]struct{}
}

// New returns a reconciler. The client direct must not read from a cache; maintenances are looked for in namespace. The history of
// a Node that is gone is kept for the retention.
func New(cached client.Reader, direct client.Client, recorder events.EventRecorder, namespace string, now func() time.Time, retention time.Duration) *Reconciler {
	return &Reconciler{
		cached: cached, direct: direct, recorder: recorder, namespace: namespace, now: now, retention: retention,
		gone: map[string]time.Time{}, warned: map[types.UID]struct{}{},
	}
}

// SetupWithManager adds the controller to the manager. The namespace is the product's.
func SetupWithManager(mgr manager.Manager, namespace string, retention time.Duration) error {
	direct, err := client.New(mgr.GetConfig(), client.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
	})
	if err != nil {
		return fmt.Errorf("make client of node controller: %w", err)
	}
	r := New(mgr.GetClient(), direct, trace.Events{EventRecorder: mgr.GetEventRecorder(v1alpha1.FieldOwnerOperator)}, namespace, time.Now, retention)
	return ctrl.NewControllerManagedBy(mgr).Named("node").
		Watches(&corev1.Node{}, &handler.EnqueueRequestForObject{}, builder.WithPredicates(comesAndGoes)).
		Watches(&v1alpha1.NodeFirmware{}, &handler.EnqueueRequestForObject{}, builder.WithPredicates(firmwareChanges)).
		Watches(&v1alpha1.NodeDevice{}, handler.EnqueueRequestsFromMapFunc(watch.ToNode), builder.WithPredicates(comes)).
		Watches(&v1alpha1.FirmwareJob{}, handler.EnqueueRequestsFromMapFunc(watch.ToNode), builder.WithPredicates(jobChanges)).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(r)
}

var (
	comesAndGoes = watch.Changed(func(_, _ client.Object) bool { return false })
	// firmwareChanges passes what a person requests, which machine it is requested for, and that a daemon reports again.
	firmwareChanges = watch.Changed(func(a, b *v1alpha1.NodeFirmware) bool {
		return a.Generation != b.Generation || !ptr.Equal(pinnedTo(a), pinnedTo(b)) ||
			isSilent(b) && !v1alpha1.ReportedAt(a).Equal(v1alpha1.ReportedAt(b))
	})
	// jobChanges passes what ends the wait for a job of a Node that is gone.
	jobChanges = watch.Changed(func(a, b *v1alpha1.FirmwareJob) bool {
		return a.Ended() != b.Ended() || hasBegun(a) != hasBegun(b) || !slices.Equal(a.Finalizers, b.Finalizers) ||
			!maps.Equal(a.Annotations, b.Annotations)
	})
	comes = predicate.And[client.Object](comesAndGoes, predicate.Funcs{
		DeleteFunc: func(event.DeleteEvent) bool { return false },
	})
)

// Reconcile makes sure that a Node has its NodeFirmware, or that nothing of a Node that is gone is left.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	f, err := r.gather(ctx, req.Name)
	if err != nil {
		return reconcile.Result{}, err
	}
	d := decide(f)
	switch err := r.act(ctx, f, d); {
	case apierrors.IsConflict(err): // the cache is behind
		return reconcile.Result{RequeueAfter: again}, nil
	case err != nil:
		return reconcile.Result{}, err
	}
	r.report(f, d)
	return reconcile.Result{RequeueAfter: d.next}, nil
}

// maintenanceOf is our part in the maintenance of a node.
func (r *Reconciler) maintenanceOf(node string) *nodemaintenance.Node {
	return &nodemaintenance.Node{Client: r.direct, Namespace: r.namespace, NodeName: node}
}
