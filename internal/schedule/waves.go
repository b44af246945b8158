package schedule

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

func firstWave(waves []Wave) string {
	if len(waves) == 0 {
		return Rest
	}
	return waves[0].Name
}

// stageOf is the index of the wave of that name; len(waves) for Rest, and -1 where there is none.
func stageOf(waves []Wave, name string) int {
	if name == Rest {
		return len(waves)
	}
	return slices.IndexFunc(waves, func(w Wave) bool { return w.Name == name })
}

// wave is the open wave. Rest includes every node.
func (r *rollout) wave() Wave {
	if r.stage < len(r.waves) {
		return r.waves[r.stage]
	}
	return Wave{Name: Rest}
}

// open goes on to another wave.
func (r *rollout) open(name string) {
	r.Wave, r.stage = name, stageOf(r.waves, name)
	r.Done, r.Succeeded, r.Failed = r.Done+r.Succeeded, 0, 0
	r.choose()
}

// judged counts the verdicts that count, and nodes all that have the update.
func (r *rollout) judged() int { return r.Done + r.Succeeded + r.Failed }
func (r *rollout) nodes() int  { return r.judged() + r.running + r.waiting + r.unqueued }

// size is how many nodes may be updated up to the end of the open wave.
func (r *rollout) size() int {
	s := r.wave().Size
	switch {
	case s == nil:
		return r.nodes()
	case s.Type == intstr.Int:
		return int(s.IntVal)
	}
	return Budget(*s, r.nodes())
}

// free is how many more nodes may go in the open wave.
func (r *rollout) free() int { return max(0, r.size()-r.judged()-r.running) }

// includes reports whether the open wave chooses the node: by its selector, or by that of a wave before. Otherwise two updates in
// different waves, each with a node that the other one has behind or before it, would wait for each other for ever.
func (r *rollout) includes(node map[string]string) bool {
	open := r.wave()
	return open.chooses(node) || slices.ContainsFunc(r.waves[:r.stage], func(before Wave) bool {
		return before.Selector != nil && before.chooses(node)
	})
}

func (w Wave) chooses(node map[string]string) bool {
	return w.Selector == nil || w.Selector.Matches(labels.Set(node))
}

// choose counts the nodes without a place that the open wave chooses.
func (r *rollout) choose() {
	r.eligible, r.absent = 0, ""
	anyJob := false
	for _, n := range r.queue {
		if !r.includes(n.Labels) {
			continue
		}
		r.eligible++
		anyJob = anyJob || n.hasJob
		if r.absent == "" || n.Name < r.absent {
			r.absent = n.Name
		}
	}
	if anyJob {
		r.absent = ""
	}
}

// goBack opens the first wave before the open one that takes more nodes, after the waves were edited. Those that are full are not
// waited for again.
func (r *rollout) goBack() {
	for stage := range r.stage {
		before := *r
		before.stage = stage
		before.choose()
		if before.free() > 0 && before.eligible > 0 {
			r.open(r.waves[stage].Name)
			return
		}
	}
}

// waveNodes counts the nodes of the open wave.
func (r *rollout) waveNodes() int {
	return r.Succeeded + r.Failed + r.running + min(r.free(), r.eligible)
}

// succeeded reports whether a node has succeeded in this wave or in one before: none is left without.
func (r *rollout) succeeded() bool { return r.Done+r.Succeeded > 0 }

// isJudged reports whether each node of the open wave has a verdict. A wave that lacks nodes waits for them, but one with a
// selector does not wait for nodes that have nothing to update: there may be none.
func (r *rollout) isJudged() bool {
	w := r.wave()
	return r.running == 0 && (w.Size != nil && r.free() == 0 || w.Selector != nil && r.eligible == 0)
}

// advance opens the next waves as long as the open one is judged and has soaked. No update leaves its first wave before a node
// has succeeded, and no wave opens for which no node waits: nodes that join the pool later are spread over waves as well.
func (p *pass) advance(o *pool, r *rollout) {
	for r.Wave != Rest && r.waiting > 0 && !o.unplanned && r.isJudged() && r.succeeded() && o.halted(r.Target) == nil {
		if soaked := r.soaked(); soaked.After(p.facts.Now) {
			p.wake(soaked)
			return
		}
		next := Rest
		if i := r.stage + 1; i < len(r.waves) {
			next = r.waves[i].Name
		}
		r.open(next)
	}
}

// inWave keeps the job until the open wave of each of its updates includes its node. Where no node has succeeded yet that came from the
// same version, one goes after the other. What a pin selects waits for no wave: whoever pins has decided. A halt is about the image, and
// stops that too.
func (p *pass) inWave(c *candidate) (Reason, string) {
	if !c.pool.Plan.follows() || c.node.repeats(c.job) {
		return "", ""
	}
	for _, e := range c.job.Edges {
		if pins(c.job.Edges, e.Target) {
			if halted := p.stops(c.pool, e.Target); halted.reason != "" {
				return halted.reason, halted.message
			}
			continue
		}
		r := c.pool.rollouts[e.Target]
		if r == nil {
			return WaitingForWave, fmt.Sprintf("Rollout policy %s tracks %d updates, its maximum; the update of %s is admitted "+
				"once one of them has finished.", c.pool.Name, MaxRollouts, e.Target)
		}
		if r.stopped.reason != "" {
			return r.stopped.reason, r.stopped.message
		}
		if !r.includes(c.node.Labels) || r.free() == 0 {
			closed := p.closed(c.pool, r)
			return closed.reason, closed.message
		}
		if r.isFirstFrom(e.From) && r.runningFrom[e.From] > 0 {
			return WaitingForWave, fmt.Sprintf("No node has succeeded with the update of %s from version %s yet, and the first one is under way.",
				e.Target, e.From)
		}
	}
	return "", ""
}

// isFirstFrom reports whether the nodes that come from the version go one after the other.
func (r *rollout) isFirstFrom(version string) bool {
	_, known := slices.BinarySearch(r.From, version)
	return len(r.waves) > 0 && !known
}

// begin counts an admitted job in the open waves of its updates.
func (p *pass) begin(c *candidate) {
	for _, e := range targets(c.job.Edges) {
		r := c.pool.rollouts[e.Target]
		if r == nil { // only where the policy follows no updates, or a held node repeats one that has no place in the list
			continue
		}
		if e.Pinned {
			r.pinsWaiting = max(0, r.pinsWaiting-1)
			continue
		}
		r.run(c.job)
		r.closed = refusal{}
		if r.waiting > 0 {
			r.waiting--
		}
		if r.eligible > 0 && r.includes(c.node.Labels) {
			r.eligible--
		}
	}
}

// Chosen names the policies that choose a node with these labels, in the order given: those whose selector matches, or
// else the default one, if there is one. More than one is a conflict.
func Chosen(policies []Policy, node map[string]string) []string {
	var out []string
	set, hasDefault := labels.Labels(labels.Set(node)), false
	for i := range policies { // a copy of each policy for each node would be most of the work
		p := &policies[i]
		hasDefault = hasDefault || p.isDefault()
		if !p.isDefault() && p.Invalid == "" && p.Selector.Matches(set) {
			out = append(out, p.Name)
		}
	}
	if len(out) == 0 && hasDefault {
		out = append(out, v1alpha1.DefaultRolloutPolicy)
	}
	return out
}
