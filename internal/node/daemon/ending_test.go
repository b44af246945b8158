package daemon

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// starting is a manager as a function.
type starting func(context.Context) error

func (s starting) Start(ctx context.Context) error { return s(ctx) }

func TestAManagerThatDoesNotEndIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		began := time.Now()
		cancel()
		err := runManager(ctx, starting(func(context.Context) error { <-release; return nil }), time.Minute)
		require.NoError(t, err)
		assert.Equal(t, time.Minute, time.Since(began))
		close(release)
	})
}

func TestTheErrorOfAManagerIsTheResult(t *testing.T) {
	failure := errors.New("lost its lease")
	require.ErrorIs(t, runManager(t.Context(), starting(func(context.Context) error { return failure }), time.Minute), failure)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := runManager(ctx, starting(func(ctx context.Context) error { <-ctx.Done(); return failure }), time.Minute)
	require.ErrorIs(t, err, failure, "one that ends in time is waited for")
}
