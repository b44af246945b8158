package schedule_test

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nodefirmware/node-firmware-operator/internal/schedule"
)

// oracle knows each node by name where the product keeps counters. It decides by looking at all of them.
type oracle struct {
	waves    []schedule.Wave
	halt     schedule.Halt
	deadline time.Duration
	edges    map[schedule.Edge]*told
}

// told is what happened to an edge.
type told struct {
	stage        int
	before, wave []verdict
	halted       bool
	started      time.Time
	last         time.Time
}

type verdict struct {
	node string
	ok   bool
}

func (o *oracle) of(e schedule.Edge) *told {
	if o.edges[e] == nil {
		o.edges[e] = &told{}
	}
	return o.edges[e]
}

// present is who runs and waits with an edge now.
type present struct{ running, waiting []schedule.Node }

func (t *told) judged() int { return len(t.before) + len(t.wave) }

func (o *oracle) open(t *told) schedule.Wave {
	if t.stage < len(o.waves) {
		return o.waves[t.stage]
	}
	return schedule.Wave{}
}

// room is how many more nodes the open wave takes.
func (o *oracle) room(t *told, p present) int {
	total := t.judged() + len(p.running) + len(p.waiting)
	size := total
	if s := o.open(t).Size; s != nil && s.Type == intstr.Int {
		size = int(s.IntVal)
	} else if s != nil {
		percent := map[string]int{"10%": 10, "50%": 50, "90%": 90}[s.StrVal]
		size = max(1, total*percent/100)
	}
	return size - t.judged() - len(p.running)
}

// members are the nodes that a selector of the open wave or of one before it names; all of them where the open wave has none.
func (o *oracle) members(t *told, nodes []schedule.Node) []schedule.Node {
	if o.open(t).Selector == nil {
		return nodes
	}
	return slices.DeleteFunc(slices.Clone(nodes), func(n schedule.Node) bool {
		named := false
		for _, w := range o.waves[:t.stage+1] {
			named = named || w.Selector != nil && w.Selector.Matches(labels.Set(n.Labels))
		}
		return !named
	})
}

// over says whether every node of the open wave has its verdict.
func (o *oracle) over(t *told, p present) bool {
	if t.stage >= len(o.waves) || len(p.running) > 0 {
		return false
	}
	w := o.open(t)
	return w.Size != nil && o.room(t, p) <= 0 || w.Selector != nil && len(o.members(t, p.waiting)) == 0
}

func succeeded(vs ...[]verdict) bool {
	return slices.ContainsFunc(slices.Concat(vs...), func(v verdict) bool { return v.ok })
}

func failures(vs []verdict) int {
	return len(vs) - len(slices.DeleteFunc(slices.Clone(vs), func(v verdict) bool { return !v.ok }))
}

// judge takes the verdicts of one pass and halts.
func (o *oracle) judge(now time.Time, e schedule.Edge, verdicts []verdict, held []bool, p present) {
	t := o.of(e)
	t.wave = append(t.wave, verdicts...)
	if len(verdicts) > 0 {
		t.last = now
	}
	all := len(t.wave) + len(p.running) + min(max(o.room(t, p), 0), len(o.members(t, p.waiting)))
	for i, v := range verdicts {
		failed := failures(t.wave)
		if !v.ok && (held[i] || o.halt.MaxFailures > 0 && failed >= o.halt.MaxFailures ||
			o.halt.MaxFailedPercent > 0 && failed*100 > o.halt.MaxFailedPercent*all) {
			t.halted = true
		}
	}
	if o.over(t, p) && len(t.wave) > 0 && !succeeded(t.wave) {
		t.halted = true
	}
}

// resume is a person who lifts everything.
func (o *oracle) resume(now time.Time) {
	for _, t := range o.edges {
		t.halted = false
		t.wave = slices.DeleteFunc(t.wave, func(v verdict) bool { return !v.ok })
		if !t.started.IsZero() {
			t.started = now
		}
	}
}

// advance opens waves.
func (o *oracle) advance(now time.Time, e schedule.Edge, p present) {
	t := o.of(e)
	if len(p.running)+len(p.waiting) == 0 {
		t.started = time.Time{}
	}
	for len(p.waiting) > 0 && o.over(t, p) && !o.stops(now, e, false) && succeeded(t.before, t.wave) && !now.Before(t.last.Add(o.open(t).Soak)) {
		t.stage, t.before, t.wave = t.stage+1, append(t.before, t.wave...), nil
	}
}

// stops says whether nothing is admitted for an edge at all: it or another of the same image and model is halted, or it took
// too long.
func (o *oracle) stops(now time.Time, e schedule.Edge, late bool) bool {
	for other, t := range o.edges {
		if t.halted && other.Model == e.Model && other.Digest == e.Digest {
			return true
		}
	}
	t := o.of(e)
	return late && o.deadline > 0 && !t.started.IsZero() && !now.Before(t.started.Add(o.deadline))
}

// allows says whether a node may go with an edge.
func (o *oracle) allows(now time.Time, e schedule.Edge, n schedule.Node, p present) bool {
	t := o.of(e)
	return !o.stops(now, e, true) && o.room(t, p) > 0 && len(o.members(t, []schedule.Node{n})) == 1
}
