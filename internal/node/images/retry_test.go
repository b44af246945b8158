package images_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/node/images"
)

// begun is the time of a patient scene.
var begun = time.Date(2026, time.July, 1, 12, 0, 0, 0, time.UTC)

// patient is a scene whose pauses for a busy server are noted, with a clock that stands, and a number in the place of chance.
func patient(t *testing.T, answer http.HandlerFunc, random float64) (s *scene, slept *[]time.Duration) {
	slept = &[]time.Duration{}
	s = newScene(t, answer, func(c *images.Config) {
		c.Attempts = 1
		c.Now = func() time.Time { return begun }
		c.Random = func() float64 { return random }
		c.Sleep = func(ctx context.Context, d time.Duration) error { *slept = append(*slept, d); return ctx.Err() }
	})
	return s, slept
}

// A server that is busy says when to come again, and is asked a little later than that, each node by another chance.
func TestFetchHonoursRetryAfter(t *testing.T) {
	in := func(d time.Duration) string { return begun.Add(d).Format(http.TimeFormat) }
	for name, tc := range map[string]struct {
		after  string
		random float64
		want   time.Duration
	}{
		"seconds":                {"8", 0, 8 * time.Second},
		"seconds, and a jitter":  {"8", 0.5, 10 * time.Second},
		"at once":                {"0", 0, time.Second},
		"in an hour":             {"3600", 0.5, 75 * time.Second},
		"in 3,000 years":         {"99999999999", 0, time.Minute},
		"at a time":              {in(40 * time.Second), 0, 40 * time.Second},
		"at a time that is over": {in(-time.Hour), 0, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			s, slept := patient(t, func(w http.ResponseWriter, r *http.Request) {
				if asked++; asked > 3 {
					serve(content)(w, r)
					return
				}
				w.Header().Set("Retry-After", tc.after)
				w.WriteHeader([]int{http.StatusServiceUnavailable, http.StatusTooManyRequests}[asked%2])
			}, tc.random)
			_, size, err := s.Fetch(t.Context(), digest(content))
			require.NoError(t, err)
			assert.EqualValues(t, len(content), size)
			assert.Equal(t, []time.Duration{tc.want, tc.want, tc.want}, *slept)
			assert.Zero(t, s.waits, "a busy server is no failure")
		})
	}
}

// A time that cannot be read is none, and a server that is always busy is given up.
func TestAFetchGivesUpOnAServerThatIsAlwaysBusy(t *testing.T) {
	for _, after := range []string{"soon", "-1"} {
		s, slept := patient(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", after)
			w.WriteHeader(http.StatusServiceUnavailable)
		}, 0)
		_, _, err := s.Fetch(t.Context(), digest(content))
		require.ErrorIs(t, err, images.ErrUnavailable)
		assert.ErrorContains(t, err, "gave up after 1 attempts", after)
		assert.Empty(t, *slept, after)
	}
	s, slept := patient(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "5")
		w.WriteHeader(http.StatusTooManyRequests)
	}, 0)
	_, _, err := s.Fetch(t.Context(), digest(content))
	require.ErrorIs(t, err, images.ErrUnavailable)
	assert.ErrorContains(t, err, "busy 30 times: the image server answered 429 Too Many Requests and asked to retry in 5s")
	assert.Len(t, *slept, 29)
}

func TestWaitingForABusyServerEndsWithTheContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := newScene(t, func(w http.ResponseWriter, _ *http.Request) {
		cancel()
		w.Header().Set("Retry-After", "60")
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	_, _, err := s.Fetch(ctx, digest(content))
	require.ErrorIs(t, err, images.ErrUnavailable)
	require.ErrorIs(t, err, context.Canceled)
}
