package window_test

import (
	"testing"
	"time"
	_ "time/tzdata" // the same zones on every machine

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/schedule/window"
)

func recurring(t *testing.T, schedule string, duration time.Duration, zone string) window.Rule {
	t.Helper()
	r, err := window.Recurring("w", schedule, duration, zone)
	require.NoError(t, err)
	return r
}

func at(t *testing.T, text string) time.Time {
	t.Helper()
	out, err := time.Parse(time.RFC3339, text)
	require.NoError(t, err)
	return out
}

// utc is how a test writes an instant; "-" is none.
func utc(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format("2006-01-02T15:04:05Z")
}

func TestWindowFollowsLocalTime(t *testing.T) {
	for name, c := range map[string]struct {
		schedule, duration, zone string
		now                      string
		open                     bool
		changes                  string
	}{
		"before it": {"0 22 * * 6", "4h", "Europe/Paris", "2026-11-28T20:59:59Z", false, "2026-11-28T21:00:00Z"},
		"in it":     {"0 22 * * 6", "4h", "Europe/Paris", "2026-11-28T21:00:00Z", true, "2026-11-29T01:00:00Z"},
		"across midnight, on a day that is not named": {"0 22 * * 6", "4h", "Europe/Paris", "2026-11-29T00:30:00Z", true, "2026-11-29T01:00:00Z"},
		"at its end":                             {"0 22 * * 6", "4h", "Europe/Paris", "2026-11-29T01:00:00Z", false, "2026-12-05T21:00:00Z"},
		"in summer it is an hour earlier by UTC": {"0 22 * * 6", "4h", "Europe/Paris", "2026-07-04T19:59:00Z", false, "2026-07-04T20:00:00Z"},
		"over a year":                            {"30 23 31 12 *", "2h", "", "2027-01-01T01:29:00Z", true, "2027-01-01T01:30:00Z"},
		// Clocks are put forward from 02:00 to 03:00 on 2026-03-29: 02:30 does not exist.
		"what begins at a time that is left out begins when the clocks are put forward": {"30 2 * * *", "1h", "Europe/Paris", "2026-03-29T00:30:00Z", false, "2026-03-29T01:00:00Z"},
		"and lasts as long as ever": {"30 2 * * *", "1h", "Europe/Paris", "2026-03-29T01:59:00Z", true, "2026-03-29T02:00:00Z"},
		"a duration is elapsed time, also when clocks are put forward meanwhile": {"0 1 * * *", "3h", "Europe/Paris", "2026-03-29T02:59:00Z", true, "2026-03-29T03:00:00Z"},
		// Clocks are put back from 03:00 to 02:00 on 2026-10-25: 02:30 is shown twice.
		"what begins at a time that is shown twice begins once": {"30 2 * * *", "30m", "Europe/Paris", "2026-10-25T00:45:00Z", true, "2026-10-25T01:00:00Z"},
		"and not a second time":                                 {"30 2 * * *", "30m", "Europe/Paris", "2026-10-25T01:30:00Z", false, "2026-10-26T01:30:00Z"},
		"half an hour of daylight saving, left out":             {"15 2 * * *", "1h", "Australia/Lord_Howe", "2026-10-03T15:29:00Z", false, "2026-10-03T15:30:00Z"},
		"half an hour of daylight saving, twice":                {"45 1 * * *", "10m", "Australia/Lord_Howe", "2026-04-04T15:20:00Z", false, "2026-04-05T15:15:00Z"},
		"Samoa left out 30 December 2011":                       {"0 12 30 12 *", "2h", "Pacific/Apia", "2011-12-30T09:00:00Z", false, "2011-12-30T10:00:00Z"},
		"and has the window as soon as it is over":              {"0 12 30 12 *", "2h", "Pacific/Apia", "2011-12-30T10:00:00Z", true, "2011-12-30T12:00:00Z"},
		"29 February": {"0 0 29 2 *", "24h", "UTC", "2026-01-01T00:00:00Z", false, "2028-02-29T00:00:00Z"},
		"29 February when a century leaves it out":   {"0 0 29 2 *", "24h", "UTC", "2097-01-01T00:00:00Z", false, "2104-02-29T00:00:00Z"},
		"a day of the month or a day of the week":    {"0 0 13 * 5", "1h", "UTC", "2026-11-12T00:00:00Z", false, "2026-11-13T00:00:00Z"},
		"a zone with three quarters of an hour":      {"0 6 * * *", "1h", "Asia/Kathmandu", "2026-11-22T00:14:00Z", false, "2026-11-22T00:15:00Z"},
		"midnight that daylight saving leaves out":   {"0 0 * * *", "1h", "America/Sao_Paulo", "2018-11-04T02:59:00Z", false, "2018-11-04T03:00:00Z"},
		"back to back, one follows the other":        {"0 * * * *", "1h", "UTC", "2026-11-22T00:14:00Z", true, "2026-11-23T02:00:00Z"},
		"longer than its period, it is always open":  {"0 0 * * *", "48h", "UTC", "2026-11-22T00:14:00Z", true, "2026-11-24T00:00:00Z"},
		"every minute, it is always open":            {"* * * * *", "1m", "UTC", "2026-11-22T00:00:30Z", true, "2026-11-23T01:01:00Z"},
		"a window that lasts a month is found again": {"0 0 1 * *", "744h", "UTC", "2026-10-31T23:59:00Z", true, "2026-12-02T00:00:00Z"},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := time.ParseDuration(c.duration)
			require.NoError(t, err)
			r := recurring(t, c.schedule, d, c.zone)
			s := window.New([]window.Rule{r}, nil).At(at(t, c.now))
			assert.Equal(t, c.open, s.Open)
			if c.changes > utc(at(t, c.now).AddDate(1, 0, 2)) {
				assert.True(t, s.Opens.IsZero(), "it opens later than is looked")
				s = window.New([]window.Rule{r}, nil).At(at(t, c.changes).Add(-time.Minute))
			}
			got := s.Opens
			if s.Open {
				got = s.Closes
			}
			assert.Equal(t, c.changes, utc(got))
			assert.Equal(t, utc(s.Next), utc(got), "it is looked at again then")
		})
	}
}

func TestWhatNeverComesIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		schedule, duration, zone string
		field, says              string
	}{
		"30 February":               {"0 0 30 2 *", "1h", "UTC", "schedule", "never comes"},
		"31 of short months":        {"0 0 31 4,6,9,11 *", "1h", "UTC", "schedule", "never comes"},
		"an empty list":             {"0 , * * *", "1h", "UTC", "schedule", "never comes"},
		"hour 25":                   {"0 25 * * *", "1h", "UTC", "schedule", "above maximum"},
		"six fields":                {"0 0 0 * * *", "1h", "UTC", "schedule", "exactly 5 fields"},
		"a name that is none":       {"@nightly", "1h", "UTC", "schedule", "descriptor"},
		"a period":                  {"@every 1h", "1h", "UTC", "schedule", "no time on the wall"},
		"day 8":                     {"0 0 * * 8", "1h", "UTC", "schedule", "above maximum"},
		"a zone in the schedule":    {"TZ=Europe/Paris 0 0 * * *", "1h", "UTC", "schedule", "timeZone"},
		"a zone alone":              {"TZ=0", "1h", "UTC", "schedule", "timeZone"},
		"nothing":                   {"", "1h", "UTC", "schedule", "empty"},
		"an unknown zone":           {"0 0 * * *", "1h", "Europe/Pariss", "timeZone", "not known"},
		"the zone of the pod":       {"0 0 * * *", "1h", "Local", "timeZone", "of the operator's pod"},
		"a file that is no zone":    {"0 0 * * *", "1h", "../../etc/passwd", "timeZone", "not known"},
		"a duration of nothing":     {"0 0 * * *", "0s", "UTC", "duration", "not from 1m"},
		"a duration of two months":  {"0 0 * * *", "1500h", "UTC", "duration", "not from 1m"},
		"a duration below a minute": {"0 0 * * *", "59s", "UTC", "duration", "not from 1m"},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := time.ParseDuration(c.duration)
			require.NoError(t, err)
			_, err = window.Recurring("w", c.schedule, d, c.zone)
			var field *window.FieldError
			require.ErrorAs(t, err, &field)
			assert.Equal(t, c.field, field.Field)
			assert.Contains(t, err.Error(), c.says)
		})
	}
	_, err := window.Once("f", at(t, "2026-12-24T00:00:00Z"), at(t, "2026-12-24T00:00:00Z"))
	require.ErrorContains(t, err, "is not after startTime")
}

func TestADenyWinsOverAnAllow(t *testing.T) {
	nights := recurring(t, "0 22 * * *", 4*time.Hour, "UTC")
	holidays, err := window.Once("holidays", at(t, "2026-12-20T23:00:00Z"), at(t, "2027-01-04T23:30:00Z"))
	require.NoError(t, err)
	c := window.New([]window.Rule{nights}, []window.Rule{holidays})

	s := c.At(at(t, "2026-12-20T22:30:00Z"))
	assert.True(t, s.Open)
	assert.Equal(t, "2026-12-20T23:00:00Z", utc(s.Closes), "the Deny cuts the window short")

	s = c.At(at(t, "2026-12-25T23:00:00Z"))
	assert.False(t, s.Open)
	assert.Equal(t, "holidays", s.Denies)
	assert.Equal(t, "2027-01-04T23:30:00Z", utc(s.DeniedUntil))
	assert.Equal(t, "2027-01-04T23:30:00Z", utc(s.Opens), "what is left of the window is open after the Deny")

	without := window.New(nil, []window.Rule{holidays})
	s = without.At(at(t, "2026-12-01T00:00:00Z"))
	assert.True(t, s.Open, "without windows a pool is open outside what denies")
	assert.Equal(t, "2026-12-20T23:00:00Z", utc(s.Closes))
	assert.Equal(t, "2027-01-04T23:30:00Z", utc(without.At(at(t, "2026-12-25T00:00:00Z")).Opens))
	assert.True(t, window.New(nil, nil).At(at(t, "2026-12-25T00:00:00Z")).Open)
}

// Windows that a Deny always covers open never; that is found in bounded time and said.
func TestFindsDenyCoveringAllows(t *testing.T) {
	nights := recurring(t, "0 22 * * *", 4*time.Hour, "UTC")
	always := recurring(t, "0 20 * * *", 8*time.Hour, "UTC")
	now := at(t, "2026-11-22T12:00:00Z")
	s := window.New([]window.Rule{nights}, []window.Rule{always}).At(now)
	assert.False(t, s.Open)
	assert.True(t, s.Opens.IsZero())
	assert.GreaterOrEqual(t, s.Searched, 366*24*time.Hour, "nothing opens for a year")
	assert.True(t, s.Next.After(now), "and it is not looked at without a pause")

	minutes := recurring(t, "* * * * *", time.Minute, "UTC")
	s = window.New([]window.Rule{nights}, []window.Rule{minutes}).At(now)
	assert.False(t, s.Open)
	assert.True(t, s.Opens.IsZero())
	assert.Greater(t, s.Searched, 24*time.Hour)
}

func TestAnyWindowIsLongEnough(t *testing.T) {
	short := recurring(t, "0 22 * * *", 20*time.Minute, "UTC")
	long := recurring(t, "0 4 1 * *", 2*time.Hour, "UTC")
	now := at(t, "2026-11-22T22:10:00Z")
	fits := func(d time.Duration, rules ...window.Rule) bool {
		return window.New(rules, nil).Fits(now, d)
	}
	assert.True(t, fits(10*time.Minute, short), "what is left is enough")
	assert.True(t, fits(20*time.Minute, short), "the next one is enough")
	assert.False(t, fits(21*time.Minute, short))
	assert.True(t, fits(21*time.Minute, short, long))
	assert.False(t, fits(3*time.Hour, short, long))
}

// The state is remembered, and is the same as if it was not.
func TestRemembersUnchangedState(t *testing.T) {
	c := window.New([]window.Rule{recurring(t, "0 22 * * *", 90*time.Minute, "Europe/Paris")}, nil)
	for now := at(t, "2026-10-24T00:00:00Z"); now.Before(at(t, "2026-10-27T00:00:00Z")); now = now.Add(7 * time.Minute) {
		fresh := window.New([]window.Rule{recurring(t, "0 22 * * *", 90*time.Minute, "Europe/Paris")}, nil).At(now)
		is := c.At(now)
		assert.Equal(t, fresh.Open, is.Open, now)
		assert.Equal(t, utc(fresh.Opens), utc(is.Opens), now)
		assert.Equal(t, utc(fresh.Closes), utc(is.Closes), now)
	}
	assert.False(t, c.At(at(t, "2026-10-24T12:00:00Z")).Open, "clocks of operators are put back, too")
}

// time.Time.ZoneBounds of Go ends a zone a day too early in leap years that the zone's rule decides, and at or before the time
// asked for.
func TestTheLastDayOfALeapYearEnds(t *testing.T) {
	for _, zone := range []string{"Europe/Paris", "America/New_York", "Australia/Lord_Howe", "Antarctica/Troll", "Africa/Cairo"} {
		location, err := time.LoadLocation(zone)
		require.NoError(t, err)
		rule, err := window.Recurring("night", "30 23 31 12 *", time.Hour, zone)
		require.NoError(t, err)
		for year := 2024; year < 2060; year += 4 {
			opens := time.Date(year, 12, 31, 23, 30, 0, 0, location)
			for _, before := range []time.Duration{time.Minute, 20 * time.Hour, 40 * time.Hour} {
				s := window.New([]window.Rule{rule}, nil).At(opens.Add(-before))
				assert.Equal(t, utc(opens), utc(s.Opens), "%s %d", zone, year)
			}
			assert.True(t, window.New([]window.Rule{rule}, nil).At(opens.Add(time.Minute)).Open, "%s %d", zone, year)
		}
	}
}

func TestSundayAndNames(t *testing.T) {
	days := func(schedule string) (out []time.Weekday) {
		r, err := window.Recurring("w", schedule, time.Hour, "")
		require.NoError(t, err, schedule)
		for day := range 7 {
			monday := at(t, "2026-11-23T00:30:00Z")
			if window.New([]window.Rule{r}, nil).At(monday.AddDate(0, 0, day)).Open {
				out = append(out, monday.AddDate(0, 0, day).Weekday())
			}
		}
		return out
	}
	for schedule, same := range map[string]string{
		"0 0 * * 7": "0 0 * * 0", "0 0 * * 5-7": "0 0 * * 5,6,0", "0 0 * * 1,7": "0 0 * * 0,1", "0 0 * * 1-7/2": "0 0 * * 1,3,5,0",
		"0 0 * * 2-7/2": "0 0 * * 2,4,6", "0 0 * * 7-7": "0 0 * * 0", "@weekly": "0 0 * * 0", "@daily": "0 0 * * *",
	} {
		assert.Equal(t, days(same), days(schedule), schedule)
		assert.NotEmpty(t, days(schedule), schedule)
	}
}
