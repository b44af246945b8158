package devlink

import (
	"context"
	"fmt"
	"sync"
)

// questions are those that this process asks the kernel. One about a device that is written is answered when the write is
// over, and nothing can take it back: the thread that asked is stuck until then. So there is one at a time for each device,
// and whoever waits for it does so no longer than its own context.
type questions struct {
	mu    sync.Mutex
	turns map[Handle]chan struct{}
}

func (q *questions) turn(h Handle) chan struct{} {
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

// info asks for the info of a device.
func (q *questions) info(ctx context.Context, dial Dialer, h Handle) (Info, error) {
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
		return Info{}, late("the kernel has not answered an earlier question yet; the device is being written or reloaded, or hangs")
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
		return Info{}, late("the kernel does not answer while it writes or reloads the device; read it again when that is over")
	}
}
