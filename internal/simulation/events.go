package simulation

import (
	"cmp"
	"container/heap"
	"time"
)

// event is something that will happen.
type event struct {
	at  time.Time
	seq int // what was planned first happens first
	// kind says whether it can let a job go.
	kind kind
	do   func()
}

// kind is what an event can do for jobs that wait.
type kind int

const (
	// moves: it can let a job go, so that a decision follows, and the simulation waits for it.
	moves kind = iota
	// returns: likewise, but only where a node that comes back leaves a place for another one.
	returns
	// outage: it lets no job go.
	outage
)

// passes reports whether the event passes without a decision. In a quiet part no place that a node leaves is taken now.
func (e event) passes(quiet bool) bool { return e.kind == outage || e.kind == returns && quiet }

// events is a heap of what will happen.
type events struct {
	list  []event
	seq   int
	moves int
}

func (e *events) Len() int { return len(e.list) }

func (e *events) Less(i, j int) bool {
	return cmp.Or(e.list[i].at.Compare(e.list[j].at), cmp.Compare(e.list[i].seq, e.list[j].seq)) < 0
}

func (e *events) Swap(i, j int) { e.list[i], e.list[j] = e.list[j], e.list[i] }

// Push implements heap.Interface; use add.
func (e *events) Push(x any) { e.list = append(e.list, x.(event)) }

// Pop implements heap.Interface; use due.
func (e *events) Pop() any {
	last := e.list[len(e.list)-1]
	e.list[len(e.list)-1] = event{}
	e.list = e.list[:len(e.list)-1]
	return last
}

// add plans what can let a job go, addReturn that a node comes back, and addOutage that it goes away.
func (e *events) add(at time.Time, do func())       { e.plan(at, moves, do) }
func (e *events) addReturn(at time.Time, do func()) { e.plan(at, returns, do) }
func (e *events) addOutage(at time.Time, do func()) { e.plan(at, outage, do) }

func (e *events) plan(at time.Time, k kind, do func()) {
	e.seq++
	if k != outage {
		e.moves++
	}
	heap.Push(e, event{at, e.seq, k, do})
}

// next is the next event; ok is false when there is none.
func (e *events) next() (first event, ok bool) {
	if len(e.list) == 0 {
		return event{}, false
	}
	return e.list[0], true
}

// passing takes the next event if it has happened by now and passes without a decision.
func (e *events) passing(now time.Time, quiet bool) (event, bool) {
	if first, ok := e.next(); !ok || !first.passes(quiet) {
		return event{}, false
	}
	return e.due(now)
}

// due takes the next event that has happened by now.
func (e *events) due(now time.Time) (event, bool) {
	if first, ok := e.next(); !ok || first.at.After(now) {
		return event{}, false
	}
	out := heap.Pop(e).(event)
	if out.kind != outage {
		e.moves--
	}
	return out, true
}
