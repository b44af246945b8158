package devlink

import (
	"context"
	"fmt"
	"sync"
)

// queries are the info requests of this process to the kernel. The kernel answers a request about a device that is
// being written only when the write has ended, and a request cannot be cancelled: its thread is blocked until then.
// Therefore there is at most one request per device at a time, and a caller waits for it no longer than its own
// context.
type queries struct {
	mu    sync.Mutex
	turns map[Handle]chan struct{}
}

func (q *queries) turn(h Handle) chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.turns == nil {
		q.turns = map[Handle]chan struct{}{}
	}
	if q.turns[h] == nil {
		q.turns[h] = make(chan struct{}, 1)
	}
	return q.turns[h]
}

// info requests the info of a device.
func (q *queries) info(ctx context.Context, dial Dialer, h Handle) (Info, error) {
	type answer struct {
		info Info
		err  error
	}
	late := func(why string) error {
		return fmt.Errorf("ask for info of %s: %w: %s", h, context.Cause(ctx), why)
	}
	turn := q.turn(h)
	select {
	case turn <- struct{}{}:
	case <-ctx.Done():
		return Info{}, late("the kernel has not answered an earlier query yet; the device is being written or reloaded, or hangs")
	}
	answered := make(chan answer, 1)
	go func() {
		defer func() { <-turn }()
		info, err := dial.info(h)
		answered <- answer{info, err}
	}()
	select {
	case a := <-answered:
		return a.info, a.err
	case <-ctx.Done():
		return Info{}, late("the kernel does not answer while it writes or reloads the device; read it again afterwards")
	}
}
