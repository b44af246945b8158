package engine

import (
	"context"
	"time"

	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// Cancellation is a person's request to stop a job.
type Cancellation struct {
	// Reason the person gave.
	Reason string
	// Force begins no further round and no repetition of a step that is not part of every update. It does not end a write.
	Force bool
	// Grace is how long a running step that may be interrupted has to end by itself; with Force it has none.
	Grace time.Duration
}

// cancelling is a cancellation of the job that is executed.
type cancelling struct {
	Cancellation
	// timer ends the grace period; nil where there is none, or none any more. Until is when it ends.
	timer *time.Timer
	until time.Time
}

// Awaited is what the cancellation of a job waits for.
type Awaited struct {
	// Reason is WriteRunning, StepNotInterruptible or GracePeriod of pkg/step.
	Reason step.Delay
	// Force says that the cancellation is one by force. Until is when the grace period ends.
	Force bool
	Until time.Time
}

// Cancel asks the job to stop: at once or after the grace period where the running step may be interrupted, and else right after
// it. A job that is cancelled already is cancelled once more only by force.
func (e *Engine) Cancel(uid string, c Cancellation) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.current == nil || e.current.Job.UID != uid {
		return
	}
	known := e.cancelled[uid]
	switch {
	case known != nil && (known.Force || !c.Force):
		return
	case known == nil && e.current.Job.Cancel != nil && (e.current.Job.CancelForce || !c.Force):
		return
	case known != nil && known.timer != nil:
		known.timer.Stop()
	}
	next := &cancelling{Cancellation: c}
	e.cancelled[uid] = next
	if c.Grace > 0 && !c.Force {
		next.until = e.cfg.Now().Add(c.Grace)
		next.timer = time.AfterFunc(c.Grace, func() { e.endGrace(uid, next) })
	} else {
		e.interruptStep()
	}
	e.current.Cancelling = e.awaited(*e.current)
	e.kick()
}

// Asked says that the object of the job was read, and Cancel called where a person cancelled it. Under Run no drive is told to erase itself before.
func (e *Engine) Asked(job string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.asked[job] && e.current != nil && e.current.Job.Name == job {
		e.asked = map[string]bool{job: true}
		e.kick()
	}
}

// unasked reports whether the object of the job was not read since this process began.
func (x *execution) unasked() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.asks && !x.asked[x.job.Name]
}

// endGrace ends the step that had the time of the grace period to end by itself.
func (e *Engine) endGrace(uid string, c *cancelling) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.cancelled[uid] != c {
		return
	}
	c.timer = nil
	e.interruptStep()
	e.kick()
}

// interruptStep must be called with the lock held.
func (e *Engine) interruptStep() {
	if e.interrupt != nil {
		e.interrupt()
	}
}

// awaited is what the cancellation of the job waits for, nil for nothing. It must be called with the lock held.
func (e *Engine) awaited(s Snapshot) *Awaited {
	c := e.cancelled[s.Job.UID]
	if c == nil && s.Job.Cancel == nil {
		return nil
	}
	a := Awaited{Force: s.Job.CancelForce}
	if c != nil {
		a.Force = c.Force
	}
	grace := c != nil && c.timer != nil
	if a.Reason = step.CancelAwaits(s.Job.Record, grace); a.Reason == "" {
		return nil
	}
	if a.Reason == step.GracePeriod {
		a.Until = c.until
	}
	return &a
}

// takeCancel adds a cancellation that arrived since the last round to the job; the next save makes it durable. It reports
// whether the grace period has not ended.
func (x *execution) takeCancel() (grace bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	c := x.cancelled[x.job.UID]
	if c == nil {
		return false
	}
	x.job.Cancel, x.job.CancelForce = &c.Reason, c.Force
	return c.timer != nil
}

// onCancel sets what a cancellation interrupts. A cancellation that came before, and whose grace period has ended, interrupts it
// at once.
func (x *execution) onCancel(interrupt context.CancelFunc) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.interrupt = interrupt
	if c := x.cancelled[x.job.UID]; c != nil && c.timer == nil && interrupt != nil {
		interrupt()
	}
}

// forgetCancel must be called with the lock held.
func (x *execution) forgetCancel() {
	if c := x.cancelled[x.job.UID]; c != nil && c.timer != nil {
		c.timer.Stop()
	}
	delete(x.cancelled, x.job.UID)
}
