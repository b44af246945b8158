package engine

import (
	"time"

	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/pkg/command"
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
	x.cfg.Log.Warn("Write can be ended from outside", "job", x.job.Name, "argv", w.Argv, "unprotected", now.Unprotected, "uninhibited", now.Uninhibited)
	x.publish(true)
}
