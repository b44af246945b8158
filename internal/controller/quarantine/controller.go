package quarantine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
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
	"github.com/nodefirmware/node-firmware-operator/internal/status"
)

// again is the wait before the next pass after a write that was based on an old object.
const again = 100 * time.Millisecond

// pass is the one key of the queue: one job can report several images, and there are few quarantines.
var pass = reconcile.Request{NamespacedName: types.NamespacedName{Name: "quarantine"}}

// Reconciler creates FirmwareQuarantines and writes their status. It writes only what differs.
type Reconciler struct {
	client   client.Client
	recorder events.EventRecorder
	now      func() time.Time
	// reporters are the jobs that reported bad images, also those that are gone before a quarantine lists them.
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
		Watches(&v1alpha1.FirmwareQuarantine{}, toPass, builder.WithPredicates(quarantineChanged)).
		WithOptions(controller.Options{MaxConcurrentReconciles: 1}).
		Complete(r)
}

// Reconcile is one pass over all quarantines. One that cannot be written does not keep the others from being written.
func (r *Reconciler) Reconcile(ctx context.Context, _ reconcile.Request) (ctrl.Result, error) {
	found, set, err := r.gather(ctx)
	if err != nil {
		return ctrl.Result{}, err
	}
	result := ctrl.Result{}
	var errs []error
	for _, q := range set.All() {
		switch err := r.record(ctx, found[q.Name], &q); {
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

// gather returns the quarantines there are, by name, and those there should be. All of it belongs to the cache and must not be changed.
func (r *Reconciler) gather(ctx context.Context) (map[string]*v1alpha1.FirmwareQuarantine, quarantine.Set, error) {
	var none quarantine.Set
	var jobs v1alpha1.FirmwareJobList
	blaming := client.MatchingFields{index.Blamed: index.Some}
	if err := r.client.List(ctx, &jobs, blaming, client.UnsafeDisableDeepCopy); err != nil {
		return nil, none, fmt.Errorf("list firmware jobs with blamed devices: %w", err)
	}
	reports := make([]*v1alpha1.FirmwareJob, len(jobs.Items))
	for i := range jobs.Items {
		reports[i] = &jobs.Items[i]
	}
	var quarantines v1alpha1.FirmwareQuarantineList
	if err := r.client.List(ctx, &quarantines, client.UnsafeDisableDeepCopy); err != nil {
		return nil, none, fmt.Errorf("list firmware quarantines: %w", err)
	}
	found := make(map[string]*v1alpha1.FirmwareQuarantine, len(quarantines.Items))
	for i := range quarantines.Items {
		found[quarantines.Items[i].Name] = &quarantines.Items[i]
	}
	var policies v1alpha1.RolloutPolicyList
	if err := r.client.List(ctx, &policies, client.UnsafeDisableDeepCopy); err != nil {
		return nil, none, fmt.Errorf("list rollout policies: %w", err)
	}
	pools := quarantine.NewPools(policies.Items)
	var unread error
	read := func(name string, o client.Object) bool { // false for one that is gone
		err := r.client.Get(ctx, client.ObjectKey{Name: name}, o)
		unread = errors.Join(unread, client.IgnoreNotFound(err))
		return err == nil
	}
	set := quarantine.Compute(quarantine.Facts{
		Jobs: r.reporters.Remember(reports, quarantines.Items, r.now()), Quarantines: quarantines.Items, Now: r.now(),
		Pool: func(name string) string {
			var node corev1.Node
			read(name, &node) // with a Node its labels are gone
			return pools.Of(node.Labels)
		},
		Job: func(name string) *v1alpha1.FirmwareJob {
			j := &v1alpha1.FirmwareJob{}
			if !read(name, j) { // its report stays
				return nil
			}
			return j
		},
	})
	if unread != nil {
		return nil, none, fmt.Errorf("read nodes and jobs of reports: %w", unread)
	}
	return found, set, nil
}

// record creates the quarantine where there is none, and the event of that starts the pass that writes its status; otherwise it
// brings the status up to date.
func (r *Reconciler) record(ctx context.Context, old, q *v1alpha1.FirmwareQuarantine) error {
	if q.ResourceVersion == "" {
		return fieldset.CreateQuarantine(ctx, r.client, q.Spec.Digest, q.Spec.Model)
	}
	q.Status.ObservedGeneration = q.Generation
	q.Status.Conditions = status.Quarantine(q, r.now())
	if equality.Semantic.DeepEqual(old.Status, q.Status) {
		return nil
	}
	if err := fieldset.ApplyQuarantine(ctx, r.client, q); err != nil {
		return err
	}
	r.announce(old, q)
	return nil
}

// announce makes an event where the image is kept from more nodes than before, and where it is kept from none any more.
func (r *Reconciler) announce(old, q *v1alpha1.FirmwareQuarantine) {
	message := meta.FindStatusCondition(q.Status.Conditions, v1alpha1.ConditionReady).Message
	switch was, is := reach(old), reach(q); {
	case is > was:
		r.recorder.Eventf(q, nil, corev1.EventTypeWarning, v1alpha1.ReasonQuarantined, "Quarantine", "%s", message)
	case is == 0 && was > 0:
		r.recorder.Eventf(q, nil, corev1.EventTypeNormal, v1alpha1.ReasonSucceeded, "Lift", "%s", message)
	}
}

// reach orders quarantines by how many nodes they concern; 0 for none.
func reach(q *v1alpha1.FirmwareQuarantine) int {
	switch q.Status.Scope {
	case v1alpha1.QuarantineFleet:
		return math.MaxInt
	case v1alpha1.QuarantinePolicies:
		return len(quarantine.Policies(q))
	case v1alpha1.QuarantineNone:
	}
	return 0
}

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
