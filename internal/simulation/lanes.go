package simulation

import (
	"time"

	"github.com/nodefirmware/node-firmware-operator/internal/schedule/window"
)

// maxSpans bounds the windows and freezes of a picture.
const maxSpans = 1000

// calendarSpans are the windows and freezes of a calendar between two times, each as a row; nothing where it is always open.
func calendarSpans(c *window.Calendar, from, to time.Time, zone *time.Location) []spans {
	if c == nil {
		return nil
	}
	open, denied := spans{label: "windows"}, spans{label: "denied"}
	when := func(a, b time.Time) string {
		return a.In(zone).Format("Mon 2 Jan 15:04") + " to " + b.In(zone).Format("Mon 2 Jan 15:04 MST")
	}
	for t := from; t.Before(to) && len(open.list)+len(denied.list) < maxSpans; {
		s := c.At(t)
		next := s.Next
		if next.IsZero() || next.After(to) {
			next = to
		}
		switch {
		case s.Open:
			open.list = extended(open.list, span{from: t, to: next, class: "window"})
		case s.Denies != "":
			denied.list = extended(denied.list, span{from: t, to: next, class: "freeze", title: s.Denies})
		}
		t = next
	}
	var out []spans
	for _, row := range []spans{open, denied} {
		for i := range row.list {
			b := &row.list[i]
			if b.title != "" {
				b.title += ": "
			}
			b.title += when(b.from, b.to)
		}
		if len(row.list) > 0 {
			out = append(out, row)
		}
	}
	return out
}

// extended adds a span, or makes the last one longer that it continues.
func extended(list []span, s span) []span {
	if last := len(list) - 1; last >= 0 && list[last].to.Equal(s.from) && list[last].title == s.title {
		list[last].to = s.to
		return list
	}
	return append(list, s)
}
