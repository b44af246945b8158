package nvme

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver/nvme/admin"
)

// reader reads drives through the running kernel. A read of a drive that hangs does not return: it is abandoned at the
// deadline, and no other read of that drive begins until it ends.
type reader struct {
	open admin.Opener

	mu      sync.Mutex
	ongoing map[string]*reading
}

type reading struct {
	// done is closed when the kernel has answered; the fields below are written before.
	done       chan struct{}
	controller controller
	log        slotLog
	err        error
	// left is set when the caller stopped waiting for it. It is guarded by the reader's lock.
	left bool
}

func newReader(open admin.Opener) *reader {
	return &reader{open: open, ongoing: map[string]*reading{}}
}

// longestRead bounds a read whose caller has no deadline. It is a little longer than the kernel waits for one command.
const longestRead = 75 * time.Second

var errHangs = errors.New("an earlier read of it has not returned: the drive hangs; power-cycle the node if this persists")

// read starts its own read of the drive and waits for it until the context ends.
func (r *reader) read(ctx context.Context, node string) (controller, slotLog, error) {
	ctx, stop := context.WithTimeoutCause(ctx, longestRead, fmt.Errorf("no answer within %v", longestRead))
	defer stop()
	mine, err := r.begin(ctx, node)
	if err != nil {
		return controller{}, slotLog{}, err
	}
	select {
	case <-mine.done:
		return mine.controller, mine.log, mine.err
	case <-ctx.Done():
		r.mu.Lock()
		defer r.mu.Unlock()
		mine.left = true
		return controller{}, slotLog{}, fmt.Errorf("the drive does not answer: %w", context.Cause(ctx))
	}
}

// begin waits until no other read of the drive is running and starts one.
func (r *reader) begin(ctx context.Context, node string) (*reading, error) {
	for {
		r.mu.Lock()
		other := r.ongoing[node]
		if other == nil {
			mine := &reading{done: make(chan struct{})}
			r.ongoing[node] = mine
			r.mu.Unlock()
			go r.carryOut(mine, node)
			return mine, nil
		}
		left := other.left
		r.mu.Unlock()
		if left {
			return nil, errHangs
		}
		select {
		case <-other.done:
		case <-ctx.Done():
			return nil, fmt.Errorf("another read of the drive has not returned: %w", context.Cause(ctx))
		}
	}
}

func (r *reader) carryOut(mine *reading, node string) {
	mine.controller, mine.log, mine.err = r.ask(node)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.ongoing, node)
	close(mine.done)
}

func (r *reader) ask(node string) (_ controller, _ slotLog, err error) {
	device, err := r.open(node)
	if err != nil {
		return controller{}, slotLog{}, err
	}
	defer func() { err = errors.Join(err, device.Close()) }()
	data, err := admin.Identify(device)
	if err != nil {
		return controller{}, slotLog{}, err
	}
	c, err := newController(data)
	if err != nil {
		return controller{}, slotLog{}, err
	}
	log, err := admin.ReadSlotLog(device)
	if err != nil && (c.Downloadable || !errors.As(err, new(*admin.StatusError))) {
		return controller{}, slotLog{}, err
	}
	return c, newSlotLog(log), nil
}
