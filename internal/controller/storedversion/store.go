package storedversion

import (
	"context"
	"errors"
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

// store stores the next page of objects anew. After the last one it tries those again that were refused, a page of them at a time, and when there
// are none left it says so in the definition.
func (r *Reconciler) store(ctx context.Context, f facts) (reconcile.Result, error) {
	p := f.pass
	if !p.listed && p.next == "" {
		if err := r.begin(ctx, f); err != nil {
			return reconcile.Result{}, err
		}
		if wait := f.settles - f.now.Sub(p.since); wait > 0 {
			return reconcile.Result{RequeueAfter: wait}, nil
		}
	}
	if p.listed && len(p.due) == 0 && len(p.refused) > 0 {
		if wait := p.again.Sub(f.now); wait > 0 {
			return reconcile.Result{RequeueAfter: wait}, nil
		}
		p.due = slices.Sorted(maps.Keys(p.refused))
	}
	left, err := r.storeNext(ctx, f)
	if err != nil {
		return reconcile.Result{}, err
	}
	r.progress.Set(f.name, Left{Pending: left, Refused: len(p.refused)})
	switch {
	case !p.listed, len(p.due) > 0:
		r.progress.begin(f.name)
		return reconcile.Result{RequeueAfter: time.Nanosecond}, nil
	case len(p.refused) > 0:
		p.again = f.now.Add(triesAgain)
		log.FromContext(ctx).Info("Objects are not stored anew", "definition", f.name, "version", f.storage(), "objects", len(p.refused))
		return reconcile.Result{RequeueAfter: triesAgain}, r.announce(ctx, f, status.StorageMigrating(f.storage(), len(p.refused), p.said))
	}
	r.progress.begin(f.name)
	f.definition.Status.StoredVersions = []string{f.storage()}
	if err := r.announce(ctx, f, status.StorageMigrated(f.storage())); err != nil {
		return reconcile.Result{}, err
	}
	log.FromContext(ctx).Info("Stored all objects anew", "definition", f.name, "version", f.storage(), "objects", p.stored)
	return reconcile.Result{RequeueAfter: r.options.Every}, r.finish(ctx, f)
}

// begin says in the definition that its objects are going to be stored anew. Where nothing there tells any more that they have to be, because the
// API server's migration failed and took the earlier versions away, it gives them back: the API server then lets nobody remove a version
// from the definition in which an object may be stored.
func (r *Reconciler) begin(ctx context.Context, f facts) error {
	if err := r.count(ctx, f); err != nil {
		return err
	}
	if !f.isOutdated() {
		f.definition.Status.StoredVersions = nil
		for _, v := range f.definition.Spec.Versions {
			f.definition.Status.StoredVersions = append(f.definition.Status.StoredVersions, v.Name)
		}
	}
	return r.announce(ctx, f, status.StorageMigrating(f.storage(), 0, nil))
}

// storeNext stores the objects of the next page anew, or the next of those that were refused. It returns how many there are on further pages.
func (r *Reconciler) storeNext(ctx context.Context, f facts) (left int, err error) {
	p := f.pass
	if p.listed {
		for range min(len(p.due), int(r.page)) {
			if err := r.storeOne(ctx, f, p.due[0], p.refused[p.due[0]]); err != nil {
				return 0, err
			}
			p.due = p.due[1:]
		}
		return 0, nil
	}
	list, err := r.list(ctx, f, r.page)
	if apierrors.IsResourceExpired(err) {
		if p.next = continuation(err); p.next != "" {
			list, err = r.list(ctx, f, r.page)
		}
	}
	if err != nil {
		return 0, fmt.Errorf("list %s: %w", f.name, err)
	}
	for i := range list.Items {
		if err := r.storeOne(ctx, f, list.Items[i].Name, list.Items[i].ResourceVersion); err != nil {
			return 0, err
		}
	}
	p.next, p.listed = list.Continue, list.Continue == ""
	if n := list.RemainingItemCount; n != nil {
		left = int(*n)
	}
	return left, nil
}

// continuation is the token that the API server gives in place of an expired one. The list goes on with it after the same object, as the objects
// are now, so that a long pass comes to its end: what was created meanwhile is stored in the present version anyway. Without one it begins
// anew, which costs little: an object that is stored as it should be is not written.
func continuation(err error) string {
	var is apierrors.APIStatus
	if !errors.As(err, &is) {
		return ""
	}
	return is.Status().Continue
}

func (r *Reconciler) list(ctx context.Context, f facts, limit int64) (*metav1.PartialObjectMetadataList, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(f.kind(f.definition.Spec.Names.ListKind))
	return list, r.direct.List(ctx, list, client.Limit(limit), client.Continue(f.pass.next))
}

func (f facts) kind(name string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: f.definition.Spec.Group, Version: f.served(), Kind: name}
}

// storeOne has the API server store an object anew: it does so with a write that changes nothing, when the version differs in which the object
// is stored. The write goes to the status, which gives no right on what people wrote and is not compared with the rules for a spec. The error
// is one that another object would meet as well; what is said of this one alone is noted.
func (r *Reconciler) storeOne(ctx context.Context, f facts, name, resourceVersion string) error {
	o := r.object(f, name)
	err := r.client.Status().Patch(ctx, o, client.RawPatch(types.MergePatchType, []byte(`{}`)), client.FieldOwner(v1alpha1.FieldOwnerOperator))
	said := err
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		var is bool
		if is, err = r.isElsewise(ctx, f, name, resourceVersion); is {
			f.pass.done(name)
			return nil
		}
	}
	switch {
	case err != nil && !isRefusal(err):
		return fmt.Errorf("store %s %s anew: %w", f.definition.Spec.Names.Plural, name, err)
	case said != nil:
		f.pass.refuse(name, resourceVersion, said.Error())
	default:
		f.pass.stored++
		f.pass.done(name)
	}
	return nil
}

func (r *Reconciler) object(f facts, name string) *metav1.PartialObjectMetadata {
	o := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name}}
	o.SetGroupVersionKind(f.kind(f.definition.Spec.Names.Kind))
	return o
}

// isElsewise reports whether an object is gone, or was written since it was listed, which stored it anew. A write that is answered with NotFound or
// Conflict does not tell: a webhook may deny with either, and an API server that does not serve the version yet finds nothing.
func (r *Reconciler) isElsewise(ctx context.Context, f facts, name, resourceVersion string) (bool, error) {
	o := r.object(f, name)
	err := r.direct.Get(ctx, client.ObjectKeyFromObject(o), o)
	if apierrors.IsNotFound(err) {
		return !apierrors.IsUnexpectedServerError(err), nil // unexpected is an answer that does not come from the resource
	}
	return err == nil && o.ResourceVersion != resourceVersion, err
}

// isRefusal reports whether the API server has something against this object, rather than no time.
func isRefusal(err error) bool {
	return apierrors.ReasonForError(err) != metav1.StatusReasonUnknown && !apierrors.IsTooManyRequests(err) && !apierrors.IsServiceUnavailable(err) &&
		!apierrors.IsServerTimeout(err) && !apierrors.IsTimeout(err) && !apierrors.IsUnauthorized(err)
}

// count reports all objects as not stored anew yet.
func (r *Reconciler) count(ctx context.Context, f facts) error {
	r.progress.begin(f.name)
	list, err := r.list(ctx, f, 1)
	if err != nil {
		return fmt.Errorf("count %s: %w", f.name, err)
	}
	n := int64(len(list.Items))
	if more := list.RemainingItemCount; more != nil {
		n += *more
	}
	r.progress.Set(f.name, Left{Pending: max(int(n), 1)})
	return nil
}

// announce writes the progress into the definition. The API server refuses that when the definition was changed since it was read.
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
	if err := r.forgetMigration(ctx, f); err != nil {
		return err
	}
	delete(r.passes, f.name)
	r.progress.Set(f.name, Left{})
	return nil
}
