package template

import (
	"sync"
	"time"
)

// growth is how many times longer each wait is than the one before, and slowest how many times StatusInterval the time between two writes
// of one template's status may become.
const growth, slowest = 3, 60

// pace is how often the status of one template is written. The first change after a rest is written at once. While a status
// goes on to change as soon as it may be written, the time between two writes triples from StatusInterval to sixty times that:
// the counters of a template whose 5,000 nodes begin a job cost a few writes and not one for each node. What changes a status
// or a reason of a condition waits no longer than StatusInterval.
type pace struct {
	written  time.Time
	interval time.Duration
}

// wait is how long the next write has to wait; 0 or less is now.
func (p pace) wait(now time.Time, least time.Duration, turns bool) time.Duration {
	if p.written.IsZero() {
		return 0
	}
	interval := p.interval
	if turns {
		interval = least
	}
	return interval - now.Sub(p.written)
}

// after is the pace after a write.
func (p pace) after(now time.Time, least time.Duration) pace {
	next := pace{written: now, interval: least}
	if !p.written.IsZero() && now.Sub(p.written) < 2*p.interval {
		next.interval = min(growth*p.interval, slowest*least)
	}
	return next
}

// statusQueue hands the templates whose status may be out of date to the controller of the statuses. It holds them back until
// that controller has started and the index is filled: a status that was counted before would be wrong.
type statusQueue struct {
	mu       sync.Mutex
	queue    queue
	isFilled bool
	held     map[key]struct{}
}

func (s *statusQueue) addAfter(k key, wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.queue == nil || !s.isFilled:
		s.held[k] = struct{}{}
	case wait > 0:
		s.queue.AddAfter(k, wait)
	default:
		s.queue.Add(k)
	}
}

// open says which queue is that of the controller.
func (s *statusQueue) open(q queue) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue = q
	s.hand()
}

// release says that the index is filled.
func (s *statusQueue) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.isFilled = true
	s.hand()
}

func (s *statusQueue) hand() {
	if s.queue == nil || !s.isFilled {
		return
	}
	for k := range s.held {
		s.queue.Add(k)
	}
	clear(s.held)
}
