package window

import "time"

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
