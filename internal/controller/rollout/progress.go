package rollout

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/schedule"
	"github.com/nodefirmware/node-firmware-operator/internal/schedule/window"
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
