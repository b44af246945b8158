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
	// moves says that it can let a job go on, so that the simulation waits for it.
	moves bool
	do    func()
}

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

func (e *events) add(at time.Time, moves bool, do func()) {
	e.seq++
	if moves {
		e.moves++
	}
	heap.Push(e, event{at, e.seq, moves, do})
}

// next is when the next event happens; ok is false when there is none.
func (e *events) next() (at time.Time, ok bool) {
	if len(e.list) == 0 {
		return time.Time{}, false
	}
	return e.list[0].at, true
}

// due takes the next event that has happened by now.
func (e *events) due(now time.Time) (event, bool) {
	if len(e.list) == 0 || e.list[0].at.After(now) {
		return event{}, false
	}
	out := heap.Pop(e).(event)
	if out.moves {
		e.moves--
	}
	return out, true
}
