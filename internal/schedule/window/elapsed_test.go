package window_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/nodefirmware/node-firmware-operator/internal/schedule/window"
)

func TestCountsOnlyOpenTime(t *testing.T) {
	night, err := window.Recurring("night", "0 22 * * 6", 4*time.Hour, "Europe/Paris")
	require.NoError(t, err)
	freeze, err := window.Once("sale", time.Date(2026, 1, 10, 22, 0, 0, 0, time.UTC), time.Date(2026, 1, 10, 23, 0, 0, 0, time.UTC))
	require.NoError(t, err)
	c := window.New([]window.Rule{night}, []window.Rule{freeze})
	monday := time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC)
	assert.Equal(t, 3*time.Hour, c.Elapsed(monday, monday.AddDate(0, 0, 7)), "an hour is frozen")
	assert.Equal(t, 7*time.Hour, c.Elapsed(monday, monday.AddDate(0, 0, 14)))
	assert.Equal(t, time.Date(2026, 1, 10, 22, 0, 0, 0, time.UTC), c.After(monday, time.Hour))
	assert.Equal(t, time.Date(2026, 1, 10, 23, 30, 0, 0, time.UTC), c.After(monday, 90*time.Minute))
	assert.Equal(t, time.Date(2026, 1, 17, 22, 0, 0, 0, time.UTC), c.After(monday, 4*time.Hour))

	var always *window.Calendar
	assert.Equal(t, 400*24*time.Hour, always.Elapsed(monday, monday.AddDate(0, 0, 400)))
	assert.Equal(t, monday.AddDate(0, 0, 400), always.After(monday, 400*24*time.Hour))

	shut := window.New(nil, []window.Rule{freezeForever(t)})
	assert.Zero(t, shut.Elapsed(monday, monday.AddDate(0, 0, 400)))
	assert.True(t, shut.After(monday, time.Second).IsZero())
}

func freezeForever(t *testing.T) window.Rule {
	t.Helper()
	r, err := window.Once("for ever", time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC))
	require.NoError(t, err)
	return r
}

func TestAfterIsTheInverseOfElapsed(t *testing.T) {
	zone, err := time.LoadLocation("Europe/Paris")
	require.NoError(t, err)
	rapid.Check(t, func(t *rapid.T) {
		night, err := window.Recurring("night", "30 1 * * *", time.Duration(rapid.IntRange(5, 300).Draw(t, "minutes"))*time.Minute, "Europe/Paris")
		require.NoError(t, err)
		c := window.New([]window.Rule{night}, nil)
		from := drawTime(t, zone)
		open := time.Duration(rapid.IntRange(1, 600).Draw(t, "open")) * time.Minute
		require.Equal(t, open, c.Elapsed(from, c.After(from, open)))
	})
}

func TestTheLastWindowBeforeALimit(t *testing.T) {
	zone, err := time.LoadLocation("Europe/Paris")
	require.NoError(t, err)
	rapid.Check(t, func(t *rapid.T) {
		night, err := window.Recurring("night", "30 1 * * 1,3,4", time.Duration(rapid.IntRange(5, 1500).Draw(t, "minutes"))*time.Minute, "Europe/Paris")
		require.NoError(t, err)
		from := drawTime(t, zone)
		freeze, err := window.Once("freeze", from.Add(50*time.Hour), from.Add(60*time.Hour))
		require.NoError(t, err)
		c := window.New([]window.Rule{night}, []window.Rule{freeze})
		limit := from.Add(time.Duration(rapid.IntRange(0, 20_000).Draw(t, "until")) * time.Minute)
		opens, found := c.LastBefore(from, limit)
		require.Equal(t, c.Elapsed(from, limit) > 0, found)
		if !found {
			return
		}
		require.True(t, c.At(opens).Open && opens.Before(limit))
		require.True(t, opens.Equal(from) || !c.At(opens.Add(-time.Minute)).Open, "it begins then")
		end := opens
		for c.At(end).Open {
			end = c.At(end).Closes
		}
		if end.Before(limit) {
			require.Zero(t, c.Elapsed(end, limit), "it is the last one")
		}
	})
	_, found := window.New(nil, []window.Rule{freezeForever(t)}).LastBefore(time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC), time.Date(2027, 1, 5, 9, 0, 0, 0, time.UTC))
	assert.False(t, found)
}
