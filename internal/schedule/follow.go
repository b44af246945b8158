package schedule

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/nodefirmware/node-firmware-operator/internal/wayout"
	"github.com/nodefirmware/node-firmware-operator/pkg/text"
)

// rollout is an update in the making of a decision.
type rollout struct {
	Rollout
	waves []Wave
	// stage is the index of the open wave; len(waves) for Rest.
	stage int
	// running counts the nodes in the ledger without a verdict, waiting those with a queued job, and unqueued others that have the update.
	// Eligible are those of the latter two that the open wave chooses, and held those that a failed job holds.
	running, waiting, unqueued, eligible, held int
	// pinned counts the nodes with a pin that have a queued job or a place, and pinsWaiting those of them with a queued job.
	pinned, pinsWaiting int
	// runningFrom counts the running ones by the version that they come from.
	runningFrom map[string]int
	// queue holds the nodes that waited or were not queued when the pass began, and queuedFrom the versions that they come from.
	queue      []queued
	queuedFrom map[string]bool
	// keeps is what the first waiting node of the open wave waits for, beside the budget. Absent is the first node of the open wave that
	// is not queued, where none of them is; empty otherwise.
	keeps, absent string
	// holds is the first node that a failed job with the update holds; empty for none.
	holds string
	// acquitted is a node that the update left unhealthy, with no image to blame; empty where there is none.
	acquitted string
	// stopped is why the update is admitted to no node, and closed why the open wave takes no more of them, as it was said since the
	// last admission. The zero refusals are that the update is not stopped, and that nobody has asked.
	stopped, closed refusal
}

// queued is a node without a place that is to get an update.
type queued struct {
	*node
	hasJob bool
}

// followRollouts brings the records of the policies up to date: it lifts halts, counts verdicts, halts, and opens waves. It
// must come after the ledgers are cleaned and the budgets counted.
func (p *pass) followRollouts() {
	for _, o := range p.pools {
		o.out.Resumed = cmp.Or(o.Plan.Resume, o.Plan.Resumed)
		if o.Plan.follows() {
			p.load(o)
		}
	}
	p.loadWaiting()
	p.loadUnqueued()
	for _, o := range p.pools {
		if !o.Plan.follows() {
			continue
		}
		if o.Plan.resumes() {
			p.lift(o)
		}
		failures, slow := p.judge(o)
		p.loadRunning(o)
		o.beginAgain()
		for _, r := range o.inOrder() {
			r.choose()
			p.halt(o, r, failures[r.Target])
			p.haltSlow(o, r, slow[r.Target])
			if o.Plan.Edited {
				r.goBack()
			}
		}
		o.trim()
		for _, r := range o.inOrder() {
			if r.Halted != nil {
				o.halts = append(o.halts, r)
			}
		}
		for _, r := range o.inOrder() {
			p.advance(o, r)
			r.stopped = p.stops(o, r.Target)
		}
	}
	p.refuseStopped()
}

// load takes the record of a policy.
func (p *pass) load(o *pool) {
	o.rollouts, o.judged = map[Target]*rollout{}, map[string]bool{}
	for _, recorded := range o.Plan.Rollouts {
		r := o.rollout(recorded.Target)
		r.Rollout, r.stage = recorded, stageOf(r.waves, recorded.Wave)
		if r.stage >= 0 {
			continue
		}
		// The open wave is gone. Those that are satisfied already open again at once.
		r.open(firstWave(o.Plan.Waves))
	}
}

// rollout is the one of a target; a new one begins with the first wave.
func (o *pool) rollout(t Target) *rollout {
	r := o.rollouts[t]
	if r == nil {
		first := firstWave(o.Plan.Waves)
		r = &rollout{Rollout: Rollout{Target: t, Wave: first}, waves: o.Plan.Waves, stage: stageOf(o.Plan.Waves, first), runningFrom: map[string]int{}, queuedFrom: map[string]bool{}}
		o.rollouts[t] = r
	}
	return r
}

// loadWaiting counts for each update the nodes that have a queued job with it and no place yet.
func (p *pass) loadWaiting() {
	for i := range p.facts.Jobs {
		j := &p.facts.Jobs[i]
		if j.State != Queued || len(j.Edges) == 0 {
			continue
		}
		n := p.node(j.Node)
		if len(n.pools) != 1 || !n.pools[0].Plan.follows() || n.hasEntry(j) {
			continue
		}
		for at, e := range j.Edges {
			r := n.pools[0].rollout(e.Target)
			isFirst := at == 0 || j.Edges[at-1].Target != e.Target
			switch isPinned := pins(j.Edges, e.Target); {
			case isPinned && isFirst:
				r.pinned, r.pinsWaiting = r.pinned+1, r.pinsWaiting+1
				continue
			case isPinned:
				continue
			case !slices.Contains(n.waitsWith, r):
				n.waitsWith = append(n.waitsWith, r)
				r.waiting++
				r.queue = append(r.queue, queued{n, true})
			}
			r.queuedFrom[e.From] = true
		}
	}
}

// loadUnqueued counts for each update the nodes that are to get it and have neither a queued job with it nor a place: the queue is full,
// or they wait for another try.
func (p *pass) loadUnqueued() {
	if p.facts.Due == nil {
		return
	}
	for i := range p.fleet {
		n := &p.fleet[i]
		if len(n.pools) != 1 || !n.pools[0].Plan.follows() {
			continue
		}
		due, planned := p.facts.Due[n.Name]
		n.pools[0].unplanned = n.pools[0].unplanned || !planned
		for _, e := range due {
			if e.Pinned {
				continue
			}
			r := n.pools[0].rollout(e.Target)
			r.queuedFrom[e.From] = true
			if slices.Contains(n.waitsWith, r) || p.runs(n, e.Target) {
				continue
			}
			n.waitsWith = append(n.waitsWith, r)
			r.unqueued++
			r.queue = append(r.queue, queued{n, false})
		}
	}
}

// runs reports whether the node has a place for a job with the target.
func (p *pass) runs(n *node, t Target) bool {
	return slices.ContainsFunc(n.holders, func(h holder) bool {
		edges := p.jobs[h.entry.UID].Edges
		return has(edges, t) && !pins(edges, t) // a pin of another device is no part of a wave
	})
}

func (p *pass) loadRunning(o *pool) {
	for _, entry := range o.out.Ledger {
		j := p.jobs[entry.UID]
		for _, e := range targets(j.Edges) {
			switch r := o.rollout(e.Target); {
			case e.Pinned && !o.judged[entry.UID]:
				r.pinned++
			case j.acquitted(): // its node waits for a person, and the wave for none of it
				r.acquitted = cmp.Or(r.acquitted, j.Node)
			case !o.judged[entry.UID]:
				r.run(j)
			case j.State == Held && e.Verdict == Failed:
				r.held++
				if r.holds == "" || j.Node < r.holds {
					r.holds = j.Node
				}
			}
		}
	}
}

// run counts a node that has a place for the job.
func (r *rollout) run(j *Job) {
	r.running++
	for _, e := range j.Edges {
		if e.Target == r.Target {
			r.runningFrom[e.From]++
		}
	}
}

// beginAgain forgets the waves of an update that the pool has left since for another version of the same model, which came further than
// its first wave: an image that is selected again begins with the first wave. A version on the way to another one is left too, but no
// node comes back to it from there.
func (o *pool) beginAgain() {
	all := slices.Collect(maps.Values(o.rollouts))
	for _, r := range all {
		cameBack := slices.ContainsFunc(all, func(other *rollout) bool {
			return other.Model == r.Model && other.stage > 0 && other.LastVerdict.After(r.LastVerdict) && slices.Contains(other.From, r.Version) &&
				r.queuedFrom[other.Version]
		})
		if r.waiting == 0 || r.running > 0 || r.stage == 0 || r.Halted != nil || !cameBack {
			continue
		}
		first := firstWave(o.Plan.Waves)
		r.Rollout, r.stage = Rollout{Target: r.Target, Wave: first, LastVerdict: r.LastVerdict}, 0
	}
}

// trim forgets what there is nothing to remember of, and of more than MaxRollouts what matters least: what is over, the
// oldest first, then what has not begun, and before all of these what cannot begin because its wave chooses no node that waits. It
// must come after the verdicts are counted and the updates halted.
func (o *pool) trim() {
	const none = 5
	rank := func(r *rollout) int {
		begun := r.judged() > 0
		switch {
		case r.running > 0, r.Halted != nil:
			return 0
		case begun && r.waiting+r.unqueued > 0:
			return 1
		case r.eligible > 0:
			return 2
		case begun:
			return 3
		case r.waiting+r.unqueued+r.pinned > 0:
			return 4
		}
		return none
	}
	ranked := slices.SortedFunc(maps.Values(o.rollouts), func(a, b *rollout) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), b.LastVerdict.Compare(a.LastVerdict), a.Compare(b.Target))
	})
	for i, r := range ranked {
		if i >= MaxRollouts || rank(r) == none {
			delete(o.rollouts, r.Target)
		}
	}
}

// inOrder lists the rollouts in order of their targets.
func (o *pool) inOrder() []*rollout {
	return slices.SortedFunc(maps.Values(o.rollouts), func(a, b *rollout) int { return a.Compare(b.Target) })
}

// states are the rollouts of a pool as they stand after the pass.
func (p *pass) states(o *pool) []RolloutState {
	var out []RolloutState
	for _, r := range o.inOrder() {
		s := RolloutState{Rollout: r.Rollout, Nodes: r.nodes(), Running: r.running, Waiting: r.waiting + r.pinsWaiting}
		why := r.stopped
		if why.reason == "" && r.waiting > 0 && r.Wave != Rest && (r.eligible == 0 || r.free() == 0) {
			why = p.closed(o, r)
		}
		if soaked := r.soaked(); why.reason == WaitingForWave && r.isJudged() && soaked.After(p.facts.Now) {
			s.Soaks = soaked
		}
		if doubt := o.doubtOf(r.Target); why.reason != RolloutHalted && doubt != "" && s.Waiting > 0 {
			why = refusal{WaitingForWave, doubt}
		}
		s.Reason, s.Message = why.reason, why.message
		switch {
		case s.Reason != "":
		case r.running+r.waiting+r.unqueued == 0:
			s.Message = fmt.Sprintf("No node waits for the update of %s; %s judged.", r.Target, text.Quantity(r.judged(), "node is", "nodes are"))
		case r.running == 0 && r.waiting > 0 && r.waitsFor() != "":
			s.Message = r.progress() + ". " + r.waitsFor()
		default:
			s.Message = r.progress() + "."
		}
		if r.pinned > 0 && len(r.waves) > 0 && s.Reason != RolloutHalted {
			s.Message += " " + text.Quantity(r.pinned, "node has a pin and waits for no wave.", "nodes have a pin and wait for no wave.")
		}
		out = append(out, s)
	}
	return out
}

// closed says why the open wave takes no more nodes. Thousands of nodes may be told the same.
func (p *pass) closed(o *pool, r *rollout) refusal {
	switch {
	case r.closed.reason != "":
	case r.running == 0 && r.eligible == 0 && !r.succeeded():
		remedy := ""
		if r.acquitted != "" {
			remedy = fmt.Sprintf("The update left node %s unhealthy and holds it, though no image is blamed. Repair it. Then, to try again: %s  ",
				r.acquitted, wayout.Retry(r.acquitted))
		}
		r.closed = refusal{WaveEmpty, fmt.Sprintf("Wave %s of %s selects none of the %s, and no node has succeeded with the update yet. %s"+
			"A node whose update is not tried again by itself does not wait: kubectl get nodefirmware says why. Label a node for the wave, or change its nodeSelector: %s", r.Wave, r.Target, text.Quantity(r.waiting, "waiting node", "waiting nodes"),
			remedy, wayout.Edit("rp", o.Name))}
	case r.isJudged() && r.soaked().After(p.facts.Now):
		r.closed = refusal{WaitingForWave, fmt.Sprintf("%s; the next wave opens at %s.", r.progress(), clock(r.soaked()))}
	case r.waitsFor() != "" && r.running == 0:
		r.closed = refusal{WaitingForWave, fmt.Sprintf("%s; the next wave opens when each of its nodes is judged. %s", r.progress(), r.waitsFor())}
	default:
		r.closed = refusal{WaitingForWave, r.progress() + "; the next wave opens when each of its nodes is judged."}
	}
	return r.closed
}

// waitsFor is what the nodes of the open wave wait for, beside the budget; empty where that is nothing.
func (r *rollout) waitsFor() string {
	if r.keeps == "" && r.absent != "" {
		return fmt.Sprintf("Node %[1]s has no job yet; kubectl describe nodefirmware %[1]s may say why.", r.absent)
	}
	return r.keeps
}

// progress says how far the open wave is.
func (r *rollout) progress() string {
	out := fmt.Sprintf("Wave %s of %s: %d of %s judged", r.Wave, r.Target, r.Succeeded+r.Failed, text.Quantity(r.waveNodes(), "node", "nodes"))
	if r.Failed > 0 {
		out += ", " + text.Quantity(r.Failed, "failure", "failures")
	}
	if r.Slow > 0 {
		out += ", " + text.Quantity(r.Slow, "node boots slowly", "nodes boot slowly")
	}
	return out
}

// soaked is when the open wave has soaked.
func (r *rollout) soaked() time.Time { return r.LastVerdict.Add(r.wave().Soak) }

func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 MST") }
