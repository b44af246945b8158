package window

import (
	"sync"
	"time"
)

// Calendar says when a pool is open: in any window that allows it, or always if there is none, but never in one that denies it. The zero Calendar
// is always open. It may be used by several goroutines.
type Calendar struct {
	allow, deny []Rule

	mu   sync.Mutex
	last State
}

// New returns the calendar of the windows that allow, and of those that deny.
func New(allow, deny []Rule) *Calendar {
	return &Calendar{allow: allow, deny: deny}
}

const (
	// Horizon is how far ahead the end of an open time is looked for.
	Horizon = 25 * time.Hour
	// fresh is how long a state is remembered at the most. An open state is known for Horizon less this.
	fresh = time.Hour
	// farthest is how far ahead the next opening is looked for.
	farthest = 366 * 24 * time.Hour
)

// State is what a calendar says about one instant.
type State struct {
	Open bool
	// Closes is until when an open calendar is sure to stay open. It is at least 24 hours away, or exact.
	Closes time.Time
	// Opens is when a closed calendar opens; zero when it does not within the time Searched, which is more than a year unless
	// windows take turns thousands of times in it.
	Opens    time.Time
	Searched time.Duration
	// Denies names the window that denies at present, and DeniedUntil is until when such windows follow each other at least.
	Denies      string
	DeniedUntil time.Time
	// Zone is that of the window the above is about.
	Zone *time.Location
	// Next is when to look again; zero for never.
	Next time.Time

	since time.Time
}

// At says whether the calendar is open, until when, or from when on. It does not have to be asked again before Next.
func (c *Calendar) At(now time.Time) State {
	if c == nil || len(c.allow) == 0 && len(c.deny) == 0 {
		return State{Open: true, Closes: now.Add(Horizon), Zone: time.UTC}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.last; !s.since.IsZero() && !now.Before(s.since) && now.Before(s.Next) && now.Before(s.since.Add(fresh)) {
		return s
	}
	c.last = c.walk().look(now)
	c.last.since = now
	return c.last
}

// Fits reports whether one of the next 64 openings, up to a year after one another, is long enough for work of that duration, at
// most 24 hours.
func (c *Calendar) Fits(now time.Time, work time.Duration) bool {
	const openings = 64
	w, at := c.walk(), now
	for range openings {
		if open, until, _ := w.open(at); open {
			if until.Sub(at) >= work {
				return true
			}
			at = until
		}
		opens, next := w.opening(at)
		at = next
		if opens == nil {
			break
		}
	}
	return false
}

// LastBefore is when the last window opens, or opened, that is open at some time from an instant until before a limit, at most a year later.
// False where none is.
func (c *Calendar) LastBefore(from, limit time.Time) (opens time.Time, found bool) {
	w, at, end := c.walk(), from, time.Time{}
	limit = earlier(limit, from.Add(farthest))
	for w.left > 0 && at.Before(limit) {
		open, until, _ := w.open(at)
		if open {
			if !at.Equal(end) { // else it is the same window
				opens, found = at, true
			}
			at, end = until, until
		}
		zone, next := w.opening(at)
		if zone == nil {
			break
		}
		at = next
	}
	return opens, found
}

// walk is a way through a calendar, quick as long as it goes forward.
type walk struct {
	allow, deny []*cursor
	// always is what a calendar allows that has no window that allows.
	always bool
	// left is how many spans may still be looked at. It is more than one for each minute of the horizon.
	left int
}

func (c *Calendar) walk() *walk {
	return &walk{allow: cursors(c.allow), deny: cursors(c.deny), always: len(c.allow) == 0, left: 4000}
}

// look finds the state at an instant.
func (w *walk) look(now time.Time) State {
	if open, until, zone := w.open(now); open {
		return State{Open: true, Closes: until, Zone: zone, Next: until}
	}
	s := State{}
	from := now
	if f, ends := w.covering(w.deny, now, now.Add(farthest)); f != nil {
		s.Denies, s.DeniedUntil, s.Zone, s.Next = f.Name, ends, f.Zone, ends
		from = ends
	}
	zone, at := w.opening(from)
	if zone == nil {
		s.Searched = at.Sub(now)
		s.Next = earlier(s.Next, now.Add(fresh))
		return s
	}
	s.Opens, s.Next = at, earlier(s.Next, at)
	if s.Denies == "" {
		s.Zone = zone
	}
	return s
}

// open reports whether the calendar is open at t, until when at least, and the zone of the window.
func (w *walk) open(t time.Time) (open bool, until time.Time, zone *time.Location) {
	if f, _ := w.covering(w.deny, t, t); f != nil {
		return false, time.Time{}, nil
	}
	until, zone = t.Add(farthest), time.UTC
	if !w.always {
		in, end := w.covering(w.allow, t, t.Add(Horizon))
		if in == nil {
			return false, time.Time{}, nil
		}
		until, zone = end, in.Zone
	}
	for _, f := range w.deny {
		_, begins := f.move(t)
		until = earlier(until, begins)
	}
	return true, until, zone
}

// opening is when the calendar next opens, at t or later, and the zone of the window. The zone is nil when it does not, up to
// the returned time.
func (w *walk) opening(t time.Time) (zone *time.Location, at time.Time) {
	limit := t.Add(farthest)
	for ; t.Before(limit) && w.left > 0; w.left-- {
		if f, ends := w.covering(w.deny, t, limit); f != nil {
			t = ends
			continue
		}
		if w.always {
			return time.UTC, t
		}
		var next time.Time
		for _, in := range w.allow {
			ends, begins := in.move(t)
			if !ends.IsZero() {
				return in.Zone, t
			}
			next = earlier(next, begins)
		}
		if next.IsZero() {
			return nil, limit
		}
		t = next
	}
	return nil, earlier(t, limit)
}

// covering is the rule that covers t, nil for none, and when the time that the rules cover without a gap ends. What ends
// after the limit, or after as many spans as are left, is not followed any further.
func (w *walk) covering(rules []*cursor, t, limit time.Time) (rule *Rule, end time.Time) {
	end = t
	for ; !end.After(limit) && w.left > 0; w.left-- {
		longest := end
		for _, r := range rules {
			if ends, _ := r.move(end); ends.After(longest) {
				longest = ends
				if end.Equal(t) {
					rule = r.Rule
				}
			}
		}
		if longest.Equal(end) {
			break
		}
		end = longest
	}
	return rule, end
}

// earlier is the earlier of two times; zero is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
