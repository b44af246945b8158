package export

import (
	"context"
	"log/slog"
	"sync"
)

// backlog is work that waits for one worker, so that whoever adds to it never waits.
type backlog struct {
	// what names it in the log.
	what string
	work chan func()
	log  *slog.Logger

	mu sync.Mutex
	// dropped counts what found it full since the worker was last done with all.
	dropped int
}

func newBacklog(what string, most int, log *slog.Logger) *backlog {
	return &backlog{what: what, work: make(chan func(), most), log: log}
}

// add does not block. It reports whether the work was taken; where the backlog is full it is dropped, and the log says so once.
func (b *backlog) add(do func()) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case b.work <- do:
		return true
	default:
	}
	if b.dropped++; b.dropped == 1 {
		b.log.Warn("Traces are not exported as fast as jobs change; what does not fit into the backlog is missing at the collector. "+
			"See whether the collector or the API server is slow", "backlog", b.what, "most", cap(b.work))
	}
	return false
}

// run does the work, one after the other, until the context ends.
func (b *backlog) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case do := <-b.work:
			do()
			b.done()
		}
	}
}

// done says how much was dropped, when nothing waits any more.
func (b *backlog) done() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.dropped == 0 || len(b.work) > 0 {
		return
	}
	b.log.Warn("Traces are exported again", "backlog", b.what, "dropped", b.dropped)
	b.dropped = 0
}
