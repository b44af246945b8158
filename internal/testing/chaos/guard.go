package chaos

import (
	"context"
	"errors"

	"github.com/nodefirmware/node-firmware-operator/internal/maintenance"
	"github.com/nodefirmware/node-firmware-operator/internal/node/engine"
	"github.com/nodefirmware/node-firmware-operator/internal/node/health"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// watch is the guard of the host: a file from which the kubelet starts an engine after a boot, whoever answers.
type watch struct{ *world }

// Install implements engine.Guard.
func (g watch) Install(ctx context.Context) error {
	g.point(opGuard, Before, "")
	if err := ctx.Err(); err != nil || g.guarded {
		return err
	}
	if g.guarding {
		return errors.New("a guard installs none")
	}
	g.guarded = true
	g.note(Event{Kind: EventGuarded})
	g.point(opGuard, After, "")
	return nil
}

// Remove implements engine.Guard.
func (g watch) Remove(context.Context) error {
	if !g.guarded {
		return nil
	}
	g.point(opUnguard, Before, "")
	g.guarded = false
	g.note(Event{Kind: EventUnguarded})
	g.point(opUnguard, After, "")
	return nil
}

// unfinished reports whether the journal on disk holds a job that has not ended.
func (w *world) unfinished() bool {
	active := w.disk.Active()
	return active != nil && active.Record.Outcome == ""
}

// choose decides what the kubelet starts: after a boot the daemon only once the API server answers, and until then the guard, where
// there is one that has something to do. It reports whether the API server has to be waited for.
func (w *world) choose() (wait bool) {
	w.guarding = false
	if !w.booted || !w.apiAway() {
		w.booted = false
		return false
	}
	w.guarding = w.guarded && w.unfinished()
	return !w.guarding
}

// alone is the configuration of an engine that has no access to the API server.
func (w *world) alone(c engine.Config) engine.Config {
	h := host{w}
	c.Maintenance = outOfReach{w}
	c.Health = health.Checker{Scanner: h, Node: unheard{h}, Network: h, Arrays: h}
	return c
}

// unheard learns of the API server only whether it answers.
type unheard struct{ host }

// Ready implements health.NodeReadiness.
func (u unheard) Ready(ctx context.Context) (bool, string, error) {
	if _, _, err := u.host.Ready(ctx); err != nil {
		return false, "", err
	}
	return false, "", health.ErrAnswered
}

// outOfReach is a maintenance of which nothing is known.
type outOfReach struct{ *world }

// Schedule implements maintenance.Window.
func (outOfReach) Schedule(context.Context) error { return errAway }

// Fail implements maintenance.Window.
func (outOfReach) Fail(context.Context, string) error { return errAway }

// Release implements maintenance.Window.
func (outOfReach) Release(context.Context) error { return errAway }

// State implements maintenance.Window.
func (o outOfReach) State(context.Context) (maintenance.State, error) {
	o.point(opState, Before, "")
	o.note(Event{Kind: EventMaintenance, Maintenance: step.MaintenanceUnknown, Detail: "unknown"})
	return maintenance.State{}, errAway
}
