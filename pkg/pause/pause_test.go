package pause_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/pause"
)

func TestAServerAsksForAPauseInSecondsOrWithADate(t *testing.T) {
	now := time.Date(1999, time.December, 31, 23, 59, 20, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"0":                              0,
		"120":                            2 * time.Minute,
		"86400":                          time.Hour,
		"4294967296":                     time.Hour,
		"99999999999999999999":           time.Hour,
		"Fri, 31 Dec 1999 23:59:59 GMT":  39 * time.Second,
		"Friday, 31-Dec-99 23:59:59 GMT": 39 * time.Second,
		"Fri Dec 31 23:59:59 1999":       39 * time.Second,
		"Fri, 31 Dec 1999 23:59:19 GMT":  0,
		"Sat, 31 Dec 9999 23:59:59 GMT":  time.Hour,
		"Mon, 01 Jan 0001 00:00:00 GMT":  0,
	} {
		got, ok := pause.Asked(http.Header{"Retry-After": {text}}, now)
		assert.True(t, ok, text)
		assert.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "soon", "-1", "+1", "1.5", "1 s", "Fri, 31 Dec 1999 23:59:59 +0100"} {
		_, ok := pause.Asked(http.Header{"Retry-After": {text}}, now)
		assert.False(t, ok, text)
	}
	_, ok := pause.Asked(nil, now)
	assert.False(t, ok)
}

func FuzzAsked(f *testing.F) {
	f.Add("120")
	f.Add("Fri, 31 Dec 1999 23:59:59 GMT")
	f.Fuzz(func(t *testing.T, text string) {
		d, ok := pause.Asked(http.Header{"Retry-After": {text}}, time.Unix(0, 0))
		assert.True(t, d >= 0 && d <= time.Hour)
		assert.True(t, ok || d == 0)
	})
}

func TestAPauseEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		require.NoError(t, pause.For(t.Context(), time.Minute))
		assert.Equal(t, time.Minute, time.Since(begun))

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, pause.For(ctx, time.Minute), context.DeadlineExceeded)
		assert.Equal(t, time.Minute+time.Second, time.Since(begun))
	})
}
