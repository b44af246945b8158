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
