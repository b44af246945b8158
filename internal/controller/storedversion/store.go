package storedversion

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/status"
)

// store stores the next page of objects anew. After the last one it tries those again that were refused, and when there are none left it
// says so in the definition.
func (r *Reconciler) store(ctx context.Context, f facts) (reconcile.Result, error) {
	p := f.pass
	if !p.listed && p.next == "" {
		if err := r.begin(ctx, f); err != nil {
			return reconcile.Result{}, err
		}
		if wait := settles - f.now.Sub(p.since); wait > 0 {
			return reconcile.Result{RequeueAfter: wait}, nil
		}
	}
	if p.listed && f.now.Before(p.again) {
		return reconcile.Result{RequeueAfter: p.again.Sub(f.now)}, nil
	}
	left, err := r.storeNext(ctx, f)
	if err != nil {
		return reconcile.Result{}, err
	}
	r.progress.Set(f.definition.Name, Left{Pending: left, Refused: len(p.refused)})
	switch {
	case !p.listed:
		return reconcile.Result{RequeueAfter: time.Nanosecond}, nil
	case len(p.refused) > 0:
		p.again = f.now.Add(triesAgain)
		log.FromContext(ctx).Info("Objects are not stored anew", "definition", f.definition.Name, "version", f.storage(), "objects", len(p.refused))
		return reconcile.Result{RequeueAfter: triesAgain}, r.announce(ctx, f, status.StorageMigrating(f.storage(), p.refused))
	}
	f.definition.Status.StoredVersions = []string{f.storage()}
	if err := r.announce(ctx, f, status.StorageMigrated(f.storage())); err != nil {
		return reconcile.Result{}, err
	}
	log.FromContext(ctx).Info("Stored all objects anew", "definition", f.definition.Name, "version", f.storage(), "objects", p.stored)
	return reconcile.Result{}, r.finish(ctx, f)
}

// begin says in the definition that its objects are going to be stored anew. Where nothing there tells any more that they have to be, because the
// API server's migration failed and took the earlier versions away, it gives them back: the API server then lets nobody remove a version
// from the definition in which an object may be stored.
func (r *Reconciler) begin(ctx context.Context, f facts) error {
	if !f.isOutdated() {
		f.definition.Status.StoredVersions = nil
		for _, v := range f.definition.Spec.Versions {
			f.definition.Status.StoredVersions = append(f.definition.Status.StoredVersions, v.Name)
		}
	}
	if err := r.announce(ctx, f, status.StorageMigrating(f.storage(), nil)); err != nil {
		return err
	}
	return r.count(ctx, f)
}

// storeNext stores the objects of the next page anew, or those that were refused. It returns how many there are on further pages.
func (r *Reconciler) storeNext(ctx context.Context, f facts) (left int, err error) {
	p := f.pass
	if p.listed {
		for name := range maps.Clone(p.refused) {
			if err := r.storeOne(ctx, f, name); err != nil {
				return 0, err
			}
		}
		return 0, nil
	}
	list, err := r.list(ctx, f, r.page)
	switch {
	case apierrors.IsResourceExpired(err): // the token: from the beginning again, which costs no more than reads
		p.next = ""
		return 0, fmt.Errorf("list the next page of %s: %w", f.definition.Name, err)
	case err != nil:
		return 0, fmt.Errorf("list %s: %w", f.definition.Name, err)
	}
	for i := range list.Items {
		if err := r.storeOne(ctx, f, list.Items[i].Name); err != nil {
			return 0, err
		}
	}
	p.next, p.listed = list.Continue, list.Continue == ""
	if n := list.RemainingItemCount; n != nil {
		left = int(*n)
	}
	return left, nil
}

func (r *Reconciler) list(ctx context.Context, f facts, limit int64) (*metav1.PartialObjectMetadataList, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(f.kind(f.definition.Spec.Names.ListKind))
	return list, r.direct.List(ctx, list, client.Limit(limit), client.Continue(f.pass.next))
}

func (f facts) kind(name string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: f.definition.Spec.Group, Version: f.storage(), Kind: name}
}

// storeOne has the API server store an object anew: it does so with a write that changes nothing, when the version differs in which the object
// is stored. The write goes to the status, which gives no right on what people wrote and is not compared with the rules for a spec. An
// object that somebody else has written meanwhile was stored anew by that. The error is one that another object would meet as well; what
// is said of this one alone is noted.
func (r *Reconciler) storeOne(ctx context.Context, f facts, name string) error {
	o := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name}}
	o.SetGroupVersionKind(f.kind(f.definition.Spec.Names.Kind))
	err := r.client.Status().Patch(ctx, o, client.RawPatch(types.MergePatchType, []byte(`{}`)), client.FieldOwner(v1alpha1.FieldOwnerOperator))
	switch {
	case err == nil:
		f.pass.stored++
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
	case isRefusal(err):
		f.pass.refused[name] = err.Error()
		return nil
	default:
		return fmt.Errorf("store %s %s anew: %w", f.definition.Spec.Names.Plural, name, err)
	}
	delete(f.pass.refused, name)
	return nil
}

// isRefusal reports whether the API server has something against this object, rather than no time.
func isRefusal(err error) bool {
	return apierrors.ReasonForError(err) != metav1.StatusReasonUnknown && !apierrors.IsTooManyRequests(err) && !apierrors.IsServiceUnavailable(err) &&
		!apierrors.IsServerTimeout(err) && !apierrors.IsTimeout(err) && !apierrors.IsUnauthorized(err)
}

// count reports all objects as not stored anew yet.
func (r *Reconciler) count(ctx context.Context, f facts) error {
	list, err := r.list(ctx, f, 1)
	if err != nil {
		return fmt.Errorf("count %s: %w", f.definition.Name, err)
	}
	n := int64(len(list.Items))
	if more := list.RemainingItemCount; more != nil {
		n += *more
	}
	r.progress.Set(f.definition.Name, Left{Pending: int(n)})
	return nil
}

// announce says in the definition how far it is. The API server refuses that when the definition was changed since it was read.
func (r *Reconciler) announce(ctx context.Context, f facts, c status.Condition) error {
	set(&f.definition.Status, c, f.now)
	if equality.Semantic.DeepEqual(f.definition.Status, f.asRead.Status) {
		return nil
	}
	patch := client.MergeFromWithOptions(f.asRead, client.MergeFromWithOptimisticLock{})
	if err := r.client.Status().Patch(ctx, f.definition, patch, client.FieldOwner(v1alpha1.FieldOwnerOperator)); err != nil {
		return fmt.Errorf("write the stored versions of definition %s: %w", f.definition.Name, err)
	}
	f.definition.DeepCopyInto(f.asRead)
	return nil
}

// set replaces a condition of a definition. One that says the same stays as it is.
func set(s *apiextensionsv1.CustomResourceDefinitionStatus, c status.Condition, now time.Time) {
	want := apiextensionsv1.CustomResourceDefinitionCondition{
		Type: apiextensionsv1.CustomResourceDefinitionConditionType(c.Type), Status: apiextensionsv1.ConditionStatus(c.Status), Reason: c.Reason, Message: c.Message,
		LastTransitionTime: metav1.NewTime(now.Truncate(time.Second)),
	}
	i := slices.IndexFunc(s.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool { return c.Type == want.Type })
	if i < 0 {
		s.Conditions = append(s.Conditions, want)
		return
	}
	if s.Conditions[i].Status == want.Status {
		want.LastTransitionTime = s.Conditions[i].LastTransitionTime
	}
	s.Conditions[i] = want
}

// finish forgets what was needed on the way.
func (r *Reconciler) finish(ctx context.Context, f facts) error {
	if f.definition == nil {
		return nil
	}
	if err := r.forgetMigration(ctx, f); err != nil {
		return err
	}
	delete(r.passes, f.definition.Name)
	r.progress.Set(f.definition.Name, Left{})
	return nil
}
