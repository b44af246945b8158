package schedule

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nodefirmware/node-firmware-operator/internal/wayout"
	"github.com/nodefirmware/node-firmware-operator/pkg/text"
)

// lift takes the halts away that a person has seen: those that were recorded before. What failed counts no more.
func (p *pass) lift(o *pool) {
	for _, r := range o.rollouts {
		r.Halted, r.Failed, r.Consecutive = nil, 0, 0
	}
}

// failure is a failed job whose verdict was counted in this pass. That of a pin counts where it holds its node, and in no wave.
type failure struct {
	job          *Job
	held, pinned bool
}

// judge counts each verdict once: in the write that takes the entry of the job out of the ledger, or, for a failed job that
// keeps its node, in the one that marks the entry. One that gets its place back was counted before it gave it up. It returns the failures by target, and the jobs whose nodes boot slowly since.
func (p *pass) judge(o *pool) (failures map[Target][]failure, slow map[Target][]*Job) {
	failures, slow = map[Target][]failure{}, map[Target][]*Job{}
	count := func(j *Job) {
		for _, e := range targets(j.Edges) {
			if !e.Verdict.counts() {
				continue
			}
			r := o.rollout(e.Target)
			if e.Pinned {
				if e.Verdict == Failed && j.State == Held {
					failures[e.Target] = append(failures[e.Target], failure{job: j, held: true, pinned: true})
				}
				continue
			}
			r.LastVerdict = wholeSecond(p.facts.Now)
			if e.Verdict == Succeeded {
				r.Succeeded, r.Consecutive = r.Succeeded+1, 0
				r.comeFrom(j)
				if j.Slow != "" {
					slow[e.Target] = append(slow[e.Target], j)
				}
				continue
			}
			r.Failed, r.Consecutive = r.Failed+1, r.Consecutive+1
			failures[e.Target] = append(failures[e.Target], failure{job: j, held: j.State == Held})
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
		j := p.jobs[e.UID]
		isJudged := counted[e.UID] || p.node(e.Node).returned == j && !j.acquitted()
		if !isJudged && j.State == Held && !j.acquitted() && p.isFirst(o, e) {
			count(j)
			isJudged = true
		}
		if isJudged {
			o.judged[e.UID] = true
		}
	}
	return failures, slow
}

// comeFrom remembers the versions from which a job has succeeded.
func (r *rollout) comeFrom(j *Job) {
	for _, e := range j.Edges {
		at, known := slices.BinarySearch(r.From, e.From)
		if e.Target == r.Target && !known && len(r.From) < MaxFromVersions {
			r.From = slices.Insert(slices.Clone(r.From), at, e.From)
		}
	}
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

// halt halts an update when a failure that was counted in this pass reaches a threshold, or was the last verdict of a wave in which no
// node succeeded.
func (p *pass) halt(o *pool, r *rollout, failures []failure) {
	if r.Halted != nil || len(failures) == 0 {
		return
	}
	limit := o.Plan.halt()
	ofWave := slices.DeleteFunc(slices.Clone(failures), func(f failure) bool { return f.pinned })
	maxFailures := limit.maxFailures(r.waveNodes())
	held := slices.IndexFunc(failures, func(f failure) bool { return f.held })
	var why string
	switch {
	case held >= 0 && r.held > limit.MaxHeld && limit.MaxHeld == 0:
		why = fmt.Sprintf("Job %s failed and held node %s.", failures[held].job.Name, failures[held].job.Node)
	case held >= 0 && r.held > limit.MaxHeld:
		why = fmt.Sprintf("%s held, the last by job %s on node %s; halt.maxHeld is %d.", text.Quantity(r.held, "node was", "nodes were"),
			failures[held].job.Name, failures[held].job.Node, limit.MaxHeld)
	case r.lenient(limit) || len(ofWave) == 0:
		return
	case maxFailures > 0 && r.Failed >= maxFailures:
		why = fmt.Sprintf("%s in wave %s, the last with job %s on node %s; halt.maxFailures is %s.", text.Quantity(r.Failed, "failure", "failures"),
			r.Wave, ofWave[len(ofWave)-1].job.Name, ofWave[len(ofWave)-1].job.Node, limit.MaxFailures.String())
	case limit.MaxConsecutive > 0 && r.Consecutive >= limit.MaxConsecutive:
		why = fmt.Sprintf("%s without a success in between, the last with job %s on node %s; halt.maxConsecutiveFailures is %d.",
			text.Quantity(r.Consecutive, "failure", "failures"), ofWave[len(ofWave)-1].job.Name, ofWave[len(ofWave)-1].job.Node, limit.MaxConsecutive)
	case r.Wave != Rest && r.isJudged() && r.Succeeded == 0:
		why = fmt.Sprintf("Wave %s ended with %s and no success.", r.Wave, text.Quantity(r.Failed, "failure", "failures"))
	default:
		return
	}
	r.Halted = &Halted{Time: p.facts.Now, Message: why}
}

// lenient reports whether so many nodes succeeded that only those that need a person halt the update.
func (r *rollout) lenient(limit Halt) bool {
	return limit.LenientAfter > 0 && (r.Done+r.Succeeded)*100 >= limit.LenientAfter*r.nodes()
}

// haltSlow halts an update when its first nodes boot slowly though everything is up. After a person has gone on, further ones are counted.
// Those that a lenient plan lets pass are not: they would take the halt of the first one after it, which nobody has seen.
func (p *pass) haltSlow(o *pool, r *rollout, slow []*Job) {
	if len(slow) == 0 || r.lenient(o.Plan.halt()) {
		return
	}
	first := r.Slow == 0
	if r.Slow += len(slow); !first {
		return
	}
	why := fmt.Sprintf("Job %s succeeded, but node %s boots slowly: %s.", slow[0].Name, slow[0].Node, slow[0].Slow)
	if len(slow) > 1 {
		why += " So does node " + slow[1].Node
		if len(slow) > 2 {
			why += fmt.Sprintf(", and %d more", len(slow)-2)
		}
		why += "."
	}
	if r.Halted != nil {
		r.Halted = &Halted{Time: r.Halted.Time, Message: r.Halted.Message + " " + why}
		return
	}
	r.Halted = &Halted{Time: p.facts.Now, Message: why}
}

// maxFailures is the limit in a wave of that many nodes; 0 for none.
func (h Halt) maxFailures(wave int) int {
	if h.MaxFailures.Type == intstr.Int {
		return int(h.MaxFailures.IntVal)
	}
	out, err := intstr.GetScaledValueFromIntOrPercent(&h.MaxFailures, wave, true)
	if err != nil {
		return 1
	}
	return max(1, out)
}

// halted is the halted rollout that concerns a target: its own, or one of the same image for the same model. Nil for none.
func (o *pool) halted(t Target) *rollout {
	if r := o.rollouts[t]; r != nil && r.Halted != nil {
		return r
	}
	for _, other := range o.halts {
		if other.Halted != nil && other.sameImage(t) {
			return other
		}
	}
	return nil
}

// stops says why an update may not be admitted to any node. What it says stays true for the rest of the pass.
func (p *pass) stops(o *pool, t Target) refusal {
	if h := o.halted(t); h != nil {
		if h.holds != "" {
			return refusal{RolloutHalted, fmt.Sprintf("The update of %s is halted. %s Find the cause. To try again on node %s: %s  To go on with the others: %s",
				h.Target, h.Halted.Message, h.holds, wayout.Retry(h.holds), wayout.Request("rp", o.Name, "resume"))}
		}
		return refusal{RolloutHalted, fmt.Sprintf("The update of %s is halted. %s Find the cause. To go on: %s", h.Target, h.Halted.Message,
			wayout.Request("rp", o.Name, "resume"))}
	}
	return refusal{}
}

// refuseStopped refuses the queued jobs that got their place before their update was halted or the policy aborted, and were not
// told yet.
func (p *pass) refuseStopped() {
	for _, o := range p.pools {
		for _, e := range o.out.Ledger {
			j := p.jobs[e.UID]
			if j.State != Queued || p.refused(j) {
				continue
			}
			if o.Aborted {
				p.refusals[j.UID] = refusal{Aborted, o.aborted()}
				continue
			}
			for _, edge := range j.Edges {
				r := o.rollouts[edge.Target]
				if r != nil && r.stopped.reason == RolloutHalted && !p.node(j.Node).repeats(j) {
					p.refusals[j.UID] = r.stopped
					break
				}
			}
		}
	}
}

func (o *pool) aborted() string {
	return fmt.Sprintf("Rollout policy %s is aborted. To start again: %s", o.Name, wayout.State("rp", o.Name, "Active"))
}

// repeats reports whether the job is to try the same images again on a node that a failed job holds. A person asked for it, and it
// disturbs no further node, so waves and halts do not concern it.
func (n *node) repeats(j *Job) bool {
	sameImage := func(held *Job, e JobEdge) bool {
		return slices.ContainsFunc(held.Edges, func(of JobEdge) bool { return of.sameImage(e.Target) })
	}
	return slices.ContainsFunc(n.held, func(held *Job) bool {
		return j.mayFollow(held) && len(j.Edges) > 0 && !slices.ContainsFunc(j.Edges, func(e JobEdge) bool { return !sameImage(held, e) })
	})
}
