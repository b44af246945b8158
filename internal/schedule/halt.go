package schedule

import (
	"fmt"
	"slices"
	"time"
)

// lift takes the halts away that a person has seen: those that were recorded before. What failed counts no more, and a deadline
// begins anew.
func (p *pass) lift(o *pool) {
	for _, r := range o.rollouts {
		r.Halted, r.Failed = nil, 0
		if !r.Started.IsZero() {
			r.Started = p.facts.Now
		}
	}
}

// failure is a failed job whose verdict was counted in this pass.
type failure struct {
	job  *Job
	held bool
}

// judge counts each verdict once: in the write that takes the entry of the job out of the ledger, or, for a failed job that
// keeps its node, in the one that marks the entry. It returns the failures by edge.
func (p *pass) judge(o *pool) map[Edge][]failure {
	failures := map[Edge][]failure{}
	count := func(j *Job) {
		for _, e := range j.Edges {
			if e.Verdict == Unknown {
				continue
			}
			r := o.rollout(e.Edge)
			r.LastVerdict = wholeSecond(p.facts.Now)
			if e.Verdict == Succeeded {
				r.Succeeded++
				continue
			}
			r.Failed++
			failures[e.Edge] = append(failures[e.Edge], failure{j, j.State == Held})
		}
	}
	counted := make(map[string]bool, len(o.Plan.Judged))
	for _, uid := range o.Plan.Judged {
		counted[uid] = true
	}
	for _, removed := range o.out.Remove {
		j, found := p.jobs[removed.Entry.UID]
		if found && removed.Why != Duplicate && !counted[removed.Entry.UID] {
			count(j)
		}
	}
	for _, e := range o.out.Ledger {
		isJudged := counted[e.UID]
		if j := p.jobs[e.UID]; !isJudged && j.State == Held && p.isFirst(o, e) {
			count(j)
			isJudged = true
		}
		if isJudged {
			o.judged[e.UID] = true
		}
	}
	return failures
}

// isFirst reports whether no other ledger has the entry too, or this one comes first.
func (p *pass) isFirst(o *pool, e Entry) bool {
	hs := p.node(e.Node).holders
	return len(hs) == 0 || hs[0].pool == o
}

// wholeSecond rounds up, because the API keeps whole seconds and no soak may become shorter by that.
func wholeSecond(t time.Time) time.Time {
	if s := t.Truncate(time.Second); s.Before(t) {
		return s.Add(time.Second)
	}
	return t
}

// halt halts an edge when a failure that was counted in this pass reaches a threshold.
func (p *pass) halt(o *pool, r *rollout, failures []failure) {
	limit := o.Plan.halt()
	for _, f := range failures {
		h := Halted{Node: f.job.Node, Job: f.job.Name, Time: p.facts.Now}
		nodes := quantity(r.Failed, "node", "nodes")
		switch {
		case f.held:
			h.Reason, h.Message = HaltNeedsIntervention, fmt.Sprintf("Job %s failed and holds node %s, which needs a person.", h.Job, h.Node)
		case limit.MaxFailures > 0 && r.Failed >= limit.MaxFailures:
			h.Reason, h.Message = HaltMaxFailures, fmt.Sprintf("%s of wave %s failed, the last with job %s on node %s; halt.maxFailures is %d.",
				nodes, r.Wave, h.Job, h.Node, limit.MaxFailures)
		case limit.MaxFailedPercent > 0 && r.Failed*100 > limit.MaxFailedPercent*r.waveNodes():
			h.Reason, h.Message = HaltMaxFailedPercent, fmt.Sprintf("%s of the %d of wave %s failed, the last with job %s on node %s; "+
				"halt.maxFailedPercent is %d.", nodes, r.waveNodes(), r.Wave, h.Job, h.Node, limit.MaxFailedPercent)
		default:
			continue
		}
		if r.Halted == nil {
			r.Halted = &h
		}
		return
	}
}

// haltWithoutSuccess halts an edge whose wave is judged though none of its nodes succeeded, even where the thresholds allow that.
func (p *pass) haltWithoutSuccess(r *rollout) {
	if r.Halted == nil && r.Wave != Rest && r.isJudged() && r.Succeeded == 0 && r.Failed > 0 {
		r.Halted = &Halted{Reason: HaltNoSuccess, Time: p.facts.Now, Message: fmt.Sprintf(
			"No node of wave %s succeeded and %s failed.", r.Wave, quantity(r.Failed, "node", "nodes"))}
	}
}

// halted is the halted rollout that concerns an edge: its own, or one of the same image for the same model. Nil for none.
func (o *pool) halted(e Edge) *rollout {
	if r := o.rollouts[e]; r != nil && r.Halted != nil {
		return r
	}
	for _, other := range o.halts {
		if other.Halted != nil && other.Model == e.Model && other.Digest == e.Digest {
			return other
		}
	}
	return nil
}

// stops says why an edge may not be admitted to any node. What it says stays true for the rest of the pass.
func (p *pass) stops(o *pool, r *rollout) refusal {
	if h := o.halted(r.Edge); h != nil {
		return refusal{RolloutHalted, fmt.Sprintf("The update of %s is halted. %s Find the cause, then set spec.resume of rolloutpolicy/%s to a "+
			"new value to go on.", h.Edge, h.Halted.Message, o.Name)}
	}
	if at := o.deadline(r); !at.IsZero() && !at.After(p.facts.Now) {
		return refusal{DeadlineExceeded, fmt.Sprintf("The update of %s began at %s and was not done within the deadline %s of rollout policy %s. "+
			"Raise spec.deadline, or set spec.resume to a new value to begin it anew.", r.Edge, clock(r.Started), o.Plan.Deadline, o.Name)}
	}
	return refusal{}
}

// deadline is when the edge may not be admitted any more; zero for never.
func (o *pool) deadline(r *rollout) time.Time {
	if o.Plan.Deadline == 0 || r.Started.IsZero() {
		return time.Time{}
	}
	return r.Started.Add(o.Plan.Deadline)
}

// wakeAtDeadline asks for a decision when the deadline of an edge passes for which nodes wait.
func (p *pass) wakeAtDeadline(o *pool, r *rollout) {
	if at := o.deadline(r); r.waiting > 0 && !at.IsZero() {
		p.wake(at)
	}
}

// refuseStopped refuses the queued jobs that got their place before their edge was halted or the policy aborted, and were not
// told yet.
func (p *pass) refuseStopped() {
	for _, o := range p.pools {
		for _, e := range o.out.Ledger {
			j := p.jobs[e.UID]
			if j.State != Queued || p.refused(j) {
				continue
			}
			if o.Aborted {
				p.refusals[j.UID] = refusal{PolicyAborted, o.aborted()}
				continue
			}
			for _, edge := range j.Edges {
				r := o.rollouts[edge.Edge]
				if r != nil && r.stopped.reason == RolloutHalted && !p.node(j.Node).repeats(j) {
					p.refusals[j.UID] = r.stopped
					break
				}
			}
		}
	}
}

func (o *pool) aborted() string {
	return fmt.Sprintf("Rollout policy %s is aborted; set its state to Active to begin again.", o.Name)
}

// repeats reports whether the job is to try the same images again on a node that a failed job holds. A person asked for it, and it
// disturbs no further node, so waves and halts do not concern it.
func (n *node) repeats(j *Job) bool {
	return slices.ContainsFunc(n.held, func(held *Job) bool {
		return j.follows(held) && len(j.Edges) > 0 && !slices.ContainsFunc(j.Edges, func(e JobEdge) bool { return !slices.ContainsFunc(held.Edges, e.sameImage) })
	})
}

func (e JobEdge) sameImage(o JobEdge) bool { return e.Model == o.Model && e.Digest == o.Digest }
