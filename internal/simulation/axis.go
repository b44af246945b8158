package simulation

import (
	"fmt"
	"time"
)

// scale maps times to the width of the picture.
type scale struct {
	from, to    time.Time
	left, right float64
	zone        *time.Location
}

func (s scale) x(t time.Time) float64 {
	share := float64(t.Sub(s.from)) / float64(s.to.Sub(s.from))
	return s.left + (s.right-s.left)*min(1, max(0, share))
}

// tick is a line of the axis of time. A Day starts a new day, and its label is a date.
type tick struct {
	X     float64
	Label string
	Day   bool
}

// maxTicks bounds the labels of an axis, so that they do not touch.
const maxTicks = 11

// ticks are at round times of the zone.
func (s scale) ticks() []tick {
	const day = 24 * time.Hour
	for _, step := range []time.Duration{
		time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute, time.Hour, 2 * time.Hour,
		3 * time.Hour, 6 * time.Hour, 12 * time.Hour, day, 2 * day, 3 * day, 7 * day, 14 * day, 28 * day, 91 * day, 182 * day, 364 * day,
	} {
		if s.to.Sub(s.from)/step < maxTicks {
			return s.every(step)
		}
	}
	return nil
}

// every lists the multiples of step on the clock of the zone, which jumps twice a year: the date is counted, not the time.
func (s scale) every(step time.Duration) (out []tick) {
	first := s.from.In(s.zone)
	y, m, d := first.Date()
	for i := 0; ; i++ {
		t := time.Date(y, m, d, 0, 0, i*int(step/time.Second), 0, s.zone)
		if step >= 24*time.Hour {
			t = time.Date(y, m, d+i*int(step/(24*time.Hour)), 0, 0, 0, 0, s.zone)
		}
		switch {
		case t.After(s.to):
			return out
		case t.Before(s.from):
			continue
		}
		k := tick{X: s.x(t), Label: t.Format("15:04")}
		if t.Hour() == 0 && t.Minute() == 0 {
			k.Label, k.Day = t.Format("Mon 2 Jan"), true
		}
		if len(out) == 0 && !k.Day {
			k.Label = t.Format("Mon 15:04")
		}
		out = append(out, k)
	}
}

// about is a duration as people say it: two units at the most.
func about(d time.Duration) string {
	d = d.Round(time.Second)
	const day = 24 * time.Hour
	switch {
	case d >= day:
		return fmt.Sprintf("%d d %d h", d/day, d%day/time.Hour)
	case d >= time.Hour:
		return fmt.Sprintf("%d h %d min", d/time.Hour, d%time.Hour/time.Minute)
	case d >= time.Minute:
		return fmt.Sprintf("%d min %d s", d/time.Minute, d%time.Minute/time.Second)
	}
	return fmt.Sprintf("%d s", d/time.Second)
}

// thousands writes a number of nodes with separators: 10,000.
func thousands(n int) string {
	if n < 0 {
		return "-" + thousands(-n)
	}
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", thousands(n/1000), n%1000)
}
