package runner

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/config"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/internal/index"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/internal/seen"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/internal/watch"
	"github.com/nodefirmware/node-firmware-operator/internal/trace"
)

// Pods is the update strategy pod.
type Pods struct {
	// Namespace is the product's, where the DaemonSet is and the pods are made.
	Namespace string
	// DaemonSet is its name; the pods are made after it.
	DaemonSet string
	// HandlersFile lists the handlers.
	HandlersFile string
}

// Name is that of the strategy.
func (Pods) Name() string { return config.StrategyPod }

// SetupWithManager reads the handlers and adds the reconciler.
func (p Pods) SetupWithManager(mgr manager.Manager) error {
	if p.HandlersFile == "" {
		return errors.New("--update-strategy=pod needs --pod-handlers, the file that names the images")
	}
	handlers, err := LoadHandlers(p.HandlersFile)
	if err != nil {
		return err
	}
	if err := mgr.GetFieldIndexer().IndexField(context.Background(), &corev1.Pod{}, index.NodeName, index.ByNode); err != nil {
		return fmt.Errorf("index pods by node: %w", err)
	}
	r := New(mgr.GetClient(), mgr.GetAPIReader(), trace.Events{EventRecorder: mgr.GetEventRecorder(v1alpha1.FieldOwnerOperator)}, p.Namespace, p.DaemonSet, handlers, time.Now)
	return ctrl.NewControllerManagedBy(mgr).Named("runner").
		Watches(&v1alpha1.NodeFirmware{}, &handler.EnqueueRequestForObject{}).
		Watches(&corev1.Node{}, &handler.EnqueueRequestForObject{}, builder.WithPredicates(comes)).
		Watches(&v1alpha1.FirmwareJob{}, handler.EnqueueRequestsFromMapFunc(watch.ToNode)).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(watch.ToNode), builder.WithPredicates(predicate.NewPredicateFuncs(isJobPod))).
		Complete(r)
}

// comes passes a Node that is registered, for which a pod may be made from then on.
var comes = predicate.Funcs{
	UpdateFunc: func(event.UpdateEvent) bool { return false },
	DeleteFunc: func(event.DeleteEvent) bool { return false },
}

// Reconciler manages the pods that execute jobs. Each Reconcile looks at one node.
type Reconciler struct {
	client client.Client
	// direct reads from the API server.
	direct    client.Reader
	recorder  events.EventRecorder
	namespace string
	// daemonSet is the name of the DaemonSet whose pods read the machines.
	daemonSet string
	handlers  Handlers
	now       func() time.Time
	seen      seen.Seen[types.UID]
}

// New returns a reconciler. The client's cache needs the indexes of package index, and pods under index.NodeName.
func New(c client.Client, direct client.Reader, recorder events.EventRecorder, namespace, daemonSet string, handlers Handlers, now func() time.Time) *Reconciler {
	return &Reconciler{client: c, direct: direct, recorder: recorder, namespace: namespace, daemonSet: daemonSet, handlers: handlers, now: now}
}

func isJobPod(o client.Object) bool {
	_, ok := o.GetLabels()[v1alpha1.JobPodLabel]
	return ok
}

// Reconcile makes sure that the job of the node that needs a process has a pod.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	f, err := r.gather(ctx, req.Name)
	if err != nil {
		return reconcile.Result{}, err
	}
	d := decide(f)
	return reconcile.Result{RequeueAfter: d.next}, r.act(ctx, f, d)
}

// gather reads the node and its objects from the cache.
func (r *Reconciler) gather(ctx context.Context, node string) (facts, error) {
	f := facts{node: node, handlers: r.handlers, now: r.now()}
	var firmware v1alpha1.NodeFirmware
	switch err := r.client.Get(ctx, client.ObjectKey{Name: node}, &firmware); {
	case apierrors.IsNotFound(err):
		r.seen.Note(node, nil, f.now)
		return f, nil
	case err != nil:
		return f, fmt.Errorf("get node firmware %s: %w", node, err)
	}
	f.firmware = &firmware
	switch err := r.client.Get(ctx, client.ObjectKey{Name: node}, &corev1.Node{}); {
	case apierrors.IsNotFound(err):
		f.nodeGone = true
	case err != nil:
		return f, fmt.Errorf("get node %s: %w", node, err)
	}
	var jobs v1alpha1.FirmwareJobList
	if err := r.client.List(ctx, &jobs, client.MatchingFields{index.NodeName: node}); err != nil {
		return f, fmt.Errorf("list firmware jobs of node %s: %w", node, err)
	}
	f.jobs = jobs.Items
	var pods corev1.PodList
	if err := r.client.List(ctx, &pods, client.InNamespace(r.namespace), client.MatchingFields{index.NodeName: node},
		client.HasLabels{v1alpha1.JobPodLabel}); err != nil {
		return f, fmt.Errorf("list job pods of node %s: %w", node, err)
	}
	f.pods = pods.Items
	var noted []types.UID
	for i := range f.pods {
		noted = append(noted, f.pods[i].UID)
	}
	for i := range f.jobs {
		if f.jobs[i].Ended() {
			noted = append(noted, f.jobs[i].UID)
		}
	}
	f.seen = r.seen.Note(node, noted, f.now)
	return f, nil
}
