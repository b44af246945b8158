package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// lastWrite is what is known of the last write under a lock; nil where nothing is.
func (x *execution) lastWrite(lock string) *command.Writing {
	writers, ok := x.cfg.Writes.(Writers)
	if !ok || lock == "" {
		return nil
	}
	w, err := writers.Writing(lock)
	if err != nil {
		return nil
	}
	return w
}

// begins remembers which write of a device was the last one before a step, so that it is not taken for the step's own.
func (x *execution) begins(lock string) {
	x.writing, x.before = lock, time.Time{}
	if w := x.lastWrite(lock); w != nil {
		x.before = w.Started
	}
}

// exposed looks once at the write of the running step, as soon as it is recorded.
func (x *execution) exposed() {
	if w := x.lastWrite(x.writing); w != nil && !w.Started.Equal(x.before) && (w.Tool.PID != 0 || w.Ended != nil) {
		x.writing = ""
		x.expose(*w)
	}
}

// expose notes what can end a write from outside, and reports it while a person can still do something about it. The write goes on.
func (x *execution) expose(w command.Writing) {
	now := journal.Exposed{Uninhibited: w.Uninhibited}
	if !w.Protected {
		now.Unprotected = w.Unprotected
	}
	if now == (journal.Exposed{}) || x.job.Exposed != nil && *x.job.Exposed == now {
		return
	}
	x.job.Exposed = &now // the next save makes it durable: it is only reported
	x.logger().Warn("Write is not protected against interruption", "job", x.job.Name, "argv", w.Argv, "unprotected", now.Unprotected, "uninhibited", now.Uninhibited)
	x.publish(true)
}

// Protector tells whether a write survives the end of the container of this process. Config.Writes may implement it.
type Protector interface {
	// Protects returns nil when a write that began now would, and why not otherwise.
	Protects(ctx context.Context) error
}

// unprotected returns why the update must not be made on this host, where the policy requires that its writes are protected; nil when
// it may. A rollback is not asked about: without it the device keeps what was found to be bad.
func (x *execution) unprotected(ctx context.Context, u journal.Update) *step.Failure {
	if !x.job.ProtectionRequired {
		return nil
	}
	err := errors.New("the daemon cannot tell")
	if p, ok := x.cfg.Writes.(Protector); ok {
		err = p.Protects(ctx)
	}
	if err == nil {
		return nil
	}
	return &step.Failure{Reason: step.WriteUnprotected, Message: fmt.Sprintf("%s: nothing was changed, because the end of the daemon's pod would end a "+
		"write on this host, and the rollout policy requires WriteProtection; fix the host's systemd, or take WriteProtection from spec.require of the policy: %v", u.Device, err)}
}

// Guard makes the host start an engine by itself, where after a reboot nothing else would without the API server.
type Guard interface {
	// Install returns nil once the host starts one after each boot. What is installed already is kept.
	Install(ctx context.Context) error
	// Remove undoes that. It does little where nothing is installed.
	Remove(ctx context.Context) error
}

// guardRetry is the pause before another attempt to remove a guard.
const guardRetry = time.Minute

// guard installs the guard of a job that updates a network adapter, before anything is written and before each reboot: the host
// may also boot, with what was just written, when nobody asked it to. Without a guard the job goes on, and says so; a host that
// refused one is asked again before a reboot only, because it may take a minute to find that out.
func (x *execution) guard(ctx context.Context) {
	if x.cfg.Guard == nil || x.refused || !slices.ContainsFunc(x.job.Updates, func(u journal.Update) bool { return u.Class == inventory.NIC }) {
		return
	}
	err := x.cfg.Guard.Install(ctx)
	if ctx.Err() != nil {
		return
	}
	now := journal.Guard{}
	if x.refused = err != nil; x.refused {
		now.Missing = err.Error()
	}
	if x.job.Guard != nil && *x.job.Guard == now {
		return
	}
	x.job.Guard = &now
	if err != nil {
		x.logger().Warn("Nothing will restore this node if its update cuts it off across a reboot", "job", x.job.Name, "err", err)
	}
	if err := x.cfg.Journal.Save(x.job); err != nil { // after the reboot the journal is all that knows it; it is only reported
		x.logger().Warn("The state of the guard could not be journalled", "job", x.job.Name, "err", err)
	}
	x.publish(true)
}

// unguard removes the guard, and returns how long the engine may be idle: without end, unless that must be tried again.
func (e *Engine) unguard(ctx context.Context) time.Duration {
	if e.cfg.Guard == nil {
		return forever
	}
	if err := e.cfg.Guard.Remove(ctx); err != nil {
		e.cfg.Log.Error("Guard of the last job could not be removed; trying again", "err", err)
		return guardRetry
	}
	return forever
}
