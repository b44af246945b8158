package storedversion

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// migrationKind is the API server's own migration (KEP-4192). v1beta1, of Kubernetes 1.35 and 1.36, is off unless it is switched on; v1, of 1.37, is
// on. Both have the same fields.
var migrationKind = schema.GroupKind{Group: "storagemigration.k8s.io", Kind: "StorageVersionMigration"}

// migration is an empty StorageVersionMigration in the newest version that is served; nil where none is. There is one for each definition, of
// its name.
func (r *Reconciler) migration(name string) (*unstructured.Unstructured, error) {
	mapping, err := r.mapper.RESTMapping(migrationKind)
	switch {
	case meta.IsNoMatchError(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("discover %s: %w", migrationKind, err)
	case mapping.GroupVersionKind.Version == "v1alpha1":
		return nil, nil // until Kubernetes 1.34, with other fields
	}
	m := &unstructured.Unstructured{}
	m.SetGroupVersionKind(mapping.GroupVersionKind)
	m.SetName(name)
	return m, nil
}

// readMigration reads the progress of the API server's migration of a definition.
func (r *Reconciler) readMigration(ctx context.Context, name string) (stage, error) {
	m, err := r.migration(name)
	if m == nil {
		return notServed, err
	}
	switch err := r.direct.Get(ctx, client.ObjectKeyFromObject(m), m); {
	case apierrors.IsNotFound(err):
		return absent, nil
	case err != nil:
		return "", fmt.Errorf("get storage version migration %s: %w", name, err)
	}
	var is struct {
		Status struct {
			Conditions []metav1.Condition `json:"conditions"`
		} `json:"status"`
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(m.Object, &is); err != nil {
		return "", fmt.Errorf("read storage version migration %s: %w", name, err)
	}
	conditions := is.Status.Conditions
	switch { // while Running is True, the definition has not heard of the end yet
	case meta.IsStatusConditionTrue(conditions, "Running"):
		return running, nil
	case meta.IsStatusConditionTrue(conditions, "Succeeded"):
		return succeeded, nil
	case meta.IsStatusConditionTrue(conditions, "Failed"):
		return failed, nil
	}
	return waiting, nil
}

// ask has the API server migrate the objects of a definition. From then on it is waited for. Where it does not accept that, because the roles or a
// policy are of an earlier release, the objects are stored without it.
func (r *Reconciler) ask(ctx context.Context, f facts) (reconcile.Result, error) {
	if err := r.count(ctx, f); err != nil {
		return reconcile.Result{}, err
	}
	m, err := r.migration(f.name)
	if m == nil {
		return reconcile.Result{RequeueAfter: looksAgain}, err
	}
	m.Object["spec"] = map[string]any{"resource": map[string]any{"group": f.definition.Spec.Group, "resource": f.definition.Spec.Names.Plural}}
	l := log.FromContext(ctx).WithValues("definition", f.name, "version", f.storage())
	switch err := r.client.Create(ctx, m, client.FieldOwner(v1alpha1.FieldOwnerOperator)); {
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err):
		l.Info("The API server does not accept a storage version migration; the operator stores the objects anew itself", "err", err.Error())
		f.pass.alone = true
		return r.store(ctx, f)
	case err == nil:
		l.Info("Asked the API server to store objects anew")
	case !apierrors.IsAlreadyExists(err):
		return reconcile.Result{}, fmt.Errorf("create storage version migration %s: %w", m.GetName(), err)
	}
	f.pass.since = f.now
	return reconcile.Result{RequeueAfter: looksAgain}, nil
}

// forgetMigration deletes the API server's migration of a definition, which has come to its end or is not waited for any longer.
func (r *Reconciler) forgetMigration(ctx context.Context, f facts) error {
	if f.migration == notServed || f.migration == absent {
		return nil
	}
	m, err := r.migration(f.name)
	if m == nil {
		return err
	}
	if err := r.client.Delete(ctx, m); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete storage version migration %s: %w", m.GetName(), err)
	}
	return nil
}
