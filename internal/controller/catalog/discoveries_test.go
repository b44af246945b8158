package catalog

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// hold is a task that ends with its context or when it is let go.
func hold(name string, begun chan<- string, letGo <-chan struct{}) Task {
	return Task{Catalog: name, Ask: func(ctx context.Context) []Answered {
		begun <- name
		select {
		case <-ctx.Done():
			return []Answered{{Provider: "p", Err: ctx.Err()}}
		case <-letGo:
			return []Answered{{Provider: "p"}}
		}
	}}
}

// No more than so many run and wait at once; the next one is refused, and taken when there is room.
func TestTheQueueIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := NewDiscoveries(Bounds{Parallel: 2, Waiting: 1}, time.Now)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- d.Start(ctx) }()
		begun, letGo := make(chan string, 10), make(chan struct{})
		for _, name := range []string{"a", "b"} {
			assert.Equal(t, Scheduled, d.Request(hold(name, begun, letGo)))
			synctest.Wait()
		}
		assert.Equal(t, Scheduled, d.Request(hold("c", begun, letGo)))
		synctest.Wait()
		assert.Len(t, begun, 2, "c waits")
		assert.Equal(t, QueueFull, d.Request(hold("d", begun, letGo)))
		assert.Equal(t, AlreadyScheduled, d.Request(hold("c", begun, letGo)), "before the bound is looked at")
		close(letGo)
		synctest.Wait()
		assert.Len(t, begun, 3)
		assert.Equal(t, Scheduled, d.Request(hold("d", begun, letGo)))
		synctest.Wait()
		assert.Len(t, begun, 4)
		stop()
		require.NoError(t, <-done)
	})
}

// A discovery that does not end in time is ended, and another one runs in its place.
func TestDiscoveryEndsAtDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := NewDiscoveries(Bounds{Parallel: 1, Deadline: time.Minute}, time.Now)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- d.Start(ctx) }()
		begun, never := make(chan string, 10), make(chan struct{})
		d.Request(hold("a", begun, never))
		d.Request(hold("b", begun, never))
		time.Sleep(59 * time.Second) // of the bubble's clock
		synctest.Wait()
		assert.Len(t, begun, 1)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		assert.Len(t, begun, 2)
		o, ok := d.Outcome("a")
		require.True(t, ok)
		assert.ErrorIs(t, o.Answers[0].Err, context.DeadlineExceeded)
		stop()
		require.NoError(t, <-done)
	})
}

// What waits is removed at once; what runs is told to end and leaves no outcome; nobody else is disturbed.
func TestADiscoveryCanBeCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := NewDiscoveries(Bounds{Parallel: 1}, time.Now)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- d.Start(ctx) }()
		begun, letGo := make(chan string, 10), make(chan struct{})
		for _, name := range []string{"a", "b", "c"} {
			d.Request(hold(name, begun, letGo))
			synctest.Wait()
		}
		d.Cancel("b")
		_, scheduled := d.Scheduled("b")
		assert.False(t, scheduled)
		d.Cancel("a")
		synctest.Wait()
		_, ok := d.Outcome("a")
		assert.False(t, ok)
		close(letGo)
		synctest.Wait()
		_, ok = d.Outcome("c")
		assert.True(t, ok)
		assert.Len(t, begun, 2, "b never began")
		d.Forget("c")
		_, ok = d.Outcome("c")
		assert.False(t, ok)
		stop()
		require.NoError(t, <-done)
	})
}
