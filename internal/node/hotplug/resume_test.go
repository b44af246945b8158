package hotplug

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"golang.org/x/sys/unix"
)

func TestASubscriptionThatEndsOnAnErrorIsRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		start, reports := time.Now(), 0
		var at []time.Duration
		resume(ctx, logr.Discard(), "links", func(ctx context.Context, subscribed, _ func()) error {
			at = append(at, time.Since(start))
			switch len(at) {
			case 1: // messages were lost
				subscribed()
				<-time.After(time.Hour)
				return unix.ENOBUFS
			case 2, 3, 4: // the kernel still refuses
				return errors.New("no memory")
			case 5:
				subscribed()
				assert.Equal(t, 1, reports, "what happened in between is looked for once it is watched again")
				cancel()
				<-ctx.Done()
			}
			return ctx.Err()
		}, func() { reports++ })
		assert.Equal(t, []time.Duration{0, time.Hour + time.Second, time.Hour + 3*time.Second, time.Hour + 7*time.Second, time.Hour + 15*time.Second}, at)
		assert.Equal(t, 1, reports)
	})
}

func TestThePauseBeforeASubscriptionIsBoundedAndShrinksAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var pauses []time.Duration
		ended := time.Now()
		resume(ctx, logr.Discard(), "links", func(_ context.Context, subscribed, _ func()) error {
			pauses = append(pauses, time.Since(ended))
			subscribed()
			switch len(pauses) {
			case 10: // a good while
				<-time.After(longestPause)
			case 11:
				cancel()
			}
			ended = time.Now()
			return unix.ENOBUFS
		}, func() {})
		assert.Equal(t, longestPause, pauses[8])
		assert.Equal(t, longestPause, pauses[9])
		assert.Equal(t, time.Second, pauses[10])
	})
}

func TestDoesWithoutUnusableSource(t *testing.T) {
	calls := 0
	resume(t.Context(), logr.Discard(), "links", func(context.Context, func(), func()) error {
		calls++
		return unix.EPERM
	}, func() { t.Error("nothing happened") })
	assert.Equal(t, 1, calls)
}
