package schedule

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// rollout is an edge in the making of a decision.
type rollout struct {
	Rollout
	waves []Wave
	// stage is the index of the open wave; len(waves) for Rest.
	stage int
	// running counts the nodes in the ledger without a verdict; waiting those with a queued job, and eligible those of them that
	// the open wave chooses.
	running, waiting, eligible int
	// queue holds the labels of the nodes that waited when the pass began.
	queue []map[string]string
	// stopped is why the edge is admitted to no node, and closed why the open wave takes no more of them, as it was said since the
	// last admission. The zero refusals are that the edge is not stopped, and that nobody has asked.
	stopped, closed refusal
}

// followRollouts brings the records of the policies up to date: it lifts halts, counts verdicts, halts, and opens waves. It
// must come after the ledgers are cleaned and the budgets counted.
func (p *pass) followRollouts() {
	for _, o := range p.pools {
		o.out.Resumed = o.Plan.Resume
		if o.Plan.follows() {
			p.load(o)
		}
	}
	p.loadWaiting()
	for _, o := range p.pools {
		if !o.Plan.follows() {
			continue
		}
		if o.Plan.resumes() {
			p.lift(o)
		}
		failures := p.judge(o)
		p.loadRunning(o)
		for _, r := range o.inOrder() {
			r.choose()
			p.halt(o, r, failures[r.Edge])
			p.haltWithoutSuccess(r)
		}
		o.trim()
		for _, r := range o.inOrder() {
			if r.Halted != nil {
				o.halts = append(o.halts, r)
			}
		}
		for _, r := range o.inOrder() {
			p.advance(o, r)
			if r.running == 0 && r.waiting == 0 {
				r.Started = time.Time{}
			}
			p.wakeAtDeadline(o, r)
			r.stopped = p.stops(o, r)
		}
	}
	p.refuseStopped()
}

// load takes the record of a policy.
func (p *pass) load(o *pool) {
	o.rollouts, o.judged, o.written = map[Edge]*rollout{}, map[string]bool{}, o.waves()
	for _, recorded := range o.Plan.Rollouts {
		r := o.rollout(recorded.Edge)
		r.Rollout, r.stage = recorded, stageOf(r.waves, recorded.Wave)
		if r.stage >= 0 {
			continue
		}
		// The waves were edited. Those that are satisfied already open again at once.
		if !r.succeeded() {
			r.Failed = 0
		}
		r.open(firstWave(o.written))
	}
}

// rollout is the one of an edge; a new one begins with the first wave.
func (o *pool) rollout(e Edge) *rollout {
	r := o.rollouts[e]
	if r == nil {
		first := firstWave(o.written)
		r = &rollout{Rollout: Rollout{Edge: e, Wave: first}, waves: o.written, stage: stageOf(o.written, first)}
		o.rollouts[e] = r
	}
	return r
}

// loadWaiting counts for each edge the nodes that have a queued job with it and no place yet.
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
		for _, e := range j.Edges {
			if r := n.pools[0].rollout(e.Edge); !slices.Contains(n.waitsWith, r) {
				n.waitsWith = append(n.waitsWith, r)
				r.waiting++
				r.queue = append(r.queue, n.Labels)
			}
		}
	}
}

func (p *pass) loadRunning(o *pool) {
	for _, entry := range o.out.Ledger {
		if o.judged[entry.UID] {
			continue
		}
		for _, e := range p.jobs[entry.UID].Edges {
			o.rollout(e.Edge).running++
		}
	}
}

// trim forgets what there is nothing to remember of, and of more than MaxRollouts what matters least: what is over, the
// oldest first, then what has not begun, and before all of these what cannot begin because its wave chooses no node that waits. It
// must come after the verdicts are counted and the edges halted.
func (o *pool) trim() {
	const none = 5
	rank := func(r *rollout) int {
		begun := r.judged() > 0
		switch {
		case r.running > 0, r.Halted != nil:
			return 0
		case begun && r.waiting > 0:
			return 1
		case r.eligible > 0:
			return 2
		case begun:
			return 3
		case r.waiting > 0:
			return 4
		}
		return none
	}
	ranked := slices.SortedFunc(maps.Values(o.rollouts), func(a, b *rollout) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), b.LastVerdict.Compare(a.LastVerdict), a.Compare(b.Edge))
	})
	for i, r := range ranked {
		if i >= MaxRollouts || rank(r) == none {
			delete(o.rollouts, r.Edge)
		}
	}
}

// inOrder lists the rollouts in order of their edges.
func (o *pool) inOrder() []*rollout {
	return slices.SortedFunc(maps.Values(o.rollouts), func(a, b *rollout) int { return a.Compare(b.Edge) })
}

// states are the rollouts of a pool as they stand after the pass.
func (p *pass) states(o *pool) []RolloutState {
	var out []RolloutState
	for _, r := range o.inOrder() {
		s := RolloutState{Rollout: r.Rollout, Nodes: r.nodes(), Running: r.running, Waiting: r.waiting}
		why := r.stopped
		if why.reason == "" && r.waiting > 0 && r.Wave != Rest && (r.eligible == 0 || r.free() == 0) {
			why = p.closed(r)
		}
		s.Reason, s.Message = why.reason, why.message
		switch {
		case s.Reason != "":
		case r.running+r.waiting == 0:
			s.Message = fmt.Sprintf("No node waits for the update of %s; %s judged.", r.Edge, quantity(r.judged(), "node is", "nodes are"))
		default:
			s.Message = r.progress() + "."
		}
		out = append(out, s)
	}
	return out
}

// closed says why the open wave takes no more nodes. Thousands of nodes may be told the same.
func (p *pass) closed(r *rollout) refusal {
	switch {
	case r.closed.reason != "":
	case r.running == 0 && r.eligible == 0 && !r.succeeded():
		r.closed = refusal{WaveEmpty, fmt.Sprintf("Wave %s of %s chooses none of the %s, and no node has shown yet that the update succeeds. "+
			"Change the nodeSelector of the wave, or label a node for it.", r.Wave, r.Edge, quantity(r.waiting, "waiting node", "waiting nodes"))}
	case r.isJudged() && r.soaked().After(p.facts.Now):
		r.closed = refusal{WaveSoaking, fmt.Sprintf("%s; the next wave opens at %s.", r.progress(), clock(r.soaked()))}
	default:
		r.closed = refusal{WaveNotOpen, r.progress() + "; the next wave opens when each of its nodes has succeeded."}
	}
	return r.closed
}

// progress says how far the open wave is.
func (r *rollout) progress() string {
	out := fmt.Sprintf("Wave %s of %s: %d of %s judged", r.Wave, r.Edge, r.Succeeded+r.Failed, quantity(r.waveNodes(), "node", "nodes"))
	if r.Failed > 0 {
		out += fmt.Sprintf(", %d of them failed", r.Failed)
	}
	return out
}

// soaked is when the open wave has soaked.
func (r *rollout) soaked() time.Time { return r.LastVerdict.Add(r.wave().Soak) }

func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 MST") }

func quantity(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
