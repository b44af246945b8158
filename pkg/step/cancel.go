package step

import (
	"slices"

	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
)

// Delay is what a cancellation waits for.
type Delay string

// The delays.
const (
	// WriteRunning: the running step writes to the hardware, and a write is never broken off.
	WriteRunning Delay = "WriteRunning"
	// StepNotInterruptible: the running step may not be interrupted.
	StepNotInterruptible Delay = "StepNotInterruptible"
	// GracePeriod: the running step may be interrupted, and has until the end of the grace period to end by itself.
	GracePeriod Delay = "GracePeriod"
)

// CancelAwaits says what the cancellation of a job waits for; empty where it waits for nothing and where it has ended the job.
// The argument says that the grace period of the cancellation has not ended.
func CancelAwaits(r Record, grace bool) Delay {
	i := r.Current()
	if i < 0 {
		return ""
	}
	s := r.Steps[i]
	switch {
	case r.Failure != nil && r.Failure.Reason == Cancelled && !s.Followed():
		return ""
	case s.State == Running && (s.Kind == plan.Flash || s.Kind == plan.Restore || s.Kind == plan.Configure || s.Changes):
		return WriteRunning
	case r.Failure != nil || s.Kind == plan.Release || s.State == Running && !s.Interruptible:
		return StepNotInterruptible
	case s.State == Running && grace:
		return GracePeriod
	}
	return ""
}

// stopped ends a job that a person cancelled, as soon as the running step allows it, and a job that has written nothing
// by its deadline, unless it cleans the host and the node is out of service by then. A failed job, its rollback and the return of the node to service go on.
func (d decider) stopped() (Action, bool) {
	if d.r.Failure != nil || d.s.Kind == plan.Release {
		return Action{}, false
	}
	if d.r.Wrote() {
		if d.f.Cancel == nil || d.s.State == Running && !d.s.Interruptible || d.graced() {
			return Action{}, false
		}
		return d.fail(Cancelled, "cancelled before this step, after something was written: %s", *d.f.Cancel), true
	}
	if d.s.Kind == plan.Verify || d.s.Kind == plan.Health {
		return Action{}, false
	}
	expired := d.f.Expired && !d.cleaning()
	var a Action
	switch {
	case d.f.Cancel != nil && !(d.graced() && !expired):
		a = d.fail(Cancelled, "cancelled before the first write: %s", *d.f.Cancel)
	case !expired:
		return Action{}, false
	case d.s.Returned != nil && d.s.Returned.Again:
		a = d.fail(d.s.Returned.Failure.Reason, "nothing was written before the deadline: %s", d.s.Returned.Failure.Message)
	case d.s.Kind == plan.Maintenance && d.f.Maintenance == MaintenanceNotInstalled:
		a = d.fail(MaintenanceUnavailable, "no maintenance before the deadline: %s", d.f.MaintenanceMessage)
	default:
		a = d.fail(TimedOut, "nothing was written before the deadline; the step %s was not done: %s", d.s.Kind, d.f.MaintenanceMessage)
	}
	a.Failure.Held = d.r.Inherited
	return a, true
}

// cleaning reports whether the job has come to the steps that clean the host. They may take longer than the wait for the maintenance, and
// write nothing.
func (d decider) cleaning() bool {
	return slices.ContainsFunc(d.r.Steps[:d.i+1], func(s Step) bool { return s.OutOfService })
}

// graced reports whether the running step still has time to end by itself. A step that nothing runs any more is not begun again
// for it.
func (d decider) graced() bool {
	return d.f.CancelGrace && d.s.State == Running && d.s.Interruptible && !d.f.Interrupted
}

// notAgain reports whether a cancellation by force keeps a step that is not part of every update from another round, and from
// its repetition after an interruption. A write of firmware is repeated, because the device may hold half of an image.
func (d decider) notAgain() bool {
	return d.f.Cancel != nil && d.f.CancelForce && d.s.State == Running
}

// untold reports whether a cancellation, of whichever mode, keeps a drive from being told to erase itself: nothing is begun that cannot be undone.
func (d decider) untold() bool {
	return d.f.Cancel != nil && d.s.Kind == plan.Erase && !d.s.Lasting && d.s.Returned != nil && d.s.Returned.Again
}

// endRounds ends the job between two rounds of the step.
func (d decider) endRounds() Action {
	if d.untold() {
		return d.fail(Cancelled, "cancelled before the drive was told to erase itself: %s", *d.f.Cancel)
	}
	if d.r.Failure != nil {
		return d.fail(Cancelled, "given up by force")
	}
	return d.fail(Cancelled, "cancelled by force, so the step is not begun again: %s", *d.f.Cancel)
}
