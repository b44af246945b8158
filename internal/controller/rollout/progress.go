package rollout

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/fieldset"
	"github.com/nodefirmware/node-firmware-operator/internal/schedule"
	"github.com/nodefirmware/node-firmware-operator/internal/schedule/window"
	"github.com/nodefirmware/node-firmware-operator/internal/status"
)

const (
	// maxReasons bounds the reasons in a policy's status, as the API does.
	maxReasons = 32
	// minEnded is how many jobs must have ended at least before their pace says anything.
	minEnded = 3
)

// pace is how fast the jobs of a pool end, as this process measured it since the rollout began: only while the rollout was steady, and
// the pool was open.
type pace struct {
	// ended counts the jobs that ended in the time elapsed.
	ended   int
	elapsed time.Duration
	// at is when it was last measured, and steady says that the time since then counts.
	at     time.Time
	steady bool
}

// next measures up to now.
func (p pace) next(now time.Time, ended int, steady bool, open *window.Calendar) pace {
	if p.steady {
		p.ended += ended
		p.elapsed += open.Elapsed(p.at, now)
	}
	p.at, p.steady = now, steady
	return p
}

// ends counts the jobs that leave the ledger of a policy now.
func (f facts) ends(o schedule.Outcome) (n int) {
	for _, removed := range o.Remove {
		if removed.Why == schedule.JobFinished && f.jobs[removed.Entry.UID] != nil {
			n++
		}
	}
	return n + len(o.Replace)
}

// waitingOf counts the nodes that wait by the reason of their first job.
func waitingOf(waiting []schedule.Waiting) (out []v1alpha1.WaitingNodes) {
	seen := map[string]bool{}
	for _, w := range waiting {
		if seen[w.Node] {
			continue
		}
		seen[w.Node] = true
		at := slices.IndexFunc(out, func(n v1alpha1.WaitingNodes) bool { return n.Reason == string(w.Reason) })
		switch {
		case at >= 0:
			out[at].Nodes++
		case len(out) < maxReasons:
			out = append(out, v1alpha1.WaitingNodes{Reason: string(w.Reason), Nodes: 1})
		}
	}
	return out
}

// writeProgress says when the rollout of a pool began and when it will end. The estimate is derived anew only when a job ended or other
// nodes wait for other reasons, so that the mere passing of time writes nothing. It returns the pace that it is derived from, which counts
// once the status is written.
func (r *Reconciler) writeProgress(old *v1alpha1.RolloutPolicy, s *v1alpha1.RolloutPolicyStatus, ended int, o schedule.Outcome, open *window.Calendar) pace {
	now := r.now().Truncate(time.Second)
	atRest := len(o.Queue)+len(o.Ledger) == 0
	wasAtRest := s.StartTime == nil || meta.IsStatusConditionTrue(old.Status.Conditions, v1alpha1.ConditionComplete)
	p := r.paces[old.UID]
	if !atRest && wasAtRest {
		s.StartTime, s.EstimatedCompletionTime = timeOf(now), nil
		p = pace{}
	}
	p = p.next(now, ended, !atRest && isSteady(o), open)
	left := len(o.Queue) + len(o.Ledger) + r.refused(old.Name)
	switch same := slices.Equal(old.Status.Waiting, s.Waiting); {
	case atRest || !isSteady(o):
		s.EstimatedCompletionTime = nil
	case p.ended < minEnded || p.ended < o.Budget: // what another process derived holds
	case ended > 0 || !same || s.EstimatedCompletionTime == nil:
		each := max(time.Second, p.elapsed/time.Duration(p.ended))
		s.EstimatedCompletionTime = nil
		if end := open.After(now, time.Duration(left)*each); !end.IsZero() {
			s.EstimatedCompletionTime = timeOf(end.Truncate(time.Minute))
		}
	}
	return p
}

// isSteady reports whether what is left of a rollout waits for nothing but time that is known.
func isSteady(o schedule.Outcome) bool {
	return len(o.Held) == 0 && o.TooLong == 0 && !slices.ContainsFunc(o.Queue, func(w schedule.Waiting) bool {
		return w.Reason != schedule.BudgetExhausted && w.Reason != schedule.OutsideWindow
	})
}

// admitted is the Admitted condition of a job as this process last wrote it. It counts until the cache has seen that
// write, so that no pass repeats it.
type admitted struct {
	version string
	status  metav1.ConditionStatus
	reason  string
	message string
}

// outcome is what came of a write.
type outcome int

const (
	failed outcome = iota
	written
	// gone: there is no such job any more.
	gone
	// outdated: the job was changed meanwhile, or is another one of that name. The change may be one that starts no pass.
	outdated
)

// writeAdmitted writes the Admitted condition of one job. One that is admitted is protected first. Every write is a compare-and-swap
// with the version that the decision was made about, or the one this process wrote since; one that was admitted since is told nothing
// else.
func (r *Reconciler) writeAdmitted(ctx context.Context, t telling) (outcome, error) {
	j, want := t.job, t.want
	if r.isWritten(j, want) {
		return written, nil
	}
	conditions := status.Merge(j.Status.Conditions, j.Generation, r.now(), []string{v1alpha1.ConditionAdmitted}, want)
	version := j.ResourceVersion
	if last, ok := r.lastWritten(j); ok {
		if last.status == metav1.ConditionTrue {
			return outdated, nil
		}
		version = last.version
	}
	var err error
	if want.Status == metav1.ConditionTrue {
		version, err = fieldset.ProtectJob(ctx, r.client, j, version)
	}
	if err == nil {
		version, err = fieldset.ApplyAdmission(ctx, r.client, j, version, conditions)
	}
	switch {
	case apierrors.IsNotFound(err):
		return gone, nil
	case apierrors.IsConflict(err):
		return outdated, nil
	case err != nil:
		return failed, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.written[j.UID] = admitted{version: version, status: want.Status, reason: want.Reason, message: want.Message}
	return written, nil
}

func (r *Reconciler) lastWritten(j *v1alpha1.FirmwareJob) (admitted, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	last, ok := r.written[j.UID]
	return last, ok
}

// isWritten reports whether the job's Admitted condition says already what it should. The message counts, because it
// names what a person has to look at. It must be the same in every pass that finds the same: no counts, no positions.
func (r *Reconciler) isWritten(j *v1alpha1.FirmwareJob, want status.Condition) bool {
	if last, ok := r.lastWritten(j); ok {
		return last == admitted{version: last.version, status: want.Status, reason: want.Reason, message: want.Message}
	}
	c := meta.FindStatusCondition(j.Status.Conditions, v1alpha1.ConditionAdmitted)
	return c != nil && c.Status == want.Status && c.Reason == want.Reason && c.Message == want.Message
}

// isUntold reports whether the job has no Admitted condition.
func (r *Reconciler) isUntold(j *v1alpha1.FirmwareJob) bool {
	_, told := r.lastWritten(j)
	return !told && meta.FindStatusCondition(j.Status.Conditions, v1alpha1.ConditionAdmitted) == nil
}

// state is where a job stands, by the cache or by what this process wrote since.
func (r *Reconciler) state(j *v1alpha1.FirmwareJob) schedule.JobState {
	s := schedule.StateOf(j)
	if last, ok := r.lastWritten(j); ok && (s == schedule.Queued || s == schedule.Cancelled) && last.status == metav1.ConditionTrue {
		return schedule.Admitted
	}
	return s
}

// dropSeen forgets the writes that the cache has seen, and those to jobs that are gone.
func (r *Reconciler) dropSeen(f facts) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for uid, last := range r.written {
		j := f.jobs[string(uid)]
		if j == nil {
			delete(r.written, uid)
			continue
		}
		if order, err := resourceversion.CompareResourceVersion(j.ResourceVersion, last.version); err != nil || order >= 0 {
			delete(r.written, uid)
		}
	}
}

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
