package rollout

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

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

// jobEnds counts the jobs that a pass took out of a ledger.
type jobEnds struct{ succeeded, failed int32 }

// ends counts the jobs that leave the ledger of a policy now. The ledger without them is written together with these numbers in
// one compare-and-swap, so each job counts once, also when operators die or change.
func (f facts) ends(o schedule.Outcome) (e jobEnds) {
	count := func(uid string) {
		switch j := f.jobs[uid]; {
		case j == nil:
		case j.Failed():
			e.failed++
		case j.Ended():
			e.succeeded++
		}
	}
	for _, removed := range o.Remove {
		if removed.Why == schedule.JobFinished {
			count(removed.Entry.UID)
		}
	}
	for _, taken := range o.Replace {
		count(taken.Old.UID)
	}
	return e
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
			out = append(out, v1alpha1.WaitingNodes{Reason: string(w.Reason), Nodes: 1, Node: w.Node})
		}
	}
	return out
}

// progressOf continues the progress of a pool. The pace and the estimate are derived anew only when a job ended or other nodes
// wait for other reasons (sameWaiting is false), so that the mere passing of time writes nothing. Only the time in which the pool is
// open counts.
func progressOf(old *v1alpha1.RolloutProgress, e jobEnds, o schedule.Outcome, refused int, open *window.Calendar, sameWaiting bool, now time.Time) *v1alpha1.RolloutProgress {
	now = now.Truncate(time.Second)
	atRest := len(o.Queue)+len(o.Ledger) == 0
	if old == nil && atRest {
		return nil
	}
	p := old.DeepCopy()
	if p == nil || p.CompletionTime != nil && !atRest {
		p = &v1alpha1.RolloutProgress{StartTime: metav1.NewTime(now)}
	}
	p.Succeeded += e.succeeded
	p.Failed += e.failed
	if e != (jobEnds{}) {
		p.SecondsPerNode = ptr.To(max(1, int32(open.Elapsed(p.StartTime.Time, now)/time.Second)/(p.Succeeded+p.Failed)))
	}
	switch {
	case atRest:
		p.EstimatedCompletionTime = nil
		if p.CompletionTime == nil {
			p.CompletionTime = ptr.To(metav1.NewTime(now))
		}
	case !canEstimate(p, o):
		p.EstimatedCompletionTime = nil
	case e != (jobEnds{}) || !sameWaiting || p.EstimatedCompletionTime == nil:
		left := time.Duration(len(o.Queue)+len(o.Ledger)+refused) * time.Duration(*p.SecondsPerNode) * time.Second
		p.EstimatedCompletionTime = nil
		if end := open.After(now, left); !end.IsZero() {
			p.EstimatedCompletionTime = ptr.To(metav1.NewTime(end.Truncate(time.Minute)))
		}
	}
	return p
}

// canEstimate reports whether the pace so far says something about the rest of the rollout: enough jobs have jobEnds, and what is
// left waits for nothing but time that is known.
func canEstimate(p *v1alpha1.RolloutProgress, o schedule.Outcome) bool {
	if ended := int(p.Succeeded + p.Failed); p.SecondsPerNode == nil || ended < minEnded || ended < o.Budget || len(o.Held) > 0 {
		return false
	}
	return o.TooLong == 0 && !slices.ContainsFunc(o.Queue, func(w schedule.Waiting) bool { return !goesOn[w.Reason] })
}

// goesOn are the reasons to wait that end by themselves at the pace of the rollout.
var goesOn = map[schedule.Reason]bool{schedule.BudgetExhausted: true, schedule.WaitingForWindow: true, schedule.Frozen: true}
