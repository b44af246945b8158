package command

import (
	"context"
	"errors"
	"fmt"
	"os"
)

// errNoWorker and errNoScope are why nothing is protected with such a configuration.
var (
	errNoWorker = errors.New("no worker is configured")
	errNoScope  = errors.New("nothing is configured that could protect it")
)

// requireProtection is the key of RequireProtection.
type requireProtection struct{}

// RequireProtection returns a context under which a Write begins only if it survives the end of the container of this process, and fails
// with ErrUnprotected otherwise. It is in the context because drivers, which make the commands, do not decide about it.
func RequireProtection(ctx context.Context) context.Context {
	return context.WithValue(ctx, requireProtection{}, true)
}

// ProtectionRequired reports whether the context is of RequireProtection.
func ProtectionRequired(ctx context.Context) bool { return ctx.Value(requireProtection{}) != nil }

// Protects returns nil if a Write that began now would survive the end of this process's container, and otherwise an error that says why
// not. To find out it starts and moves a worker as for a write; the worker exits because it gets no order.
func (r *ExecRunner) Protects(ctx context.Context) error {
	if len(r.cfg.Worker) == 0 {
		return errNoWorker
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("start worker: %w", err)
	}
	defer null.Close()
	w := &following{runner: r, stdout: &follower{file: null}, stderr: &follower{file: null}}
	cmd, orders, err := w.spawn(inherited{lock: null})
	if err != nil {
		return err
	}
	err = r.moveOut(ctx, cmd.Process.Pid)
	_ = orders.Close()
	_ = cmd.Wait() // it complains that there was no order
	return err
}

// moveOut moves a worker out of the container of this process, so that the end of the container does not end it.
func (r *ExecRunner) moveOut(ctx context.Context, pid int) error {
	if r.cfg.Scope == nil {
		return errNoScope
	}
	ctx, cancel := context.WithTimeout(ctx, scopeTimeout)
	defer cancel()
	return r.cfg.Scope.Scope(ctx, pid, fmt.Sprintf("firmware-write-%d-%d", pid, processOf(pid).Start))
}

// unprotected returns why a write must not begin; nil when it may.
func (w *following) unprotected(ctx context.Context) error {
	if w.record.Protected || !ProtectionRequired(ctx) {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrUnprotected, w.record.Unprotected)
}
