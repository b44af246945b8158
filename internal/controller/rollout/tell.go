package rollout

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/status"
)

// teller tells jobs what the last pass decided about them, beside the passes, so that no ledger waits for it. What it has not written
// when the process ends, the first pass of the next one decides again: the ledger has the place, or the job goes on to wait.
type teller struct {
	// write writes a condition, and again asks for another pass.
	write func(context.Context, telling) (outcome, error)
	again func()

	mu    sync.Mutex
	wants map[string]telling // by name of the job
	queue workQueue          // nil until the controller runs
}

// telling is what the condition Admitted of a job should say.
type telling struct {
	job  *v1alpha1.FirmwareJob
	want status.Condition
}

func newTeller(write func(context.Context, telling) (outcome, error), again func()) *teller {
	return &teller{write: write, again: again, wants: map[string]telling{}}
}

// tell replaces all that was to be told before. No two tellings are about the same job. One that stays the same, about the same version of
// the job, is not hurried: it is queued already, being written, or waits after an error.
func (t *teller) tell(tellings []telling) {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := t.wants
	t.wants = make(map[string]telling, len(tellings))
	for _, w := range tellings {
		t.wants[w.job.Name] = w
		if before[w.job.Name] != w && t.queue != nil {
			t.queue.Add(request(w.job.Name))
		}
	}
}

// setup adds the controller that writes, with so many workers.
func (t *teller) setup(mgr manager.Manager, name string, workers int) error {
	err := ctrl.NewControllerManagedBy(mgr).Named(name).
		WatchesRawSource(source.Func(func(_ context.Context, q workQueue) error {
			t.open(q)
			return nil
		})).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: workers,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, lastRetry),
		}).
		Complete(t)
	if err != nil {
		return fmt.Errorf("set up %s controller: %w", name, err)
	}
	return nil
}

func (t *teller) open(q workQueue) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.queue = q
	for name := range t.wants {
		q.Add(request(name))
	}
}

// Reconcile tells one job what is still to be told. One that changed meanwhile is decided about anew.
func (t *teller) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	t.mu.Lock()
	w, is := t.wants[req.Name]
	t.mu.Unlock()
	if !is {
		return reconcile.Result{}, nil
	}
	out, err := t.write(ctx, w)
	if err != nil {
		return reconcile.Result{}, err
	}
	t.mu.Lock()
	if t.wants[req.Name] == w {
		delete(t.wants, req.Name)
	}
	t.mu.Unlock()
	if out == outdated {
		t.again()
	}
	return reconcile.Result{}, nil
}

func request(job string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Name: job}}
}
