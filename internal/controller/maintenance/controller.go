package maintenance

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
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
	"github.com/nodefirmware/node-firmware-operator/internal/drain"
	"github.com/nodefirmware/node-firmware-operator/internal/fieldset"
)

const (
	// workers is how many nodes are looked at side by side. A round waits for nothing, so that a drain that cannot end keeps no worker.
	workers = 8
	// again is the time between two rounds of eviction, and roundLimit how long one may take. What is read before and said after it has
	// the same time once more.
	again, roundLimit = 5 * time.Second, time.Minute
)

// Reconciler carries out the maintenance requests of the daemons. Its state is in the API: who cordoned a Node in its annotation,
// and how far it is in the status of the NodeFirmware.
type Reconciler struct {
	// direct reads from and writes to the API server: who is about to uncordon a node must not decide by a cache.
	direct client.Client
	pods   kubernetes.Interface
	drain  drain.Options
	// leases is the namespace of the Leases of medik8s; empty where it is not installed.
	leases string
	now    func() time.Time
}

// New returns a reconciler that drains by the options. The client direct must not read from a cache.
func New(direct client.Client, pods kubernetes.Interface, o drain.Options) *Reconciler {
	return &Reconciler{direct: direct, pods: pods, drain: o, now: time.Now}
}

// Agreeing has the nodes agreed on with the products of medik8s, whose Leases are in the namespace; an empty one is none. It returns r.
func (r *Reconciler) Agreeing(leases string, now func() time.Time) *Reconciler {
	r.leases, r.now = leases, now
	return r
}

// SetupWithManager adds the controller to the manager.
func (r *Reconciler) SetupWithManager(mgr manager.Manager) error {
	err := ctrl.NewControllerManagedBy(mgr).Named("maintenance").
		For(&v1alpha1.NodeFirmware{}, builder.WithPredicates(watch.Changed(func(a, b *v1alpha1.NodeFirmware) bool {
			return !equality.Semantic.DeepEqual(a.Status.MaintenanceRequest, b.Status.MaintenanceRequest)
		}))).
		Watches(&corev1.Node{}, &handler.EnqueueRequestForObject{}, builder.WithPredicates(uncordoned)). // both have the same name
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set up maintenance controller: %w", err)
	}
	return nil
}

// uncordoned passes a Node that becomes schedulable: from then on a cordon of it is somebody else's.
var uncordoned = predicate.Funcs{
	CreateFunc: func(event.CreateEvent) bool { return false }, DeleteFunc: func(event.DeleteEvent) bool { return false },
	GenericFunc: func(event.GenericEvent) bool { return false },
	UpdateFunc: func(e event.UpdateEvent) bool {
		was, _ := e.ObjectOld.(*corev1.Node)
		is, _ := e.ObjectNew.(*corev1.Node)
		return was != nil && is != nil && was.Spec.Unschedulable && !is.Spec.Unschedulable
	},
}

// Reconcile takes the maintenance of one node a step further.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*roundLimit)
	defer cancel()
	f, err := r.gather(ctx, req.Name)
	if err != nil {
		return reconcile.Result{}, err
	}
	d := decide(f)
	if d.evict {
		left, err := r.round(ctx, req.Name)
		if err != nil {
			return reconcile.Result{}, err
		}
		f.left = &left
		d = decide(f)
	}
	if d.take {
		switch err := r.take(ctx, f.lease, f.node); {
		case apierrors.IsConflict(err): // somebody wrote the Lease meanwhile
			return reconcile.Result{RequeueAfter: time.Second}, nil
		case err != nil:
			return reconcile.Result{}, err
		}
		if f.lease.refused != "" {
			d = decide(f)
		}
	}
	switch err := r.act(ctx, f, d); {
	case apierrors.IsConflict(err): // the Node changed meanwhile
		return reconcile.Result{RequeueAfter: time.Second}, nil
	case err != nil:
		return reconcile.Result{}, err
	}
	if d.giveBack { // before it is said that all is over
		switch err := r.giveBack(ctx, f.lease); {
		case apierrors.IsConflict(err):
			return reconcile.Result{RequeueAfter: time.Second}, nil
		case err != nil:
			return reconcile.Result{}, err
		}
	}
	if d.answer != nil {
		if err := fieldset.ApplyMaintenance(ctx, r.direct, req.Name, *d.answer); err != nil {
			return reconcile.Result{}, client.IgnoreNotFound(err)
		}
	}
	switch {
	case d.again:
		return reconcile.Result{RequeueAfter: again}, nil
	case d.renew:
		return reconcile.Result{RequeueAfter: renewed / 2}, nil
	}
	return reconcile.Result{}, nil
}

func (r *Reconciler) round(ctx context.Context, node string) (drain.Left, error) {
	ctx, cancel := context.WithTimeout(ctx, roundLimit)
	defer cancel()
	return drain.Round(ctx, r.pods, node, r.drain)
}

func (r *Reconciler) gather(ctx context.Context, name string) (facts, error) {
	var f facts
	var nfw v1alpha1.NodeFirmware
	var err error
	switch err := r.direct.Get(ctx, client.ObjectKey{Name: name}, &nfw); {
	case apierrors.IsNotFound(err):
		return f, nil
	case err != nil:
		return f, fmt.Errorf("get node firmware %s: %w", name, err)
	}
	f.request, f.answer = nfw.Status.MaintenanceRequest, nfw.Status.Maintenance
	if f.request == nil {
		return f, nil
	}
	var node corev1.Node
	switch err := r.direct.Get(ctx, client.ObjectKey{Name: name}, &node); {
	case err == nil:
		f.node = &node
	case !apierrors.IsNotFound(err):
		return f, fmt.Errorf("get node %s: %w", name, err)
	}
	if f.lease, err = r.readLease(ctx, name); err != nil {
		return f, err
	}
	if f.drained() && f.lease == nil || f.request.Type != v1alpha1.MaintenanceDrain {
		return f, nil
	}
	var jobs v1alpha1.FirmwareJobList
	if err := r.direct.List(ctx, &jobs, client.MatchingFields{"spec.nodeName": name}); err != nil {
		return f, fmt.Errorf("list jobs of node %s: %w", name, err)
	}
	for i := range jobs.Items {
		f.admitted = f.admitted || jobs.Items[i].HasPlace()
	}
	return f, nil
}

// act cordons or uncordons the Node, in the version that was read. The annotations are part of the same write, so that it is always
// known whose cordon and whose label it is.
func (r *Reconciler) act(ctx context.Context, f facts, d decision) error {
	if d.cordon == "" && !d.uncordon && !d.disown && !d.exclude && !d.include {
		return nil
	}
	before := f.node.DeepCopy()
	switch {
	case d.uncordon, d.disown:
		f.node.Spec.Unschedulable = f.node.Spec.Unschedulable && !d.uncordon
		delete(f.node.Annotations, v1alpha1.CordonedAnnotation)
	case d.cordon != "":
		f.node.Spec.Unschedulable = true
		metav1.SetMetaDataAnnotation(&f.node.ObjectMeta, v1alpha1.CordonedAnnotation, d.cordon)
	}
	switch {
	case d.exclude:
		metav1.SetMetaDataLabel(&f.node.ObjectMeta, excludeLabel, excluded)
		metav1.SetMetaDataAnnotation(&f.node.ObjectMeta, v1alpha1.ExcludedAnnotation, f.request.ID)
	case d.include:
		delete(f.node.Annotations, v1alpha1.ExcludedAnnotation)
		if f.node.Labels[excludeLabel] == excluded {
			delete(f.node.Labels, excludeLabel)
		}
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.direct.Patch(ctx, f.node, patch, client.FieldOwner(fieldOwner)); err != nil {
		return fmt.Errorf("cordon or uncordon node %s: %w", f.node.Name, err)
	}
	return nil
}
