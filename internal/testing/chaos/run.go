package chaos

import (
	"cmp"
	"fmt"
	"os"
	"time"

	"github.com/nodefirmware/node-firmware-operator/internal/node/engine"
	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// Run is one host with its faults.
type Run struct {
	Scenario Scenario
	Faults   []Fault
	// Aftermath is what happens when the job has ended.
	Aftermath Aftermath
	// dir is where directories are made; empty for the one in memory. sabotage breaks the engine, for tests.
	dir      string
	sabotage func(*world, *engine.Config)
}

// Aftermath is what happens when a job has failed.
type Aftermath int

// The aftermaths.
const (
	// Nothing happens.
	Nothing Aftermath = iota
	// Again: the operator plans the same job once more, as if it had forgotten the failure.
	Again
	// Returned: a person returns the node to service where it is held.
	Returned
	// Retried: a person asks to try again.
	Retried
	aftermaths
)

// Outcome is the result of a run.
type Outcome struct {
	Violations []Violation
	// Trace lists what happened, oldest first.
	Trace []string
	// Boundaries are those of the run; it is only filled by a run without faults.
	boundaries []boundary
	// Points is how many boundaries were passed.
	Points int
	// Struck is how many of the faults happened.
	Struck int
	// End says how the first job ended.
	End string
}

// Do executes the run and checks its history.
func (r Run) Do() (out Outcome, err error) {
	dir, err := os.MkdirTemp(cmp.Or(r.dir, inMemory()), "run-")
	if err != nil {
		return out, fmt.Errorf("make directory: %w", err)
	}
	defer os.RemoveAll(dir)
	w, err := newWorld(r.Scenario, dir, r.Faults)
	if err != nil {
		return out, err
	}
	w.sabotage, w.record = r.sabotage, len(r.Faults) == 0
	w.run(w.job("first"))
	out.boundaries, out.End = w.golden, w.end()
	w.record = false
	if !w.broken() {
		w.afterwards(r.Aftermath)
	}
	out.Violations, out.Points, out.Struck = judgeHistory(w.history), w.points, len(r.Faults)-len(w.faults)
	for i, e := range w.history {
		if e.Kind == EventMaintenance && i > 0 && w.history[i-1].Kind == EventMaintenance {
			continue
		}
		out.Trace = append(out.Trace, e.String())
		for _, v := range out.Violations {
			if v.event == i {
				out.Trace = append(out.Trace, fmt.Sprintf("VIOLATION of %s: %s", v.Invariant, v.Message))
			}
		}
	}
	return out, nil
}

// end says in one word how the job ended.
func (w *world) end() string {
	j := w.disk.Job(w.current)
	switch {
	case j == nil:
		return "none"
	case j.Record.Outcome == step.Complete:
		return "complete"
	case j.Record.RolledBack():
		return "rolled back"
	case j.Record.NeedsIntervention():
		return "needs intervention"
	case j.Held():
		return "held"
	}
	return "failed"
}

// leftAloneFor is how long a daemon is left alone after a job has ended.
const leftAloneFor = time.Hour

// afterwards lets an hour pass in which a daemon that is started anew may change nothing, and then what the aftermath says.
func (w *world) afterwards(a Aftermath) {
	first := w.disk.Job(w.current)
	if first == nil || first.Record.Outcome == "" {
		return
	}
	w.leftAlone(w.job(first.Name))
	if first.Record.Outcome != step.Failed || w.broken() || w.cutOff() {
		return // what people and the operator ask does not arrive where the node is cut off
	}
	switch a {
	case Again, Retried:
		next := w.job("second")
		if a == Retried {
			next.Retry = &next.UID
			w.note(Event{Kind: EventPerson, Detail: "asks to try again"})
		}
		w.run(next)
	case Returned:
		if first.Held() {
			w.returned = true
			w.note(Event{Kind: EventPerson, Detail: returnsNode})
			w.run(*first)
		}
	default:
	}
}

// leftAlone lets the quiet hour pass, over deaths of the daemon too. The job is handed to each daemon once more, as by an API
// server that was restored from an old backup.
func (w *world) leftAlone(again journal.Job) {
	w.quiet = leftAloneFor
	w.disturbed(0)
	w.note(Event{Kind: EventQuiet})
	for range maxLives {
		over := w.live(&again)
		switch {
		case w.broken():
			return
		case over:
			w.note(Event{Kind: EventQuietOver})
			return
		}
	}
	w.note(Event{Kind: EventBroken, Detail: fmt.Sprintf("%d lives of the daemon do not pass an hour without a job", maxLives)})
}
