package lab

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func busy(step string) sight {
	p := &picture{rows: []row{{node: "node-0", state: "Ready,SchedulingDisabled", step: step, current: 1, wanted: 2}}}
	return sight{p, p.undone()}
}

func TestDemoWithoutProgressEndsAndSaysWhatItWaitsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		looks := 0
		err := follow(t.Context(), newView(io.Discard, time.Now()), func(context.Context) (sight, error) {
			if looks++; looks < 100 {
				return busy("flash"), nil
			}
			return busy("health"), nil
		})
		require.ErrorContains(t, err, "nothing has changed for 3m0s")
		assert.ErrorContains(t, err, "node-0 to run its targets (1 of 2) and have its settings (0 of 0, step health)")
		assert.ErrorContains(t, err, "node-0 to be in service (Ready,SchedulingDisabled, step health)")
		assert.InDelta(t, int(patience/lookEvery)+100, looks, 3, "progress starts the patience again")
	})
}

func TestDemoEndsWithoutCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		err := follow(t.Context(), newView(io.Discard, time.Now()), func(context.Context) (sight, error) {
			return sight{}, errors.New("connection refused")
		})
		require.ErrorContains(t, err, "an answer of the API server: connection refused")

		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errors.New("the fleet was not done after 1m0s"))
		defer cancel()
		err = follow(ctx, newView(io.Discard, time.Now()), func(context.Context) (sight, error) { return busy("flash"), nil })
		require.ErrorContains(t, err, "the fleet was not done after 1m0s; it was waiting for node-0")
	})
}

func TestDemoFollowsUntilComplete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		err := follow(t.Context(), newView(io.Discard, began), func(context.Context) (sight, error) {
			switch since := time.Since(began); {
			case since < time.Second:
				return sight{}, errors.New("away for a moment")
			case since < 2*time.Second:
				return busy("flash"), nil
			}
			return sight{picture: &picture{}}, nil
		})
		require.NoError(t, err)
		err = follow(t.Context(), newView(io.Discard, began), func(context.Context) (sight, error) {
			return sight{}, verdictError("job node-0-1 failed")
		})
		assert.EqualError(t, err, "job node-0-1 failed")
	})
}
