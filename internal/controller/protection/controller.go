package protection

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
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
	"github.com/nodefirmware/node-firmware-operator/internal/controller/internal/index"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/internal/watch"
	"github.com/nodefirmware/node-firmware-operator/internal/fieldset"
	"github.com/nodefirmware/node-firmware-operator/internal/quarantine"
)

// workers is how many jobs are looked at side by side, each by one worker.
const workers = 8

// Reconciler keeps the finalizer of each FirmwareJob as decide says, and certifies what a job erased before it lets it go.
type Reconciler struct {
	client client.Client
	// direct reads from the API server, not from a cache.
	direct   client.Reader
	recorder events.EventRecorder
	// namespace is the product's own, with the key that signs certificates.
	namespace string
	// issued are the names of certificates that are known to exist.
	issued sync.Map
}

// New returns a reconciler. The client's cache needs the indexes of package index; direct must not be a cache.
func New(c client.Client, direct client.Reader, recorder events.EventRecorder, namespace string) *Reconciler {
	return &Reconciler{client: c, direct: direct, recorder: recorder, namespace: namespace}
}

// SetupWithManager adds the controller to the manager. A job is looked at when it changes in what matters, when a
// quarantine that may record its report changes, and when its Node is deleted.
func (r *Reconciler) SetupWithManager(mgr manager.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named("protection").
		For(&v1alpha1.FirmwareJob{}, builder.WithPredicates(jobChanged)).
		Watches(&v1alpha1.FirmwareQuarantine{}, handler.EnqueueRequestsFromMapFunc(r.toReporters), builder.WithPredicates(quarantineChanged)).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(r.toJobs), builder.WithPredicates(deleted)).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(r)
}

var (
	jobChanged = watch.Changed(func(a, b *v1alpha1.FirmwareJob) bool {
		return a.Admitted() != b.Admitted() || a.Ended() != b.Ended() || a.Held() != b.Held() ||
			(a.DeletionTimestamp == nil) != (b.DeletionTimestamp == nil) || !slices.Equal(a.Finalizers, b.Finalizers) ||
			!maps.Equal(a.Annotations, b.Annotations) || !slices.Equal(a.Status.Blamed, b.Status.Blamed) || sanitized(a) != sanitized(b)
	})
	quarantineChanged = watch.Changed(func(a, b *v1alpha1.FirmwareQuarantine) bool {
		return !equality.Semantic.DeepEqual(a.Status.Reports, b.Status.Reports)
	})
	deleted = predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		UpdateFunc:  func(event.UpdateEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
)

// sanitized is how many drives the job erased.
func sanitized(j *v1alpha1.FirmwareJob) int {
	n := 0
	for _, s := range j.Status.Steps {
		if s.Sanitization != nil {
			n++
		}
	}
	return n
}

// toReporters are the jobs that report bad images.
func (r *Reconciler) toReporters(ctx context.Context, _ client.Object) []reconcile.Request {
	return r.list(ctx, client.MatchingFields{index.Blamed: index.Some})
}

// toJobs are the jobs of a Node.
func (r *Reconciler) toJobs(ctx context.Context, node client.Object) []reconcile.Request {
	return r.list(ctx, client.MatchingFields{index.NodeName: node.GetName()})
}

func (r *Reconciler) list(ctx context.Context, which client.MatchingFields) []reconcile.Request {
	var jobs v1alpha1.FirmwareJobList
	if err := r.client.List(ctx, &jobs, which, client.UnsafeDisableDeepCopy); err != nil {
		return nil // the cache has not been filled, and brings every job by itself
	}
	names := make([]string, len(jobs.Items))
	for i := range jobs.Items {
		names[i] = jobs.Items[i].Name
	}
	return watch.Requests(names...)
}

// again is the wait before the next look at a job that changed meanwhile.
const again = 100 * time.Millisecond

// Reconcile brings the finalizer of one job up to date.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	f, err := r.gather(ctx, req.Name)
	if err != nil {
		return reconcile.Result{}, err
	}
	if f.certifiable() {
		if err := r.certify(ctx, f.job); err != nil && !isConfirmed(f.job) {
			return reconcile.Result{}, err
		}
	}
	switch decide(f) {
	case protect:
		_, err = fieldset.ProtectJob(ctx, r.client, f.job, f.job.ResourceVersion)
	case letGo:
		err = fieldset.ReleaseJob(ctx, r.client, f.job)
	}
	switch {
	case apierrors.IsConflict(err): // the cache is behind, and the change may be one that starts no pass
		return reconcile.Result{RequeueAfter: again}, nil
	case apierrors.IsNotFound(err):
		return reconcile.Result{}, nil
	}
	return reconcile.Result{}, err
}

// gather reads the job from the cache; it is written in the version that was read only. Quarantines are asked of the API server, because
// a person may have deleted one that a cache still shows.
func (r *Reconciler) gather(ctx context.Context, name string) (facts, error) {
	f := facts{job: &v1alpha1.FirmwareJob{}, recorded: true, hasNode: true}
	switch err := r.client.Get(ctx, client.ObjectKey{Name: name}, f.job); {
	case apierrors.IsNotFound(err):
		return facts{}, nil
	case err != nil:
		return f, fmt.Errorf("read firmware job %s: %w", name, err)
	}
	if f.job.Held() {
		var node corev1.Node
		err := r.direct.Get(ctx, client.ObjectKey{Name: f.job.Spec.NodeName}, &node)
		if client.IgnoreNotFound(err) != nil {
			return f, fmt.Errorf("read node %s: %w", f.job.Spec.NodeName, err)
		}
		f.hasNode = err == nil
	}
	if len(f.job.Status.Blamed) > 0 {
		var quarantines v1alpha1.FirmwareQuarantineList
		if err := r.direct.List(ctx, &quarantines); err != nil {
			return f, fmt.Errorf("list firmware quarantines: %w", err)
		}
		f.recorded = quarantine.Recorded(f.job, quarantines.Items)
	}
	return f, nil
}
