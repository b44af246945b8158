package storedversion

import (
	"context"
	"fmt"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// Reconciler follows what Kubernetes says of the stored versions of each of the product's definitions. Each Reconcile looks at one
// definition, and stores one page of its objects anew at most. What is to be done follows from the definition and its
// StorageVersionMigration; what is remembered, how far this process is, only spares work.
type Reconciler struct {
	client client.Client
	// direct reads from the API server.
	direct   client.Reader
	mapper   meta.RESTMapper
	now      func() time.Time
	progress *Progress
	// passes are those under way, by the name of the definition. One worker has them.
	passes map[string]*pass
	// page is how many objects one Reconcile stores anew.
	page int64
}

// New returns a reconciler, which reports to progress.
func New(c client.Client, direct client.Reader, mapper meta.RESTMapper, now func() time.Time, progress *Progress) *Reconciler {
	return &Reconciler{client: c, direct: direct, mapper: mapper, now: now, progress: progress, passes: map[string]*pass{}, page: 500}
}

// SetupWithManager adds the controller to the manager. The definitions are watched by their metadata, which is small.
func (r *Reconciler) SetupWithManager(mgr manager.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named("storedversion").
		For(&apiextensionsv1.CustomResourceDefinition{}, builder.OnlyMetadata, builder.WithPredicates(predicate.NewPredicateFuncs(isOurs))).
		Complete(r)
}

// isOurs reports whether a definition is one of the product's, by its name, which the API server makes sure of.
func isOurs(o client.Object) bool {
	_, group, _ := strings.Cut(o.GetName(), ".")
	return group == v1alpha1.GroupName
}

// pass is how far this process is with a generation of a definition.
type pass struct {
	uid        types.UID
	generation int64
	// since is when this process saw the generation first.
	since time.Time
	// next is the token of the next page; listed says that there is none.
	next   string
	listed bool
	// refused are the objects that the API server did not store, each with what it said, and again when they are tried once more.
	refused map[string]string
	again   time.Time
	// stored counts the objects that were stored anew.
	stored int
}

// Reconcile takes the next step for one definition.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	f, err := r.gather(ctx, req.Name)
	if err != nil {
		return reconcile.Result{}, err
	}
	return r.act(ctx, f, decide(f))
}

// gather reads the definition and its StorageVersionMigration.
func (r *Reconciler) gather(ctx context.Context, name string) (facts, error) {
	f := facts{now: r.now()}
	var d apiextensionsv1.CustomResourceDefinition
	switch err := r.direct.Get(ctx, client.ObjectKey{Name: name}, &d); {
	case apierrors.IsNotFound(err):
		delete(r.passes, name)
		r.progress.forget(name)
		return f, nil
	case err != nil:
		return f, fmt.Errorf("get definition %s: %w", name, err)
	}
	if d.DeletionTimestamp != nil {
		return f, nil
	}
	f.definition, f.asRead = &d, d.DeepCopy()
	p := r.passes[name]
	if p == nil || p.uid != d.UID || p.generation != d.Generation {
		p = &pass{uid: d.UID, generation: d.Generation, since: f.now, refused: map[string]string{}}
		r.passes[name] = p
	}
	f.pass = p
	var err error
	f.migration, err = r.readMigration(ctx, name)
	return f, err
}

// act does what was decided.
func (r *Reconciler) act(ctx context.Context, f facts, a action) (reconcile.Result, error) {
	switch a {
	case idle:
		return reconcile.Result{}, r.finish(ctx, f)
	case ask:
		log.FromContext(ctx).Info("Asked the API server to store objects anew", "definition", f.definition.Name, "version", f.storage())
		return reconcile.Result{RequeueAfter: looksAgain}, r.ask(ctx, f)
	case await:
		return reconcile.Result{RequeueAfter: looksAgain}, r.count(ctx, f)
	case tidy:
		return reconcile.Result{}, r.finish(ctx, f)
	default:
		return r.store(ctx, f)
	}
}
