package nvmetcp

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest/nvmectrl"
)

// task is a command that is being executed.
type task struct {
	command
	data []byte
	// context ends with the connection or when the task is aborted.
	context context.Context
	cancel  context.CancelFunc
	state   atomic.Int32
}

// States of a task. Only a waiting one can be aborted.
const (
	taskWorks int32 = iota
	taskWaits
	taskAborted
)

// forever is longer than any host waits.
const forever = 1000 * time.Hour

// wait waits for a time, or until wake is closed.
func (t *task) wait(wake <-chan struct{}, duration time.Duration) nvmectrl.Status {
	if duration <= 0 {
		return nvmectrl.Success
	}
	if wake == nil {
		wake = make(chan struct{})
	}
	t.state.Store(taskWaits)
	timer := time.NewTimer(duration)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-wake:
	case <-t.context.Done():
	}
	return t.resume()
}

// resume ends the state in which the task can be aborted.
func (t *task) resume() nvmectrl.Status {
	if !t.state.CompareAndSwap(taskWaits, taskWorks) || t.context.Err() != nil {
		return AbortRequested
	}
	return nvmectrl.Success
}

// abort aborts a waiting task and reports whether it did.
func (t *task) abort() bool {
	if !t.state.CompareAndSwap(taskWaits, taskAborted) {
		return false
	}
	t.cancel()
	return true
}
