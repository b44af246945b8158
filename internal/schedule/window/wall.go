package window

import "time"

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
