package lab

import (
	"context"
	"sync"
	"time"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/child"
)

// container is a program that is started again when it ends by itself, as a kubelet does.
type container struct {
	run func() (*child.Process, error)

	mu sync.Mutex
	// current is nil while the program is not to run.
	current *child.Process
}

// start starts the program, unless it is to run already.
func (c *container) start() (err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current == nil {
		c.current, err = c.run()
	}
	return err
}

// kill ends the program as a power cut does; it is not started again.
func (c *container) kill() { c.end((*child.Process).Kill) }

// stop asks the program to end; it is not started again.
func (c *container) stop() { c.end(func(p *child.Process) { p.Stop(stopGrace) }) }

func (c *container) end(how func(*child.Process)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current != nil {
		how(c.current)
		c.current = nil
	}
}

// pid is the program's process id, or 0 when it is not to run.
func (c *container) pid() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current == nil {
		return 0
	}
	return c.current.PID()
}

// exited is the program that should run and ended; nil when there is none.
func (c *container) exited() *child.Process {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current == nil || c.current.Running() {
		return nil
	}
	return c.current
}

// restart starts the program again, unless it was ended or started on purpose meanwhile.
func (c *container) restart(ended *child.Process) (err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current != ended {
		return nil
	}
	next, err := c.run()
	if err == nil {
		c.current = next
	}
	return err
}

// keep starts the program again each time it ends by itself, until the context ends. It leaves it to others while down
// reports that.
func (c *container) keep(ctx context.Context, down func() bool, complain func(format string, args ...any)) {
	var pause backoff
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(100 * time.Millisecond):
		}
		ended := c.exited()
		if ended == nil || down() {
			continue
		}
		wait := pause.after(ended.Ran())
		complain("The %s ended by itself; see %s. It is started again in %s.", ended.Name, ended.Log, wait)
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		if down() {
			continue
		}
		if err := c.restart(ended); err != nil {
			complain("%v", err)
		}
	}
}

// The pauses of a kubelet grow from 10 seconds to 5 minutes, and start over when the program ran for 10 minutes. Those of
// the lab are a tenth of that or less.
const (
	firstPause   = time.Second
	longestPause = 30 * time.Second
	stableAfter  = 10 * time.Second
)

// backoff is how long a program that ended waits for its next start.
type backoff struct{ last time.Duration }

// after is the pause before the next start of a program that ran for the given time.
func (b *backoff) after(ran time.Duration) time.Duration {
	if b.last == 0 || ran >= stableAfter {
		b.last = firstPause
	} else {
		b.last = min(2*b.last, longestPause)
	}
	return b.last
}
