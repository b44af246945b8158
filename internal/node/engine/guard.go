package engine

import (
	"context"
	"slices"
	"time"

	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

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
		x.cfg.Log.Warn("Nothing will restore this node if its update cuts it off across a reboot", "job", x.job.Name, "err", err)
	}
	if err := x.cfg.Journal.Save(x.job); err != nil { // after the reboot the journal is all that knows it; it is only reported
		x.cfg.Log.Warn("The state of the guard could not be journalled", "job", x.job.Name, "err", err)
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
