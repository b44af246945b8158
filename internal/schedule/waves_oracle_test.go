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
	waves   []schedule.Wave
	halt    schedule.Halt
	targets map[schedule.Target]*told
}

// told is what happened to an update.
type told struct {
	stage        int
	before, wave []verdict
	// streak are the failures since the last success, and from the versions from which a node succeeded.
	streak int
	from   map[string]bool
	halted bool
	// slow says that a node was seen to boot slowly while that could halt.
	slow bool
	last time.Time
}

type verdict struct {
	node     string
	from     []string
	ok, held bool
	slow     bool
}

func (o *oracle) of(target schedule.Target) *told {
	if o.targets[target] == nil {
		o.targets[target] = &told{from: map[string]bool{}}
	}
	return o.targets[target]
}

// present is who runs and waits with an update now, who has no job for it yet, who is held by it, and the versions that those who run
// come from.
type present struct {
	running, waiting, unqueued []schedule.Node
	held                       int
	from                       map[string]bool
}

// left are those that do not run.
func (p present) left() []schedule.Node { return slices.Concat(p.waiting, p.unqueued) }

func (t *told) judged() int { return len(t.before) + len(t.wave) }

func (o *oracle) open(t *told) schedule.Wave {
	if t.stage < len(o.waves) {
		return o.waves[t.stage]
	}
	return schedule.Wave{}
}

// room is how many more nodes the open wave takes.
func (o *oracle) room(t *told, p present) int {
	total := t.judged() + len(p.running) + len(p.left())
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
	return w.Size != nil && o.room(t, p) <= 0 || w.Selector != nil && len(o.members(t, p.left())) == 0
}

func succeeded(vs ...[]verdict) bool {
	return slices.ContainsFunc(slices.Concat(vs...), func(v verdict) bool { return v.ok })
}

func failures(vs []verdict) int {
	return len(vs) - len(slices.DeleteFunc(slices.Clone(vs), func(v verdict) bool { return !v.ok }))
}

// judge takes the verdicts of one pass and halts.
func (o *oracle) judge(now time.Time, target schedule.Target, verdicts []verdict, p present) {
	t := o.of(target)
	t.wave = append(t.wave, verdicts...)
	anyHeld, anyFailed, slow := false, false, false
	for _, v := range verdicts {
		t.last = now
		anyHeld, anyFailed = anyHeld || v.held && !v.ok, anyFailed || !v.ok
		slow, t.streak = slow || v.slow, t.streak+1
		if v.ok {
			t.streak = 0
			for _, from := range v.from {
				t.from[from] = true
			}
		}
	}
	successes := len(t.before) + len(t.wave) - failures(t.wave)
	nodes := t.judged() + len(p.running) + len(p.left())
	lenient := o.halt.LenientAfter > 0 && successes*100 >= o.halt.LenientAfter*nodes
	t.halted = t.halted || slow && !t.slow && !lenient
	t.slow = t.slow || slow && !lenient
	if !anyFailed {
		return
	}
	all := len(t.wave) + len(p.running) + min(max(o.room(t, p), 0), len(o.members(t, p.left())))
	limit := o.halt.MaxFailures.IntValue()
	if s := o.halt.MaxFailures.StrVal; s != "" {
		percent := map[string]int{"40%": 40, "70%": 70}[s]
		limit = max(1, (all*percent+99)/100)
	}
	switch {
	case anyHeld && p.held > o.halt.MaxHeld:
		t.halted = true
	case lenient:
	case limit > 0 && failures(t.wave) >= limit, o.halt.MaxConsecutive > 0 && t.streak >= o.halt.MaxConsecutive,
		o.over(t, p) && !succeeded(t.wave):
		t.halted = true
	}
}

// resume is a person who lifts everything.
func (o *oracle) resume() {
	for _, t := range o.targets {
		t.halted, t.streak = false, 0
		t.wave = slices.DeleteFunc(t.wave, func(v verdict) bool { return !v.ok })
	}
}

// advance opens waves. What failed in a wave before is a node that has the update still, or none at all.
func (o *oracle) advance(now time.Time, target schedule.Target, p present) {
	t := o.of(target)
	for len(p.waiting) > 0 && o.over(t, p) && !o.stops(target) && succeeded(t.before, t.wave) && !now.Before(t.last.Add(o.open(t).Soak)) {
		t.stage, t.before = t.stage+1, append(t.before, slices.DeleteFunc(t.wave, func(v verdict) bool { return !v.ok })...)
		t.wave = nil
	}
}

// stops says whether nothing is admitted for an update at all.
func (o *oracle) stops(target schedule.Target) bool { return o.of(target).halted }

// allows says whether a node may go with an update from a version.
func (o *oracle) allows(e schedule.Edge, n schedule.Node, p present) bool {
	t := o.of(e.Target)
	oneByOne := len(o.waves) > 0 && !t.from[e.From] && p.from[e.From]
	return !o.stops(e.Target) && o.room(t, p) > 0 && len(o.members(t, []schedule.Node{n})) == 1 && !oneByOne
}
