package window

import (
	"sort"
	"time"
)

// cursor follows the spans of a rule through time. It is quick as long as it goes forward.
type cursor struct {
	*Rule
	at time.Time
	// ends is when the latest span that has begun ends, and begins when the next one begins; zero for none.
	ends, begins time.Time
	// wall is begins as the clock on the wall shows it, or would.
	wall time.Time
}

func cursors(rules []Rule) []*cursor {
	out := make([]*cursor, len(rules))
	for i := range rules {
		out[i] = &cursor{Rule: &rules[i]}
	}
	return out
}

// move goes to t and returns when the span that covers t ends, and when the next one after t begins; zero for none.
func (c *cursor) move(t time.Time) (ends, begins time.Time) {
	const far = 48 * time.Hour
	switch {
	case c.schedule == nil:
		c.ends, c.begins = time.Time{}, time.Time{}
		if t.Before(c.start) {
			c.begins = c.start
		} else {
			c.ends = c.end
		}
	case c.at.IsZero() || t.Before(c.at) || t.Sub(c.at) > far && c.begins.Before(t):
		c.find(t)
	default:
		for !c.begins.IsZero() && !c.begins.After(t) {
			c.ends = c.begins.Add(c.duration)
			c.next(c.wall)
		}
	}
	c.at = t
	if !c.ends.After(t) {
		return time.Time{}, c.begins
	}
	return c.ends, c.begins
}

// next finds the first span that begins after the given time on the wall.
func (c *cursor) next(wall time.Time) {
	c.wall, c.begins = c.following(wall), time.Time{}
	if !c.wall.IsZero() {
		c.begins = instant(c.wall, c.Zone)
	}
}

// find goes to any t.
func (c *cursor) find(t time.Time) {
	const slack = 48 * time.Hour // clocks are put forward and back by a day at the most
	from := wallOf(t, c.Zone).Truncate(time.Minute).Add(-c.duration - slack)
	minutes := int((c.duration + 2*slack) / time.Minute)
	ahead := func(minute int) bool {
		c.next(from.Add(time.Duration(minute) * time.Minute))
		return c.begins.IsZero() || c.begins.After(t)
	}
	c.ends = time.Time{}
	if ahead(0) {
		return
	}
	// The first minute on the wall from which the next span is yet to come, by bisection; the minute before finds the last
	// one that has begun.
	first := sort.Search(minutes, ahead)
	c.next(from.Add(time.Duration(first-1) * time.Minute))
	c.ends = c.begins.Add(c.duration)
	c.next(c.wall)
}

// Elapsed is how long the calendar is open between two times.
func (c *Calendar) Elapsed(from, to time.Time) time.Duration {
	var sum time.Duration
	look := c.forward()
	for t := from; t.Before(to); {
		s := look(t)
		if !s.Open {
			if s.Opens.IsZero() {
				break
			}
			t = s.Opens
			continue
		}
		end := s.Closes
		if end.After(to) {
			end = to
		}
		sum += end.Sub(t)
		t = end
	}
	return sum
}

// After is when the calendar will have been open for that long since a time. The time is zero when it will not open so often:
// when nothing opens within a year, or not within a hundred years.
func (c *Calendar) After(from time.Time, open time.Duration) time.Time {
	limit := from.AddDate(100, 0, 0)
	look := c.forward()
	for t := from; t.Before(limit); {
		s := look(t)
		if !s.Open {
			if s.Opens.IsZero() {
				return time.Time{}
			}
			t = s.Opens
			continue
		}
		if length := s.Closes.Sub(t); length < open {
			open -= length
			t = s.Closes
			continue
		}
		return t.Add(open)
	}
	return time.Time{}
}

// forward is At for times that come in order, which may be far from those of the next pass.
func (c *Calendar) forward() func(time.Time) State {
	if c == nil || len(c.allow)+len(c.deny) == 0 {
		return func(t time.Time) State { return State{Open: true, Closes: t.AddDate(1, 0, 0)} }
	}
	w := c.walk()
	budget := w.left
	return func(t time.Time) State {
		w.left = budget
		return w.look(t)
	}
}

// wallOf is what a clock on the wall of a place in the zone shows at t, as a time in UTC.
func wallOf(t time.Time, zone *time.Location) time.Time {
	_, offset := t.In(zone).Zone()
	return t.UTC().Add(time.Duration(offset) * time.Second)
}

// widestOffset is more than any zone was ever away from UTC.
const widestOffset = 16 * time.Hour

// instant is when a clock on the wall of a place in the zone first shows the given time or a later one. A time that is shown
// twice, because clocks are put back, is its first showing. A time that is never shown, because clocks are put forward, is
// when they are.
func instant(wall time.Time, zone *time.Location) time.Time {
	t := wall.Add(-widestOffset).In(zone)
	for {
		start, end := t.ZoneBounds()
		if !end.IsZero() && !end.After(t) { // on the last day of some leap years, where Go ends the zone too early
			end = t.Add(time.Hour)
		}
		_, offset := t.Zone()
		shown := wall.Add(-time.Duration(offset) * time.Second)
		switch {
		case !start.IsZero() && shown.Before(start):
			return start.UTC()
		case end.IsZero() || shown.Before(end):
			return shown
		}
		t = end
	}
}
