package source

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/internal/access"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/internal/watch"
	"github.com/nodefirmware/node-firmware-operator/internal/fieldset"
	"github.com/nodefirmware/node-firmware-operator/internal/sourcefile"
	"github.com/nodefirmware/node-firmware-operator/internal/status"
	"github.com/nodefirmware/node-firmware-operator/pkg/artifact"
)

const (
	// lookAgain is how often a source is looked at though nobody changed it: its origin may have been corrected or signed anew, an image in
	// store may be damaged or lost, and images that only jobs needed cost disk space. At rest a look writes nothing to the API.
	lookAgain = 10 * time.Minute
	// namedUsers bounds the users that a message names.
	namedUsers = 5
)

// Reconciler brings each FirmwareSource into the store.
type Reconciler struct {
	Client client.Client
	// Reader reads past the cache, where a stale answer could free images that are still referred to.
	Reader client.Reader
	Store  *artifact.Store
	// Namespace is the product's, where the objects are that sources name.
	Namespace string
	Events    events.EventRecorder
	Now       func() time.Time

	fetching lanes
}

// SetupWithManager registers the reconciler.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	if err := mgr.Add(manager.RunnableFunc(r.collectRegularly)); err != nil {
		return fmt.Errorf("collect images: %w", err)
	}
	changed := predicate.Or(predicate.GenerationChangedPredicate{}, deleted)
	return ctrl.NewControllerManagedBy(mgr).Named("source").
		For(&v1alpha1.FirmwareSource{}, builder.WithPredicates(changed)).
		Watches(&v1alpha1.FirmwareTemplate{}, handler.EnqueueRequestsFromMapFunc(r.deletedSources), builder.WithPredicates(changed)).
		Watches(&v1alpha1.NodeFirmware{}, handler.EnqueueRequestsFromMapFunc(r.deletedSources), builder.WithPredicates(changed)).
		Watches(&v1alpha1.FirmwareJob{}, handler.EnqueueRequestsFromMapFunc(r.deletedSources), builder.WithPredicates(jobEnded)).
		Watches(&v1alpha1.FirmwareQuarantine{}, handler.EnqueueRequestsFromMapFunc(r.listing), builder.WithPredicates(watch.Changed(quarantineChanged))).
		WithOptions(controller.Options{MaxConcurrentReconciles: concurrency}).
		Complete(reconcile.AsReconciler(r.Client, r))
}

// deleted passes the update that marks an object for deletion, which changes no generation of a kind without one.
var deleted = predicate.NewPredicateFuncs(func(o client.Object) bool { return o.GetDeletionTimestamp() != nil })

// deletedSources wakes the sources whose deletion may have waited for the object that changed.
func (r *Reconciler) deletedSources(ctx context.Context, _ client.Object) []reconcile.Request {
	var list v1alpha1.FirmwareSourceList
	if err := r.Client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil { // each end of a job comes here
		return nil
	}
	var names []string
	for i := range list.Items {
		if list.Items[i].DeletionTimestamp != nil {
			names = append(names, list.Items[i].Name)
		}
	}
	return watch.Requests(names...)
}

// Reconcile runs the pipeline of one source as far as it gets.
func (r *Reconciler) Reconcile(ctx context.Context, src *v1alpha1.FirmwareSource) (ctrl.Result, error) {
	if src.DeletionTimestamp != nil {
		r.fetching.forget(src.Name)
		return r.finalize(ctx, src)
	}
	if !controllerutil.ContainsFinalizer(src, v1alpha1.SourceFinalizer) {
		before := src.DeepCopy()
		controllerutil.AddFinalizer(src, v1alpha1.SourceFinalizer)
		if err := r.Client.Patch(ctx, src, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
			return ctrl.Result{}, fmt.Errorf("add finalizer: %w", err)
		}
	}
	if r.fetching.waits(src.Name, src.Generation) { // what is reported is that it is being fetched
		return ctrl.Result{RequeueAfter: fetchSoon}, nil
	}
	facts := factsOf(src)
	images, err := r.run(ctx, src, &facts)
	if ctx.Err() != nil {
		return ctrl.Result{}, ctx.Err()
	}
	if errors.Is(err, errLater) {
		return ctrl.Result{RequeueAfter: fetchSoon}, nil
	}
	if err != nil {
		reason, again := artifact.ReasonOf(err)
		facts.Err, facts.Reason, facts.Transient = err, string(reason), again
	}
	if reportErr := r.report(ctx, src, facts, images); reportErr != nil {
		return ctrl.Result{}, reportErr
	}
	switch {
	case facts.Transient:
		return ctrl.Result{}, err
	case err != nil:
		return ctrl.Result{RequeueAfter: lookAgain}, nil
	}
	return ctrl.Result{RequeueAfter: lookAgain}, r.collect(ctx)
}

// run takes the source through its stages and leaves in facts the one it reached.
func (r *Reconciler) run(ctx context.Context, src *v1alpha1.FirmwareSource, facts *status.SourceFacts) ([]artifact.Image, error) {
	facts.Reached = status.SourceFetching
	if err := r.Store.Available(); err != nil {
		return nil, err
	}
	files, err := sourcefile.Of(src)
	if err != nil {
		return nil, err
	}
	if err := artifact.CheckUnique(files); err != nil {
		return nil, err
	}
	missing := r.Store.Missing(src.Name, files)
	if len(missing) > 0 && !failed(src) {
		if err := r.report(ctx, src, *facts, nil); err != nil {
			return nil, err
		}
	}
	var allowed *artifact.Access
	if len(missing) > 0 {
		if allowed, err = (access.Reader{Client: r.Reader, Namespace: r.Namespace}).Of(ctx, "spec", src.Spec.SecretRef, src.Spec.CARef); err != nil {
			return nil, err
		}
	}
	for _, f := range missing {
		f.Access = allowed
		if err := r.fetch(ctx, src, f, files); err != nil {
			return nil, err
		}
	}
	facts.Reached = status.SourcePublishing
	images, err := r.Store.Publish(src.Name, files)
	if err == nil {
		err = tooLarge(src, images)
	}
	if err != nil {
		return nil, err
	}
	facts.Reached, facts.Images = status.SourceDone, len(images)
	return images, nil
}

// fetch fetches one file, if it may now.
func (r *Reconciler) fetch(ctx context.Context, src *v1alpha1.FirmwareSource, f artifact.File, all []artifact.File) error {
	leave, ok := r.fetching.enter(f.URL)
	if !ok {
		r.fetching.wait(src.Name, src.Generation, f.URL)
		return errLater
	}
	defer leave()
	return r.Store.Download(ctx, src.Name, f, all...)
}

// failed reports whether the status reports a failure of the present spec. A new attempt keeps that status until it ends,
// so that the conditions of a source that keeps failing do not alternate.
func failed(src *v1alpha1.FirmwareSource) bool {
	ready := meta.FindStatusCondition(src.Status.Conditions, v1alpha1.ConditionReady)
	return src.Status.ObservedGeneration == src.Generation && ready != nil &&
		ready.Status == metav1.ConditionFalse && ready.Reason != v1alpha1.ReasonProgressing
}

// report writes the status if it differs from what is there.
func (r *Reconciler) report(ctx context.Context, src *v1alpha1.FirmwareSource, facts status.SourceFacts, images []artifact.Image) error {
	want := *src.Status.DeepCopy()
	want.ObservedGeneration = src.Generation
	if facts.Reached != status.SourceDone {
		// Ready says that nothing new may be taken from the list. What was verified and is still asked for stays on it,
		// so that an edit of the source does not take the image away from devices that have it assigned.
		images = r.inStore(src)
	}
	want.Images = stored(images)
	var err error
	if facts.Quarantined, err = r.quarantined(ctx, want.Images); err != nil {
		return err
	}
	want.Conditions = status.Source(want.Conditions, src.Generation, r.Now(), facts)
	return r.write(ctx, src, want)
}

func (r *Reconciler) write(ctx context.Context, src *v1alpha1.FirmwareSource, want v1alpha1.FirmwareSourceStatus) error {
	if equality.Semantic.DeepEqual(src.Status, want) {
		return nil
	}
	if err := fieldset.ApplyStore(ctx, r.Client, src, want); err != nil {
		return client.IgnoreNotFound(err)
	}
	before := src.Status.Conditions
	src.Status = want
	r.announce(src, before)
	return nil
}

func (r *Reconciler) inStore(src *v1alpha1.FirmwareSource) []artifact.Image {
	files, err := sourcefile.Of(src)
	if err != nil {
		return nil
	}
	images := r.Store.InStore(src.Name, files)
	if tooLarge(src, images) != nil {
		images = known(src, images)
	}
	return images[:min(len(images), maxImages)]
}

// announce emits one event for each change of the Ready condition's reason.
func (r *Reconciler) announce(src *v1alpha1.FirmwareSource, before []metav1.Condition) {
	is := meta.FindStatusCondition(src.Status.Conditions, v1alpha1.ConditionReady)
	was := meta.FindStatusCondition(before, v1alpha1.ConditionReady)
	if is == nil || (was != nil && was.Reason == is.Reason && was.Status == is.Status) || is.Reason == v1alpha1.ReasonProgressing {
		return
	}
	kind := "Normal"
	if is.Status != metav1.ConditionTrue {
		kind = "Warning"
	}
	r.Events.Eventf(src, nil, kind, is.Reason, "Fetch", "%s", is.Message)
}

// finalize removes the finalizer of a source when nothing refers to it any more.
func (r *Reconciler) finalize(ctx context.Context, src *v1alpha1.FirmwareSource) (ctrl.Result, error) {
	if !controllerutil.ContainsFinalizer(src, v1alpha1.SourceFinalizer) {
		return ctrl.Result{}, nil
	}
	users, err := r.users(ctx, src)
	if err != nil {
		return ctrl.Result{}, err
	}
	if len(users) > 0 {
		facts := factsOf(src)
		facts.Reached, facts.Images = status.SourceDone, len(src.Status.Images)
		facts.InUse, facts.InUseBy = len(users), users[:min(len(users), namedUsers)]
		want := *src.Status.DeepCopy()
		want.Conditions = status.Source(want.Conditions, src.Generation, r.Now(), facts)
		return ctrl.Result{}, r.write(ctx, src, want)
	}
	if err := r.Store.Remove(src.Name); err != nil {
		return ctrl.Result{}, err
	}
	if err := r.collect(ctx); err != nil {
		return ctrl.Result{}, err
	}
	before := src.DeepCopy()
	controllerutil.RemoveFinalizer(src, v1alpha1.SourceFinalizer)
	// The patch carries the whole list: with the version it does not take away a finalizer somebody added meanwhile.
	if err := r.Client.Patch(ctx, src, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("remove finalizer: %w", err)
	}
	return ctrl.Result{}, nil
}

func stored(images []artifact.Image) []v1alpha1.StoredImage {
	out := make([]v1alpha1.StoredImage, 0, len(images))
	for _, i := range images {
		out = append(out, v1alpha1.StoredImage{
			Version: string(i.Version), Class: v1alpha1.DeviceClass(i.Class), Vendor: i.Vendor, Models: i.Models, BoardIDs: i.BoardIDs,
			Digest: v1alpha1.Digest(i.Digest.String()),
		})
	}
	return out
}

func factsOf(src *v1alpha1.FirmwareSource) status.SourceFacts {
	return status.SourceFacts{Name: src.Name, Files: len(src.Spec.Files), Verification: src.Spec.Verification}
}
