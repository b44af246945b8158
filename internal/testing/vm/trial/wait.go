package trial

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Machine is a machine that runs.
type Machine interface {
	// Done is closed when it has turned off, and Err then says how.
	Done() <-chan struct{}
	Err() error
}

const (
	// pollPeriod is how often a check reads what it waits for, and pollLimit how long one such read may take.
	pollPeriod, pollLimit = 250 * time.Millisecond, 30 * time.Second
)

// Until waits for a condition. An error of the condition does not end the wait, because servers and the machine are gone at times; the
// last one that the condition itself had is part of the error when the condition never holds. One of Fatalf ends it, and so does a machine that turns off.
func (n *Node) Until(ctx context.Context, what string, condition func(ctx context.Context) (bool, error)) error {
	if n.StepLimit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, n.StepLimit, fmt.Errorf("not within %s", n.StepLimit))
		defer cancel()
	}
	var last error
	for {
		asked, done := context.WithTimeout(ctx, pollLimit)
		ok, err := condition(asked)
		done()
		if ok && err == nil {
			return nil
		}
		if last == nil || ctx.Err() == nil { // the end of the wait cuts the condition off, and that says nothing
			last = err
		}
		if never := (fatal{}); errors.As(err, &never) {
			return fmt.Errorf("wait until %s: %w", what, err)
		}
		machine := n.Machine()
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("wait until %s: %w", what, context.Cause(ctx)), last)
		case <-machine.Done():
			return fmt.Errorf("wait until %s: the machine turned off: %v", what, machine.Err()) //nolint:errorlint // nil as well
		case <-time.After(pollPeriod):
		}
	}
}

// fatal is an error after which waiting is of no use.
type fatal struct{ error }

// Fatalf is an error that ends a wait.
func Fatalf(format string, args ...any) error { return fatal{fmt.Errorf(format, args...)} }
