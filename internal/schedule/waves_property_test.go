package schedule_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"github.com/nodefirmware/node-firmware-operator/internal/schedule"
)

// The last two are the same update over different versions.
var edges = []schedule.Edge{
	{Target: schedule.Target{Model: "15b3:101d", Version: "2", Digest: "sha256:a"}, From: "1"},
	{Target: schedule.Target{Model: "dell-inc:bios", Version: "2", Digest: "sha256:b"}, From: "1"},
	{Target: schedule.Target{Model: "dell-inc:bios", Version: "2", Digest: "sha256:b"}, From: "0"},
}

var targets = []schedule.Target{edges[0].Target, edges[1].Target}

// spread is a pool over which updates spread in waves, with an operator that may lose its writes.
type spread struct {
	*oracle
	now    time.Time
	policy schedule.Policy
	nodes  map[string]schedule.Node
	jobs   map[string]schedule.Job
	queued int
	// due are the updates of nodes without a job, because the queue is full; nil where no planner says. It has not looked at the new nodes yet.
	due, fresh map[string][]schedule.Edge
	joined     int
}

var wishes = [][]schedule.Edge{edges[:1], edges[1:2], edges[2:], edges[:2], edges[1:], {edges[0], edges[2]}}

func newSpread(t *rapid.T) *spread {
	s := &spread{now: epoch, nodes: map[string]schedule.Node{}, jobs: map[string]schedule.Job{}, policy: policy("default", "", intstr.FromInt(rapid.IntRange(1, 4).Draw(t, "budget")))}
	if rapid.Bool().Draw(t, "the planner says what is due") {
		s.due, s.fresh = map[string][]schedule.Edge{}, map[string][]schedule.Edge{}
	}
	for range rapid.IntRange(1, 9).Draw(t, "nodes") {
		s.join(t)
	}
	s.policy.Plan = newPlan(t)
	halt := schedule.Halt{MaxFailures: intstr.FromInt32(1)}
	if h := s.policy.Plan.Halt; h != nil {
		halt = *h
	}
	s.oracle = &oracle{waves: s.policy.Plan.Waves, halt: halt, targets: map[schedule.Target]*told{}}
	return s
}

// join adds a node that is to get something, with a job or behind a full queue.
func (s *spread) join(t *rapid.T) {
	n := schedule.Node{Name: fmt.Sprintf("n%d", s.joined), Ready: true, Labels: map[string]string{"canary": fmt.Sprint(rapid.IntRange(0, 3).Draw(t, "canary") == 0)}}
	s.nodes[n.Name], s.joined = n, s.joined+1
	wish := rapid.SampledFrom(wishes).Draw(t, "edges")
	if s.due != nil && rapid.IntRange(0, 3).Draw(t, "it is new to the planner") == 0 {
		s.fresh[n.Name] = wish
		return
	}
	s.plan(n.Name, wish, s.due != nil && rapid.IntRange(0, 2).Draw(t, "the queue is full") == 0)
}

// plan is the planner, which looked at a node.
func (s *spread) plan(node string, wish []schedule.Edge, isFull bool) {
	delete(s.fresh, node)
	if s.due != nil {
		s.due[node] = nil
	}
	if isFull {
		s.due[node] = wish
	} else {
		s.queue(node, wish)
	}
}

// busy reports whether the node has a place, or a job that has one to get back.
func (s *spread) busy(node string) bool {
	return slices.ContainsFunc(s.policy.Ledger, func(e schedule.Entry) bool { return e.Node == node }) ||
		slices.ContainsFunc(slices.Collect(maps.Values(s.jobs)), func(j schedule.Job) bool { return j.Node == node && j.State != schedule.Queued })
}

func (s *spread) idle() map[string]schedule.Node {
	out := map[string]schedule.Node{}
	for name, n := range s.nodes {
		if !s.busy(name) {
			out[name] = n
		}
	}
	return out
}

// refused are the nodes that wait for room in the queue.
func (s *spread) refused() map[string][]schedule.Edge {
	out := maps.Clone(s.due)
	maps.DeleteFunc(out, func(_ string, es []schedule.Edge) bool { return len(es) == 0 })
	return out
}

// enter queues a job for a node that waited for room.
func (s *spread) enter(node string) {
	s.queue(node, s.due[node])
	s.due[node] = nil
}

// withdraw deletes the queued jobs of a node.
func (s *spread) withdraw(node string) {
	maps.DeleteFunc(s.jobs, func(_ string, j schedule.Job) bool { return j.Node == node && j.State == schedule.Queued })
}

func newPlan(t *rapid.T) schedule.Plan {
	var p schedule.Plan
	sizes := slices.Sorted(slices.Values(rapid.SliceOfNDistinct(rapid.IntRange(1, 6), 0, 3, rapid.ID[int]).Draw(t, "sizes")))
	for i, n := range sizes {
		size := intstr.FromInt(n)
		if n > 3 {
			size = intstr.FromString([]string{"10%", "50%", "90%"}[n-4])
		}
		w := schedule.Wave{Name: fmt.Sprintf("w%d", i), Size: &size, Soak: time.Duration(rapid.IntRange(0, 4).Draw(t, "soak")) * time.Minute}
		if kind := rapid.IntRange(0, 3).Draw(t, "selects"); kind == 0 {
			w.Selector = labels.SelectorFromSet(labels.Set{"canary": "true"})
			if rapid.Bool().Draw(t, "all of them") {
				w.Size = nil
			}
		}
		p.Waves = append(p.Waves, w)
	}
	p.Halt = rapid.SampledFrom([]*schedule.Halt{
		nil, {MaxFailures: intstr.FromInt32(1)}, {MaxFailures: intstr.FromInt32(3), MaxHeld: 1}, {MaxFailures: intstr.FromString("40%"), LenientAfter: 60},
		{MaxFailures: intstr.FromString("70%"), MaxConsecutive: 2, MaxHeld: 2}, {MaxConsecutive: 2},
	}).Draw(t, "halt")
	if len(p.Waves) == 0 && p.Halt == nil {
		p.Halt = &schedule.Halt{MaxFailures: intstr.FromInt32(1)}
	}
	return p
}

func (s *spread) queue(node string, es []schedule.Edge) {
	s.queued++
	j := job(node, s.queued, schedule.Queued)
	for _, e := range es {
		j.Edges = append(j.Edges, schedule.JobEdge{Edge: e})
	}
	slices.SortFunc(j.Edges, func(a, b schedule.JobEdge) int { return a.Edge.Compare(b.Edge) })
	s.jobs[j.UID] = j
}

func (s *spread) facts() schedule.Facts {
	f := schedule.Facts{Now: s.now, Policies: []schedule.Policy{s.policy}, Nodes: slices.Collect(maps.Values(s.nodes)), Jobs: slices.Collect(maps.Values(s.jobs)), Due: s.due}
	rand.Shuffle(len(f.Nodes), func(i, j int) { f.Nodes[i], f.Nodes[j] = f.Nodes[j], f.Nodes[i] })
	rand.Shuffle(len(f.Jobs), func(i, j int) { f.Jobs[i], f.Jobs[j] = f.Jobs[j], f.Jobs[i] })
	return f
}

// present says who runs and waits with each update, when the ledger is as given.
func (s *spread) present(ledger []schedule.Entry, judged []string) map[schedule.Target]present {
	out, placed := map[schedule.Target]present{}, map[string]bool{}
	for _, e := range ledger {
		placed[e.UID] = true
	}
	for _, target := range targets {
		p := present{from: map[string]bool{}}
		for _, j := range s.jobs {
			es := edgesTo(j, target)
			switch {
			case len(es) == 0, j.State == schedule.Held && verdictOf(es) == schedule.Acquitted:
			case placed[j.UID] && !slices.Contains(judged, j.UID):
				p.running = append(p.running, s.nodes[j.Node])
				for _, e := range es {
					p.from[e.From] = true
				}
			case placed[j.UID] && verdictOf(es) == schedule.Failed:
				p.held++
			case !placed[j.UID] && j.State == schedule.Queued:
				p.waiting = append(p.waiting, s.nodes[j.Node])
			}
		}
		for name, es := range s.due {
			isDue := slices.ContainsFunc(es, func(e schedule.Edge) bool { return e.Target == target })
			has := slices.ContainsFunc(slices.Collect(maps.Values(s.jobs)), func(j schedule.Job) bool {
				return j.Node == name && len(edgesTo(j, target)) > 0 && (placed[j.UID] || j.State == schedule.Queued)
			})
			if isDue && !has {
				p.unqueued = append(p.unqueued, s.nodes[name])
			}
		}
		out[target] = p
	}
	return out
}

func edgesTo(j schedule.Job, target schedule.Target) []schedule.JobEdge {
	return slices.DeleteFunc(slices.Clone(j.Edges), func(e schedule.JobEdge) bool { return e.Target != target })
}

// verdictOf is the worst of the verdicts.
func verdictOf(es []schedule.JobEdge) schedule.Verdict {
	for _, v := range []schedule.Verdict{schedule.Failed, schedule.OnTrial, schedule.Acquitted, schedule.Unknown} {
		if slices.ContainsFunc(es, func(e schedule.JobEdge) bool { return e.Verdict == v }) {
			return v
		}
	}
	return schedule.Succeeded
}

// expect is the oracle's own decision: which jobs get a place in this pass.
func (s *spread) expect() []string {
	if p := &s.policy.Plan; p.Resume != p.Resumed {
		s.resume()
	}
	var kept []schedule.Entry
	judged := slices.Clone(s.policy.Plan.Judged)
	gone, stay := map[schedule.Target][]verdict{}, map[schedule.Target][]verdict{}
	for _, e := range s.policy.Ledger {
		j := s.jobs[e.UID]
		if j.State != schedule.Finished {
			kept = append(kept, e)
		}
		acquitted := j.State == schedule.Held && verdictOf(j.Edges) == schedule.Acquitted
		if j.State != schedule.Finished && j.State != schedule.Held || slices.Contains(judged, e.UID) || acquitted {
			continue
		}
		judged = append(judged, e.UID)
		for _, target := range targets {
			es := edgesTo(j, target)
			if v := verdictOf(es); len(es) == 0 || v != schedule.Failed && v != schedule.Succeeded {
				continue
			}
			v := verdict{node: j.Node, ok: verdictOf(es) == schedule.Succeeded, held: j.State == schedule.Held}
			v.slow = v.ok && j.Slow != ""
			for _, e := range es {
				v.from = append(v.from, e.From)
			}
			if v.held {
				stay[target] = append(stay[target], v)
			} else {
				gone[target] = append(gone[target], v)
			}
		}
	}
	now := s.present(kept, judged)
	for _, target := range targets {
		s.judge(s.now, target, append(gone[target], stay[target]...), now[target])
	}
	for _, target := range targets {
		if len(s.fresh) == 0 {
			s.advance(s.now, target, now[target])
		}
	}
	var out []string
	doubted := s.doubted(kept)
	for _, j := range slices.SortedFunc(maps.Values(s.jobs), func(a, b schedule.Job) int { return a.Created.Compare(b.Created) }) {
		busy := slices.ContainsFunc(kept, func(e schedule.Entry) bool { return e.Node == j.Node })
		if j.State != schedule.Queued || busy || len(kept) >= int(s.policy.MaxUnavailable.IntVal) {
			continue
		}
		allowed := !slices.ContainsFunc(j.Edges, func(e schedule.JobEdge) bool {
			return doubted[e.Target] || !s.allows(e.Edge, s.nodes[j.Node], now[e.Target])
		})
		if !allowed {
			continue
		}
		kept, out = append(kept, entry(j)), append(out, j.Name)
		now = s.present(kept, judged)
	}
	return out
}

// doubted are the updates that somebody restores to see whether they are at fault, and those that two nodes were left unhealthy by.
func (s *spread) doubted(ledger []schedule.Entry) map[schedule.Target]bool {
	out := map[schedule.Target]bool{}
	for _, target := range targets {
		acquitted := 0
		for _, e := range ledger {
			switch j := s.jobs[e.UID]; {
			case len(edgesTo(j, target)) == 0:
			case verdictOf(edgesTo(j, target)) == schedule.OnTrial:
				out[target] = true
			case j.State == schedule.Held && verdictOf(edgesTo(j, target)) == schedule.Acquitted:
				acquitted++
			}
		}
		out[target] = out[target] || acquitted > 1
	}
	return out
}

// pass is a pass of the operator. It decides the same as the oracle, and the same again whatever order the facts have; when it
// dies, one of its writes is the last.
func (s *spread) pass(t *rapid.T, dies bool) {
	d := schedule.Decide(s.facts())
	require.Equal(t, d, schedule.Decide(s.facts()), "the order of the facts changes nothing")
	o := d.Policies[0]
	if dies && rapid.Bool().Draw(t, "the ledger is not written") {
		return
	}
	require.Equal(t, s.expect(), admitted(o), "the jobs that get a place")
	for _, w := range d.Wait {
		require.NotEmpty(t, w.Message, "why %s waits", w.Job)
	}
	s.write(o)
	for _, a := range d.Admit {
		j := s.jobs[a.Entry.UID]
		require.False(t, slices.ContainsFunc(j.Edges, func(e schedule.JobEdge) bool { return s.stops(e.Target) }), "job %s is told to run though its update is halted", j.Name)
		if !dies || rapid.Bool().Draw(t, "the condition is written") {
			j.State = schedule.Admitted
			s.jobs[j.UID] = j
		}
	}
	s.checkQuiet(t, d.Next)
}

func (s *spread) write(o schedule.Outcome) {
	s.policy.Ledger, s.policy.Plan.Judged, s.policy.Plan.Resumed = o.Ledger, o.Judged, o.Resumed
	s.policy.Plan.Rollouts = nil
	for _, r := range o.Rollouts {
		s.policy.Plan.Rollouts = append(s.policy.Plan.Rollouts, r.Rollout)
	}
}

// checkQuiet proves that nothing follows from what was written until the time that the decision named.
func (s *spread) checkQuiet(t *rapid.T, next time.Time) {
	f := s.facts()
	for _, at := range []time.Time{s.now, next.Add(-time.Second), s.now.Add(1000 * time.Hour)} {
		isLater := !next.IsZero() && !at.Before(next)
		if at.Before(s.now) || isLater {
			continue
		}
		f.Now = at
		o := schedule.Decide(f).Policies[0]
		require.False(t, o.Changed(), "something changes at %s, before %s", at, next)
		for i, r := range o.Rollouts {
			require.Equal(t, s.policy.Plan.Rollouts[i], r.Rollout, "at %s", at)
		}
	}
}

func (s *spread) in(states ...schedule.JobState) map[string]schedule.Job {
	out := map[string]schedule.Job{}
	for uid, j := range s.jobs {
		if slices.Contains(states, j.State) {
			out[uid] = j
		}
	}
	return out
}

// end ends a job with one verdict about each of its edges.
func (s *spread) end(j schedule.Job, state schedule.JobState, of func() schedule.Verdict) {
	j.State, j.Edges = state, slices.Clone(j.Edges)
	for i := range j.Edges {
		j.Edges[i].Verdict = of()
	}
	s.jobs[j.UID] = j
}

// Waves are never overtaken, a halted update admits nothing, each verdict counts once, a free place and a node that may go never
// coexist, and the operator wakes exactly when time changes the decision: for random pools, waves and outcomes, with an
// operator that may die between its writes, it decides as an oracle does that knows every node by name.
func TestWavesSpreadAsTheOracleSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newSpread(t)
		t.Repeat(map[string]func(*rapid.T){
			"pass":           func(t *rapid.T) { s.pass(t, false) },
			"pass that dies": func(t *rapid.T) { s.pass(t, true) },
			"succeed": func(t *rapid.T) {
				s.end(s.jobs[pick(t, s.in(schedule.Admitted), "job")], schedule.Finished, func() schedule.Verdict { return schedule.Succeeded })
			},
			"succeed and boot slowly": func(t *rapid.T) {
				j := s.jobs[pick(t, s.in(schedule.Admitted), "job")]
				j.Slow = "it took 5m0s to boot"
				s.end(j, schedule.Finished, func() schedule.Verdict { return schedule.Succeeded })
			},
			"fail": func(t *rapid.T) {
				s.end(s.jobs[pick(t, s.in(schedule.Admitted), "job")], rapid.SampledFrom([]schedule.JobState{schedule.Finished, schedule.Held}).Draw(t, "state"),
					func() schedule.Verdict {
						return rapid.SampledFrom([]schedule.Verdict{schedule.Failed, schedule.Unknown}).Draw(t, "verdict")
					})
			},
			"try the firmware before": func(t *rapid.T) {
				s.end(s.jobs[pick(t, s.in(schedule.Admitted), "job")], schedule.Admitted, func() schedule.Verdict { return schedule.OnTrial })
			},
			"acquit": func(t *rapid.T) {
				s.end(s.jobs[pick(t, s.in(schedule.Admitted), "job")], schedule.Held, func() schedule.Verdict { return schedule.Acquitted })
			},
			"end without verdict": func(t *rapid.T) {
				j := s.jobs[pick(t, s.in(schedule.Admitted), "job")]
				s.end(j, schedule.Finished, func() schedule.Verdict { return schedule.Unknown })
				var es []schedule.Edge
				for _, e := range j.Edges {
					es = append(es, e.Edge)
				}
				if s.due != nil && rapid.Bool().Draw(t, "it waits for another try") {
					s.due[j.Node] = es
				} else {
					s.queue(j.Node, es)
				}
			},
			"get room in the queue": func(t *rapid.T) {
				s.enter(pick(t, s.refused(), "node"))
			},
			"replace a job": func(t *rapid.T) {
				node := pick(t, s.idle(), "node")
				s.withdraw(node)
				s.plan(node, rapid.SampledFrom(wishes).Draw(t, "edges"), false)
			},
			"join": func(t *rapid.T) {
				if len(s.nodes) == 12 {
					t.Skip("enough")
				}
				s.join(t)
			},
			"leave": func(t *rapid.T) {
				node := pick(t, s.idle(), "node")
				s.withdraw(node)
				delete(s.nodes, node)
				delete(s.due, node)
				delete(s.fresh, node)
			},
			"the planner looks": func(t *rapid.T) {
				node := pick(t, s.fresh, "node")
				s.plan(node, s.fresh[node], rapid.Bool().Draw(t, "the queue is full"))
			},
			"the clock is put back": func(t *rapid.T) {
				s.now = s.now.Add(-time.Duration(rapid.IntRange(1, 300).Draw(t, "seconds")) * time.Second)
			},
			"release": func(t *rapid.T) {
				j := s.jobs[pick(t, s.in(schedule.Held), "job")]
				j.State = schedule.Finished
				s.jobs[j.UID] = j
			},
			"forget a counted job": func(t *rapid.T) {
				uid := pick(t, s.in(schedule.Finished), "job")
				if !slices.ContainsFunc(s.policy.Ledger, func(e schedule.Entry) bool { return e.UID == uid }) {
					delete(s.jobs, uid)
				}
			},
			"time": func(t *rapid.T) {
				s.now = s.now.Add(time.Duration(rapid.IntRange(1, 300).Draw(t, "seconds")) * time.Second)
			},
			"resume": func(t *rapid.T) { s.policy.Plan.Resume = rapid.SampledFrom([]string{"a", "b"}).Draw(t, "text") },
		})
	})
}

// No node starves: when every job succeeds, time passes and a person resumes, each node is updated in the end, and only an
// empty first wave keeps nodes waiting.
func TestWavesDrain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newSpread(t)
		for _, node := range slices.Sorted(maps.Keys(s.fresh)) {
			s.plan(node, s.fresh[node], false)
		}
		for round := 0; len(s.in(schedule.Finished)) < len(s.jobs) || len(s.refused()) > 0; round++ {
			d := schedule.Decide(s.facts())
			s.write(d.Policies[0])
			for _, a := range d.Admit {
				s.end(s.jobs[a.Entry.UID], schedule.Finished, func() schedule.Verdict { return schedule.Succeeded })
			}
			if refused := slices.Sorted(maps.Keys(s.refused())); len(refused) > 0 {
				s.enter(refused[0])
				continue
			}
			if len(d.Admit) == 0 && d.Next.IsZero() && len(d.Policies[0].Remove) == 0 {
				for _, w := range d.Wait {
					require.Contains(t, []schedule.Reason{schedule.WaveEmpty}, w.Reason, "%s waits for ever: %s", w.Job, w.Message)
				}
				return
			}
			if !d.Next.IsZero() {
				s.now = d.Next
			}
			require.Less(t, round, 100, "the waves do not drain")
		}
	})
}
