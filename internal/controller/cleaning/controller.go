package cleaning

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/internal/watch"
)

const (
	// workers bounds the writes in flight.
	workers = 4
	// again is the wait before the next pass after a write that was based on an old object.
	again = 100 * time.Millisecond
	// looksAgain is how often a node that is new is looked at while it waits: not all that it waits for makes an event.
	looksAgain = 30 * time.Second
)

// Reconciler is keyed by the name of a Node and of its NodeFirmware. Nothing is remembered: what is to be done follows from the objects in
// each pass.
type Reconciler struct {
	client client.Client
	// direct reads from the API server, not from a cache, which leaves out taints of others.
	direct   client.Reader
	recorder events.EventRecorder
	now      func() time.Time
}

// New returns a reconciler. The client's cache needs the indexes of package index.
func New(c client.Client, direct client.Reader, recorder events.EventRecorder, now func() time.Time) *Reconciler {
	return &Reconciler{client: c, direct: direct, recorder: recorder, now: now}
}

// SetupWithManager adds the controller of nodes and the one of policies to the manager.
func (r *Reconciler) SetupWithManager(mgr manager.Manager) error {
	if err := setupPolicies(mgr, r.now); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).Named("cleaning").
		Watches(&v1alpha1.NodeFirmware{}, &handler.EnqueueRequestForObject{}, builder.WithPredicates(firmwareChanged)).
		Watches(&corev1.Node{}, &handler.EnqueueRequestForObject{}, builder.WithPredicates(nodeChanged)).
		Watches(&v1alpha1.NodeDevice{}, handler.EnqueueRequestsFromMapFunc(r.toOutOfService), builder.WithPredicates(deviceChanged)).
		Watches(&v1alpha1.FirmwareJob{}, handler.EnqueueRequestsFromMapFunc(ofPolicy), builder.WithPredicates(jobChanged)).
		Watches(&v1alpha1.CleaningPolicy{}, handler.EnqueueRequestsFromMapFunc(r.toConcerned), builder.WithPredicates(policyChanged)).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(r)
}

var (
	firmwareChanged = watch.Changed(func(a, b *v1alpha1.NodeFirmware) bool {
		return a.Generation != b.Generation || !slices.EqualFunc(a.Status.Conditions, b.Status.Conditions, sameWords) ||
			(a.Status.LastScanTime == nil) != (b.Status.LastScanTime == nil)
	})
	nodeChanged = watch.Changed(func(a, b *corev1.Node) bool {
		return !equality.Semantic.DeepEqual(a.Spec.Taints, b.Spec.Taints) || !equality.Semantic.DeepEqual(a.Labels, b.Labels) ||
			a.Annotations[v1alpha1.CleaningAnnotation] != b.Annotations[v1alpha1.CleaningAnnotation] || isReady(a) != isReady(b)
	})
	deviceChanged = watch.Changed(func(a, b *v1alpha1.NodeDevice) bool {
		return a.Generation != b.Generation || a.Status.ObservedGeneration != b.Status.ObservedGeneration ||
			!slices.EqualFunc(a.Status.Conditions, b.Status.Conditions, sameWords)
	})
	jobChanged = watch.Changed(func(a, b *v1alpha1.FirmwareJob) bool {
		return a.Ended() != b.Ended() || a.Admitted() != b.Admitted() || a.Held() != b.Held() ||
			(a.Status.StartTime == nil) != (b.Status.StartTime == nil) || a.Failed() != b.Failed() || stepsRun(a) != stepsRun(b)
	})
	policyChanged = watch.Changed(func(a, b *v1alpha1.CleaningPolicy) bool { return a.Generation != b.Generation })
)

func sameWords(a, b metav1.Condition) bool {
	return a.Type == b.Type && a.Status == b.Status && a.Reason == b.Reason && a.Message == b.Message
}

func isReady(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// ofPolicy is the node of a job that runs the steps of a policy.
func ofPolicy(ctx context.Context, o client.Object) []reconcile.Request {
	if j, is := o.(*v1alpha1.FirmwareJob); !is || j.Spec.Task.CleaningPolicyRef == nil {
		return nil
	}
	return watch.ToNode(ctx, o)
}

// toOutOfService is the node of a device, where it is new or out of service: nothing follows for another one.
func (r *Reconciler) toOutOfService(ctx context.Context, o client.Object) []reconcile.Request {
	d, is := o.(*v1alpha1.NodeDevice)
	if !is {
		return nil
	}
	var n corev1.Node
	if err := r.client.Get(ctx, client.ObjectKey{Name: d.Spec.NodeName}, &n); err != nil ||
		taint(&n, v1alpha1.UnverifiedTaint) == nil && taint(&n, v1alpha1.OutOfServiceTaint) == nil {
		return nil // a Node that is not known yet brings itself
	}
	return watch.Requests(n.Name)
}

// toConcerned are the nodes that are new or out of service.
func (r *Reconciler) toConcerned(ctx context.Context, _ client.Object) []reconcile.Request {
	var names []string
	var nodes corev1.NodeList
	if err := r.client.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
		return nil // the cache has not been filled, and brings every node by itself
	}
	for i := range nodes.Items {
		if n := &nodes.Items[i]; taint(n, v1alpha1.UnverifiedTaint) != nil || taint(n, v1alpha1.OutOfServiceTaint) != nil {
			names = append(names, n.Name)
		}
	}
	return watch.Requests(names...)
}

// Reconcile brings one node on.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	f, err := r.gather(ctx, req.Name)
	if err != nil || f.node == nil || f.firmware == nil || !f.isConcerned() {
		return reconcile.Result{}, err
	}
	d := decide(f)
	switch err := r.act(ctx, f, d); {
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err): // the cache is behind
		return reconcile.Result{RequeueAfter: again}, nil
	case apierrors.IsNotFound(err):
		return reconcile.Result{}, nil
	case err != nil:
		return reconcile.Result{}, err
	}
	if d.clean != nil && (d.clean.Waits != nil || d.clean.Proven) {
		return reconcile.Result{RequeueAfter: looksAgain}, nil
	}
	return reconcile.Result{}, nil
}

// isConcerned reports whether the node is new or out of service, or still bears what says so.
func (f facts) isConcerned() bool {
	return f.firmware.Spec.Service == v1alpha1.NodeOutOfService || taint(f.node, v1alpha1.UnverifiedTaint) != nil ||
		taint(f.node, v1alpha1.OutOfServiceTaint) != nil || f.node.Annotations[v1alpha1.CleaningAnnotation] != "" ||
		meta.FindStatusCondition(f.firmware.Status.Conditions, v1alpha1.ConditionClean) != nil || len(f.jobs) > 0
}
