package window_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/nodefirmware/node-firmware-operator/internal/schedule/window"
)

// field is one field of a schedule; nil is "*".
type field []int

func (f field) String() string {
	if f == nil {
		return "*"
	}
	return strings.Trim(strings.ReplaceAll(fmt.Sprint([]int(f)), " ", ","), "[]")
}

func (f field) has(v int) bool { return f == nil || slices.Contains(f, v) }

// recurrence is a rule as the oracle knows it.
type recurrence struct {
	minute, hour, dom, month, dow field
	duration                      time.Duration
	zone                          *time.Location
}

func (r recurrence) String() string {
	return fmt.Sprint(r.minute, " ", r.hour, " ", r.dom, " ", r.month, " ", r.dow)
}

func (r recurrence) matches(wall time.Time) bool {
	day := r.dom.has(wall.Day()) && r.dow.has(int(wall.Weekday()))
	if r.dom != nil && r.dow != nil {
		day = r.dom.has(wall.Day()) || r.dow.has(int(wall.Weekday()))
	}
	return day && r.minute.has(wall.Minute()) && r.hour.has(wall.Hour()) && r.month.has(int(wall.Month()))
}

// covers is the oracle: it watches the clock on the wall minute by minute. A span begins when the clock shows, or jumps over,
// a minute that matches and that it has not shown yet.
func (r recurrence) covers(from time.Time, minutes int) []bool {
	const before = 4 * 24 * 60
	wall := func(t time.Time) time.Time {
		_, offset := t.In(r.zone).Zone()
		return t.Add(time.Duration(offset) * time.Second).UTC()
	}
	out := make([]bool, minutes)
	latest := wall(from.Add(-before*time.Minute - 48*time.Hour))
	for m := -before - 48*60; m < minutes; m++ {
		now := wall(from.Add(time.Duration(m) * time.Minute))
		begins := false
		for ; latest.Before(now); latest = latest.Add(time.Minute) {
			begins = begins || r.matches(latest.Add(time.Minute))
		}
		if !begins {
			continue
		}
		for i := max(m, 0); i < min(minutes, m+int(r.duration/time.Minute)); i++ {
			out[i] = true
		}
	}
	return out
}

var zones = []string{
	"UTC", "Europe/Paris", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia", "America/St_Johns", "Asia/Kathmandu",
	"Africa/Casablanca", "Antarctica/Troll", "America/Sao_Paulo", "Africa/Cairo", "Pacific/Kwajalein", "Asia/Tehran", "Pacific/Chatham",
}

func drawField(t *rapid.T, label string, low, high int) field {
	if rapid.Bool().Draw(t, "every "+label) {
		return nil
	}
	f := field(rapid.SliceOfNDistinct(rapid.IntRange(low, high), 1, 4, rapid.ID).Draw(t, label))
	slices.Sort(f)
	return f
}

func drawRule(t *rapid.T, zone *time.Location, around time.Time) recurrence {
	r := recurrence{
		minute: drawField(t, "minute", 0, 59), hour: drawField(t, "hour", 0, 23), dow: drawField(t, "day of the week", 0, 6),
		duration: time.Duration(rapid.IntRange(1, 3*24*60).Draw(t, "minutes")) * time.Minute, zone: zone,
	}
	if r.minute == nil { // seldom every minute
		r.minute = field{rapid.IntRange(0, 59).Draw(t, "the minute")}
	}
	if rapid.Bool().Draw(t, "short") {
		r.duration = time.Duration(rapid.IntRange(1, 180).Draw(t, "few minutes")) * time.Minute
	}
	if rapid.Bool().Draw(t, "a day") {
		r.dom = field{around.In(zone).Day()}
	}
	if rapid.Bool().Draw(t, "a month") {
		r.month = field{int(around.In(zone).Month())}
	}
	return r
}

// drawTime is near a change of the clocks as often as not.
func drawTime(t *rapid.T, zone *time.Location) time.Time {
	year := rapid.IntRange(1992, 2040).Draw(t, "year")
	out := time.Date(year, time.Month(rapid.IntRange(1, 12).Draw(t, "month")), rapid.IntRange(1, 31).Draw(t, "day"), 0, 0, 0, 0, time.UTC)
	if zone.String() == "Pacific/Apia" && rapid.Bool().Draw(t, "the day that Samoa left out") {
		out = time.Date(2011, 12, 15, 0, 0, 0, 0, time.UTC)
	}
	if zone.String() == "Pacific/Kwajalein" && rapid.Bool().Draw(t, "the day that Kwajalein left out") {
		out = time.Date(1993, 8, 1, 0, 0, 0, 0, time.UTC)
	}
	if _, end := out.In(zone).ZoneBounds(); !end.IsZero() && rapid.Bool().Draw(t, "clocks change") {
		out = end.UTC().Truncate(time.Minute).Add(-time.Duration(rapid.IntRange(0, 2*24*60).Draw(t, "minutes before")) * time.Minute)
	}
	return out
}

// Against a clock that is watched minute by minute: whether the calendar is open, until when, and when it opens.
func TestCalendarsAgreeWithAClockThatIsWatched(t *testing.T) {
	const minutes = 4 * 24 * 60
	rapid.Check(t, func(t *rapid.T) {
		zone, err := time.LoadLocation(rapid.SampledFrom(zones).Draw(t, "zone"))
		require.NoError(t, err)
		from := drawTime(t, zone)
		open := make([]bool, minutes)
		draw := func(label string, atLeast, atMost int, mark bool) []window.Rule {
			var rules []window.Rule
			for range rapid.IntRange(atLeast, atMost).Draw(t, label) {
				r := drawRule(t, zone, from.Add(36*time.Hour))
				rule, err := window.Recurring(label, r.String(), r.duration, zone.String())
				require.NoError(t, err, r)
				rules = append(rules, rule)
				for m, covered := range r.covers(from, minutes) {
					if covered {
						open[m] = mark
					}
				}
			}
			return rules
		}
		windows := draw("windows", 1, 2, true)
		freezes := draw("freezes", 0, 2, false)
		c := window.New(windows, freezes)
		for range 8 {
			m := rapid.IntRange(0, minutes-1).Draw(t, "now")
			s := c.At(from.Add(time.Duration(m)*time.Minute + time.Duration(rapid.IntRange(0, 59).Draw(t, "seconds"))*time.Second))
			require.Equal(t, open[m], s.Open, "minute %d", m)
			changes := slices.Index(open[m:], !open[m])
			at := from.Add(time.Duration(m+changes) * time.Minute)
			switch {
			case s.Open && changes >= 0 && changes < 24*60:
				require.Equal(t, utc(at), utc(s.Closes))
			case s.Open:
				require.GreaterOrEqual(t, s.Closes.Sub(from), time.Duration(min(minutes, m+24*60))*time.Minute)
			case changes >= 0:
				require.Equal(t, utc(at), utc(s.Opens))
			default:
				require.True(t, s.Opens.IsZero() || s.Opens.Sub(from) >= minutes*time.Minute)
			}
		}
	})
}
