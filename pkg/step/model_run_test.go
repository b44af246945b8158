package step_test

import (
	"fmt"
	"reflect"
	"strconv"
	"time"

	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// decider is the step machine under test: step.Next, but where a test breaks it.
type decider func(step.Record, step.Facts, step.Limits) step.Action

// violation is an invariant that did not hold, by its short name, such as I1.
type violation struct{ invariant, message string }

// maxRounds bounds a schedule: one that takes longer does not end.
const maxRounds = 4000

// play runs the schedule of a seed, in a world that is changed before it begins. The world has a trace only if an invariant is violated.
func play(seed uint64, change func(*world)) (*world, step.Record) {
	if w, r := playOnce(seed, change, true); len(w.violations) == 0 {
		return w, r
	}
	return playOnce(seed, change, false)
}

func playOnce(seed uint64, change func(*world), quiet bool) (*world, step.Record) {
	w, r := newWorld(seed)
	w.next, w.quiet = step.Next, quiet
	change(w)
	w.run(&r)
	w.judgeOrder(r)
	w.judgeEnd(r)
	if w.aftermath(&r) {
		w.run(&r)
		w.judgeEnd(r)
	}
	return w, r
}

// sound is a world that nobody breaks.
func sound(*world) {}

// run executes the job to its end.
func (w *world) run(r *step.Record) {
	last := -2
	for range maxRounds {
		w.tick()
		if cur := r.Current(); cur != last || w.interrupted && w.since < w.died {
			last, w.since = cur, w.now
		}
		facts := w.facts(*r)
		if w.person != nil {
			w.person(&facts)
		}
		a := w.next(*r, facts, step.DefaultLimits())
		if w.watch != nil {
			w.watch(*r, facts, a)
		}
		w.note("%s %d %s", verbs[a.Verb], a.Step, a.Message)
		if w.crashes("before the journal") {
			continue
		}
		next := step.Apply(*r, a, w.bootID(), w.wall())
		w.judgeDecision(*r, next, a, facts)
		*r = next
		if a.Verb == step.Finish {
			return
		}
		w.follow(r, a)
		if len(w.violations) > 0 {
			return
		}
	}
	w.violate("End", "the job does not end: %+v", r.Failure)
}

var verbs = map[step.Verb]string{
	step.Await: "await", step.Begin: "begin", step.Poll: "poll", step.Settle: "settle", step.RollBack: "roll back",
	step.Restart: "restart", step.Finish: "finish",
}

// follow carries out an action.
func (w *world) follow(r *step.Record, a step.Action) {
	switch a.Verb {
	case step.Await:
		w.now += w.between(2*time.Second, 4*time.Minute)
		return
	case step.Begin:
		w.interrupted, w.since = false, w.now
		if s := r.Steps[a.Step]; s.Attempt == 1 {
			w.begun[s.Rollback] = append(w.begun[s.Rollback], s.Priority)
		}
	case step.Poll:
		w.now += w.between(2*time.Second, time.Minute)
	case step.Restart, step.RebootAgain:
		clear(w.begun)
		return
	default:
		return
	}
	if w.crashes("after the journal") {
		w.wrote = w.wrote || r.Steps[a.Step].Writes() // as far as anybody can tell
		return
	}
	ret := w.act(*r, r.Steps[a.Step])
	if ret == nil || !reflect.DeepEqual(r.Steps[a.Step].Returned, ret) {
		w.since = w.now
	}
	if w.interrupted || ret == nil || w.crashes("before the result is noted") {
		return
	}
	*r = step.Report(*r, a.Step, *ret)
}

// crashes draws whether the process dies here.
func (w *world) crashes(where string) bool {
	if !w.chance(w.crashiness) {
		return false
	}
	w.note("the process dies %s", where)
	w.die()
	return true
}

// die ends the process. A write that it began goes on, and the next process may have another version of the driver.
func (w *world) die() {
	w.interrupted, w.died = true, w.now
	w.now += w.between(time.Second, 5*time.Minute)
	if w.chance(12) {
		w.driver++
		w.note("the driver is now version %d", w.driver)
	}
}

// aftermath lets a person return a held node to service.
func (w *world) aftermath(r *step.Record) bool {
	if len(w.violations) > 0 || r.Failure == nil || !r.Failure.Held || r.Released || !w.chance(2) {
		return false
	}
	w.note("a person returns the node to service")
	w.operations = 0
	*r = step.Release(*r)
	return true
}

// wall is the time of the virtual clock as people read it; it may be stepped.
func (w *world) wall() time.Time { return time.Unix(0, 0).Add(w.now + w.stepped) }

func (w *world) bootID() string { return "boot-" + strconv.Itoa(w.boot) }

func (w *world) note(format string, args ...any) {
	if w.quiet {
		return
	}
	w.trace = append(w.trace, fmt.Sprintf("%10s %s ", w.now.Round(time.Second), w.bootID())+fmt.Sprintf(format, args...))
}

func (w *world) violate(invariant, format string, args ...any) {
	v := violation{invariant, fmt.Sprintf(format, args...)}
	w.note("VIOLATION %s %s", v.invariant, v.message)
	w.violations = append(w.violations, v)
}

func name(s step.Step) string {
	if s.Rollback {
		return fmt.Sprintf("%s %s (rollback)", s.Kind, s.Device)
	}
	return fmt.Sprintf("%s %s", s.Kind, s.Device)
}
