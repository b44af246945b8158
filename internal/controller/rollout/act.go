package rollout

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/fieldset"
	"github.com/nodefirmware/node-firmware-operator/internal/schedule"
	"github.com/nodefirmware/node-firmware-operator/internal/schedule/window"
	"github.com/nodefirmware/node-firmware-operator/internal/status"
	"github.com/nodefirmware/node-firmware-operator/pkg/text"
)

const (
	// admitters and explainers are how many jobs are told at once that they may run, and why they wait. The ledgers have one writer. Such a
	// write costs the API server as much as three jobs that are queued, and thousands of jobs may be told why they wait at once.
	admitters, explainers = 8, 2
	// again is the wait before the next pass after a lost race.
	again = 100 * time.Millisecond
)

// act writes the ledgers, makes sure that no other ledger has the same node, and only then has the conditions of the jobs
// written, beside this pass and the next ones. A policy that cannot be written admits nothing in this pass; the others go on.
func (r *Reconciler) act(ctx context.Context, f facts, d schedule.Decision) (ctrl.Result, error) {
	result := ctrl.Result{}
	if !d.Next.IsZero() {
		result.RequeueAfter = d.Next.Sub(f.schedule.Now)
	}
	written, errs := map[string]bool{}, []error{}
	for _, o := range d.Policies {
		if f.policies[o.Name].UID == "" { // the default policy, which nobody has made yet
			errs = append(errs, fieldset.EnsureDefaultPolicy(ctx, r.client))
			result.RequeueAfter = again
			continue
		}
		switch err := r.writePolicy(ctx, f, o); {
		case apierrors.IsConflict(err), apierrors.IsNotFound(err):
			result.RequeueAfter = again // somebody else was first; decide anew
		case err != nil:
			errs = append(errs, err)
		default:
			written[o.Name] = true
		}
	}
	r.publish(f, d)
	admit := slices.DeleteFunc(slices.Clone(d.Admit), func(a schedule.Admission) bool { return !written[a.Policy] })
	admit, err := r.unrivalled(ctx, admit, over(d))
	errs = append(errs, err)
	if len(admit) < len(d.Admit) {
		result.RequeueAfter = again
	}
	r.admit.tell(r.admissions(f, admit))
	r.explain.tell(r.reasons(f, d.Wait))
	if err := errors.Join(errs...); err != nil {
		return ctrl.Result{}, err
	}
	return result, nil
}

// writePolicy brings the status of a policy up to date, ledger and all, in one compare-and-swap.
func (r *Reconciler) writePolicy(ctx context.Context, f facts, o schedule.Outcome) error {
	old := f.policies[o.Name]
	p := old.DeepCopy()
	p.Status.ObservedGeneration = p.Generation
	p.Status.Admitted = ledgerOf(o.Ledger)
	p.Status.WavesHash = schedule.WavesHash(p.Spec.Waves)
	writeRollouts(&p.Status, o)
	p.Status.Waiting = waitingOf(o.Queue)
	p.Status.Nodes = &v1alpha1.RolloutNodes{
		Selected: int32(o.Nodes), Budget: int32(o.Budget), Unavailable: int32(o.Unavailable), Queued: int32(nodesOf(o.Queue)),
		Refused: int32(r.refused(p.Name)),
	}
	p.Status.NextWindowTime = nextWindow(o.Window)
	policy := f.policy(o.Name)
	measured := r.writeProgress(old, &p.Status, f.ends(o), o, policy.Calendar)
	p.Status.Conditions = status.Policy(status.PolicyFacts{
		Name: p.Name, Outcome: o, Refused: r.refused(p.Name), Invalid: policy.Invalid, Stopped: policy.Stopped, Paused: policy.Paused, Aborted: policy.Aborted,
		MaxUnavailable: policy.MaxUnavailable.String(), Selects: !policy.Selector.Empty(),
	}, old.Status.Conditions, p.Generation, r.now())
	shorten(&p.Status)
	if equality.Semantic.DeepEqual(old.Status, p.Status) {
		r.paces[old.UID] = measured
		return nil
	}
	if err := fieldset.ApplyRollout(ctx, r.client, p); err != nil {
		return err
	}
	r.paces[old.UID] = measured
	r.reportPolicy(old, p, o)
	return nil
}

// nextWindow is when a closed pool opens; nil for one that is open, and when that is not known.
func nextWindow(s window.State) *metav1.Time {
	if s.Open || s.Opens.IsZero() {
		return nil
	}
	return &metav1.Time{Time: s.Opens}
}

// ledgerOf is the ledger as the API has it.
func ledgerOf(entries []schedule.Entry) (out []v1alpha1.AdmittedNode) {
	for _, e := range entries {
		out = append(out, v1alpha1.AdmittedNode{Node: e.Node, Job: e.Job, JobUID: e.UID})
	}
	return out
}

// over are the entries that leave their ledgers because their work is over, whether or not the ledgers could be written.
func over(d schedule.Decision) map[schedule.Entry]bool {
	out := map[schedule.Entry]bool{}
	for _, o := range d.Policies {
		for _, removed := range o.Remove {
			if removed.Why != schedule.Duplicate { // another operator may be admitting the job of a duplicate
				out[removed.Entry] = true
			}
		}
	}
	return out
}

// unrivalled leaves the admissions whose node stands in no other ledger, but for entries that are over. One compare-and-swap
// covers one policy; two operators at once (an old leader that does not know it yet) that disagree about a node's pool could
// enter it in two. Each looks at all ledgers after its own write, so at least the second sees the first and withdraws.
func (r *Reconciler) unrivalled(ctx context.Context, admit []schedule.Admission, over map[schedule.Entry]bool) ([]schedule.Admission, error) {
	if !slices.ContainsFunc(admit, func(a schedule.Admission) bool { return a.New }) {
		return admit, nil
	}
	var policies v1alpha1.RolloutPolicyList
	if err := r.direct.List(ctx, &policies); err != nil {
		return nil, fmt.Errorf("list rollout policies again: %w", err)
	}
	var out []schedule.Admission
	withdraw := map[string][]schedule.Entry{}
	for _, a := range admit {
		switch rival, mine := inLedgers(policies.Items, a, over); {
		case !mine: // taken away since
		case rival && a.New:
			withdraw[a.Policy] = append(withdraw[a.Policy], a.Entry)
		case !rival:
			out = append(out, a)
		}
	}
	var errs []error
	for i := range policies.Items {
		p := &policies.Items[i]
		if len(withdraw[p.Name]) == 0 {
			continue
		}
		p.Status.Admitted = slices.DeleteFunc(p.Status.Admitted, func(e v1alpha1.AdmittedNode) bool {
			return slices.Contains(withdraw[p.Name], schedule.EntryOf(e))
		})
		if err := fieldset.ApplyRollout(ctx, r.client, p); client.IgnoreNotFound(err) != nil {
			errs = append(errs, fmt.Errorf("withdraw from ledger of rollout policy %s: %w", p.Name, err))
		}
	}
	return out, errors.Join(errs...)
}

// inLedgers reports whether another ledger has the admission's node with work that is not over, and whether its own still has
// its entry.
func inLedgers(policies []v1alpha1.RolloutPolicy, a schedule.Admission, over map[schedule.Entry]bool) (rival, mine bool) {
	for _, p := range policies {
		for _, e := range p.Status.Admitted {
			if p.Name == a.Policy {
				mine = mine || schedule.EntryOf(e) == a.Entry
			} else if e.Node == a.Entry.Node && !over[schedule.EntryOf(e)] {
				rival = true
			}
		}
	}
	return rival, mine
}

// admissions is what the admitted jobs are told: that they may run, and what awaits a cluster that has no other node.
func (r *Reconciler) admissions(f facts, admit []schedule.Admission) []telling {
	out, drained := make([]telling, len(admit)), ""
	if len(f.nodes) == 1 {
		drained = r.drained
	}
	for i, a := range admit {
		out[i] = telling{f.jobs[a.Entry.UID], status.JobAdmitted(a, drained)}
	}
	return out
}

// reasons is what the waiting jobs are told: why they wait. A job that was told nothing yet, and waits for nothing but the budget of
// its policy, is told nothing: the status of the policy says it once for thousands of them.
func (r *Reconciler) reasons(f facts, waiting []schedule.Waiting) (out []telling) {
	for _, w := range waiting {
		j := f.jobs[w.UID]
		if want := status.JobWaiting(w); !(w.ForBudget && r.isUntold(j)) && !r.isWritten(j, want) {
			out = append(out, telling{j, want})
		}
	}
	return out
}

// reportPolicy makes events of what changed for people.
func (r *Reconciler) reportPolicy(old, p *v1alpha1.RolloutPolicy, o schedule.Outcome) {
	for _, removed := range o.Remove {
		if removed.Why == schedule.NodeGone {
			r.recorder.Eventf(p, nil, corev1.EventTypeNormal, v1alpha1.ReasonNodeGone, "Release",
				"Node %s is gone; the place of its job %s is free.", removed.Entry.Node, removed.Entry.Job)
		}
	}
	if p.Status.Nodes.Refused > 0 && (old.Status.Nodes == nil || old.Status.Nodes.Refused == 0) {
		r.recorder.Eventf(p, nil, corev1.EventTypeNormal, v1alpha1.ReasonQueueFull, "Queue",
			"The queue is full (maxQueued); other nodes are queued as soon as there is room.")
	}
	for i := range p.Status.Rollouts {
		if now := &p.Status.Rollouts[i]; now.HaltedTime != nil && !wasHalted(old, now) {
			r.recorder.Eventf(p, nil, corev1.EventTypeWarning, v1alpha1.ReasonRolloutHalted, "Halt", "%s", now.Message)
		}
	}
	if resumed := schedule.ResumeOf(p.Status.Requests); resumed != "" && resumed != schedule.ResumeOf(old.Status.Requests) {
		r.recorder.Eventf(p, nil, corev1.EventTypeNormal, v1alpha1.ReasonProgressing, "Resume", "Resumed by spec.requests.resume: %s", resumed)
	}
	was, is := readyReason(old), readyReason(p)
	if is == v1alpha1.ReasonNoMatch && was != is {
		r.recorder.Eventf(p, nil, corev1.EventTypeWarning, is, "Select", "spec.nodeSelector selects no node, so the policy does nothing yet.")
	}
	r.reportStalled(old, p)
}

func readyReason(p *v1alpha1.RolloutPolicy) string {
	if c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionReady); c != nil {
		return c.Reason
	}
	return ""
}

func (r *Reconciler) reportStalled(old, p *v1alpha1.RolloutPolicy) {
	was := meta.FindStatusCondition(old.Status.Conditions, v1alpha1.ConditionStalled)
	is := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionStalled)
	isNew := is != nil && (was == nil || was.Reason != is.Reason)
	if isNew && is.Reason != v1alpha1.ReasonRolloutHalted { // each halt has its own event
		r.recorder.Eventf(p, nil, corev1.EventTypeWarning, is.Reason, "Admit", "%s", is.Message)
	}
}

// wasHalted reports whether the update was halted already.
func wasHalted(old *v1alpha1.RolloutPolicy, now *v1alpha1.RolloutStatus) bool {
	return slices.ContainsFunc(old.Status.Rollouts, func(r v1alpha1.RolloutStatus) bool {
		return r.HaltedTime != nil && schedule.RolloutOf(&r).Target == schedule.RolloutOf(now).Target
	})
}

const (
	// maxStatus is the size in bytes of JSON from which on a status says less, so that the policy stays under 256 KiB. The ledger has
	// a bound of its own.
	maxStatus = 208 << 10
	// minMessage is how short the messages of the records become at most.
	minMessage = 64
	// maxHalted bounds the message of a halt. It is kept from pass to pass, so it must not depend on what else there is.
	maxHalted = 256
)

// shorten halves what each pass makes anew and only shows, the messages of the records, until the status is small enough.
func shorten(s *v1alpha1.RolloutPolicyStatus) {
	for limit := maxMessage / 2; limit >= minMessage && v1alpha1.SizeOf(s) > maxStatus; limit /= 2 {
		for i := range s.Rollouts {
			if s.Rollouts[i].HaltedTime == nil {
				s.Rollouts[i].Message = text.Clip(s.Rollouts[i].Message, limit)
			}
		}
	}
}
