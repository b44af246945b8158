package storedversion

import (
	"context"
	"fmt"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// Options says what is looked at, and when.
type Options struct {
	// Definitions are the names of the CustomResourceDefinitions, such as nodedevices.nodefirmware.io.
	Definitions []string
	// Every is how often a definition is looked at when nothing is to be done.
	Every time.Duration
	// Settles is how long a definition is left alone after this process saw its generation first: the API servers of a cluster learn of it one
	// after the other, and one that has not would still store objects in the version before.
	Settles time.Duration
}

// Reconciler follows what Kubernetes says of the stored versions of each of the product's definitions. Each Reconcile reads one
// definition, and stores one page of its objects anew at most. What is to be done follows from the definition and its
// StorageVersionMigration; what this process remembers only saves work.
//
// Definitions are neither watched nor cached: an operator that may not read them yet does everything else.
type Reconciler struct {
	client client.Client
	// direct reads from the API server.
	direct   client.Reader
	mapper   meta.RESTMapper
	now      func() time.Time
	progress *Progress
	options  Options
	// passes are those under way, by the name of the definition. One worker has them.
	passes map[string]*pass
	// page is how many objects one Reconcile stores anew.
	page int64
}

// New returns a reconciler, which reports to progress.
func New(c client.Client, direct client.Reader, mapper meta.RESTMapper, now func() time.Time, progress *Progress, o Options) *Reconciler {
	return &Reconciler{client: c, direct: direct, mapper: mapper, now: now, progress: progress, options: o, passes: map[string]*pass{}, page: 500}
}

// SetupWithManager adds the controller to the manager. It begins with every definition, and each Reconcile says when the next one is due;
// after errors that is at the latest as soon as at rest.
func (r *Reconciler) SetupWithManager(mgr manager.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named("storedversion").
		WithOptions(controller.Options{RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](min(time.Second, r.options.Every), r.options.Every)}).
		WatchesRawSource(source.Func(func(_ context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
			for _, name := range r.options.Definitions {
				q.Add(reconcile.Request{NamespacedName: types.NamespacedName{Name: name}})
			}
			return nil
		})).
		Complete(r)
}

// pass is what this process has done so far for one generation of a definition.
type pass struct {
	uid        types.UID
	generation int64
	// since is when this process saw the generation first, or when it asked the API server to migrate.
	since time.Time
	// alone says that the API server does not accept a migration of its own.
	alone bool
	// next is the token of the next page; listed says that there is none.
	next   string
	listed bool
	// refused are the objects that the API server did not store, each with the resourceVersion that it was listed with.
	refused map[string]string
	// due are those of them that are still to be tried in this round, and again is when the next round begins.
	due   []string
	again time.Time
	// said is what the API server said of some of them.
	said map[string]string
	// stored counts the objects that were stored anew.
	stored int
}

// maxSaid is of how many refused objects it is kept what the API server said.
const maxSaid = 3

func (p *pass) refuse(name, resourceVersion, text string) {
	p.refused[name] = resourceVersion
	if _, has := p.said[name]; has || len(p.said) < maxSaid {
		p.said[name] = text
	}
}

func (p *pass) done(name string) {
	delete(p.refused, name)
	delete(p.said, name)
}

// Reconcile takes the next step for one definition.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	f, err := r.gather(ctx, req.Name)
	if err != nil {
		return reconcile.Result{}, err
	}
	return r.act(ctx, f, decide(f))
}

// gather reads the definition and its StorageVersionMigration. Objects are reported as soon as they may be outdated, so that nothing that
// fails afterwards hides them.
func (r *Reconciler) gather(ctx context.Context, name string) (facts, error) {
	f := facts{name: name, now: r.now(), settles: r.options.Settles}
	var d apiextensionsv1.CustomResourceDefinition
	switch err := r.direct.Get(ctx, client.ObjectKey{Name: name}, &d); {
	case apierrors.IsNotFound(err):
		r.forget(name)
	case err != nil:
		r.progress.begin(name)
		return f, fmt.Errorf("get definition %s: %w", name, err)
	case d.DeletionTimestamp != nil:
		r.forget(name)
	default:
		f.definition, f.asRead = &d, d.DeepCopy()
		f.pass = r.passOf(f)
		if f.isOutdated() {
			r.progress.begin(name)
		}
	}
	var err error
	f.migration, err = r.readMigration(ctx, name)
	return f, err
}

// passOf returns the pass under way for a definition. It begins anew when the definition changed.
func (r *Reconciler) passOf(f facts) *pass {
	d := f.definition
	p := r.passes[f.name]
	if p == nil || p.uid != d.UID || p.generation != d.Generation {
		p = &pass{uid: d.UID, generation: d.Generation, since: f.now, refused: map[string]string{}, said: map[string]string{}}
		r.passes[f.name] = p
	}
	return p
}

func (r *Reconciler) forget(name string) {
	delete(r.passes, name)
	r.progress.forget(name)
}

// act does what was decided.
func (r *Reconciler) act(ctx context.Context, f facts, a action) (reconcile.Result, error) {
	rest := reconcile.Result{RequeueAfter: r.options.Every}
	switch a {
	case idle, tidy:
		return rest, r.finish(ctx, f)
	case drop:
		return rest, r.forgetMigration(ctx, f)
	case settle:
		return reconcile.Result{RequeueAfter: f.settles - f.now.Sub(f.pass.since)}, r.count(ctx, f)
	case ask:
		return r.ask(ctx, f)
	case await:
		return reconcile.Result{RequeueAfter: looksAgain}, r.count(ctx, f)
	default:
		return r.store(ctx, f)
	}
}
