package quarantine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/internal/index"
	"github.com/nodefirmware/node-firmware-operator/internal/fieldset"
	"github.com/nodefirmware/node-firmware-operator/internal/quarantine"
	"github.com/nodefirmware/node-firmware-operator/internal/status"
)

// again is the wait before the next pass after a write that was based on an old object.
const again = 100 * time.Millisecond

// pass is the one key of the queue: one report can concern several sources, and there are few of them.
var pass = reconcile.Request{NamespacedName: types.NamespacedName{Name: "quarantine"}}

// Reconciler writes status.quarantine and the condition Quarantined of every FirmwareSource. It writes only what differs.
type Reconciler struct {
	client   client.Client
	recorder events.EventRecorder
	now      func() time.Time
	// reporters are the jobs that reported bad images, also those that are gone before any source lists the images.
	reporters quarantine.Reporters
}

// New returns a reconciler. The client's cache needs the indexes of package index.
func New(c client.Client, recorder events.EventRecorder, now func() time.Time) *Reconciler {
	return &Reconciler{client: c, recorder: recorder, now: now}
}

// SetupWithManager starts a pass on each change that can change what is quarantined.
func (r *Reconciler) SetupWithManager(mgr manager.Manager) error {
	toPass := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{pass}
	})
	return ctrl.NewControllerManagedBy(mgr).Named("quarantine").
		Watches(&v1alpha1.FirmwareJob{}, toPass, builder.WithPredicates(jobReports)).
		Watches(&v1alpha1.FirmwareSource{}, toPass, builder.WithPredicates(sourceChanged)).
		WithOptions(controller.Options{MaxConcurrentReconciles: 1}).
		Complete(r)
}

// facts is what one pass found. All of it belongs to the cache and must not be changed.
type facts struct {
	set     quarantine.Set
	sources []v1alpha1.FirmwareSource
}

// Reconcile is one pass over all sources. A source that cannot be written does not keep the others from being written.
func (r *Reconciler) Reconcile(ctx context.Context, _ reconcile.Request) (ctrl.Result, error) {
	f, err := r.gather(ctx)
	if err != nil {
		return ctrl.Result{}, err
	}
	result := ctrl.Result{}
	var errs []error
	for i := range f.sources {
		switch err := r.record(ctx, &f.sources[i], f.set); {
		case apierrors.IsConflict(err): // the cache is behind
			result.RequeueAfter = again
		default:
			errs = append(errs, client.IgnoreNotFound(err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return ctrl.Result{}, err
	}
	return result, nil
}

func (r *Reconciler) gather(ctx context.Context) (facts, error) {
	var f facts
	var jobs v1alpha1.FirmwareJobList
	withBlame := client.MatchingFields{index.Blamed: index.Some}
	if err := r.client.List(ctx, &jobs, withBlame, client.UnsafeDisableDeepCopy); err != nil {
		return f, fmt.Errorf("list firmware jobs with bad images: %w", err)
	}
	var sources v1alpha1.FirmwareSourceList
	if err := r.client.List(ctx, &sources, client.UnsafeDisableDeepCopy); err != nil {
		return f, fmt.Errorf("list firmware sources: %w", err)
	}
	f.sources = sources.Items
	reports := make([]*v1alpha1.FirmwareJob, len(jobs.Items))
	for i := range jobs.Items {
		reports[i] = &jobs.Items[i]
	}
	var policies v1alpha1.RolloutPolicyList
	if err := r.client.List(ctx, &policies, client.UnsafeDisableDeepCopy); err != nil {
		return f, fmt.Errorf("list rollout policies: %w", err)
	}
	pools := quarantine.NewPools(policies.Items)
	f.set = quarantine.Compute(quarantine.Facts{
		Jobs: r.reporters.Remember(reports, f.sources, r.now()), Sources: f.sources, Now: r.now(),
		Pool: func(name string) string {
			var node corev1.Node
			if err := r.client.Get(ctx, client.ObjectKey{Name: name}, &node); err != nil { // it is gone, and so are its labels
				return pools.Of(nil)
			}
			return pools.Of(node.Labels)
		},
	})
	return f, nil
}

// record brings the source's part of the quarantine up to date.
func (r *Reconciler) record(ctx context.Context, old *v1alpha1.FirmwareSource, set quarantine.Set) error {
	listed, more := set.Listed(old)
	src := old.DeepCopy()
	src.Status.Quarantine = listed
	src.Status.Conditions = status.Quarantine(status.QuarantineFacts{Source: src.Name, Listed: listed, More: more},
		src.Status.Conditions, src.Generation, r.now())
	if same(old, src) {
		return nil
	}
	if err := fieldset.ApplyQuarantine(ctx, r.client, src, src.Status); err != nil {
		return err
	}
	r.announce(src, old.Status.Quarantine)
	return nil
}

// same compares what this reconciler writes. A different observed generation alone is no reason to write.
func same(a, b *v1alpha1.FirmwareSource) bool {
	x, y := condition(a), condition(b)
	return equality.Semantic.DeepEqual(a.Status.Quarantine, b.Status.Quarantine) &&
		(x == nil) == (y == nil) && (x == nil || x.Status == y.Status && x.Message == y.Message)
}

// announce makes an event of each entry that is new, and one of a lift.
func (r *Reconciler) announce(src *v1alpha1.FirmwareSource, old []v1alpha1.QuarantinedImage) {
	for _, e := range src.Status.Quarantine {
		known := func(o v1alpha1.QuarantinedImage) bool {
			return o.Digest == e.Digest && o.Model == e.Model && o.Job == e.Job && o.Scope == e.Scope
		}
		if e.Scope != v1alpha1.QuarantineLifted && !slices.ContainsFunc(old, known) {
			r.recorder.Eventf(src, nil, corev1.EventTypeWarning, v1alpha1.ReasonQuarantined, "Quarantine",
				"Version %s (%s) made a device of model %s on node %s unhealthy in job %s. %s %s",
				e.Version, e.Digest, e.Model, e.NodeName, e.Job, status.QuarantineScope(e), e.Message)
		}
	}
	inForce := func(e v1alpha1.QuarantinedImage) bool { return quarantine.InForce(e, "") }
	if slices.ContainsFunc(old, inForce) && !slices.ContainsFunc(src.Status.Quarantine, inForce) {
		r.recorder.Eventf(src, nil, corev1.EventTypeNormal, v1alpha1.ReasonSucceeded, "Lift",
			"No image of this source is quarantined any more.")
	}
}
