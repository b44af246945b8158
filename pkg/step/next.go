package step

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/text"
)

// Verb is the kind of an action.
type Verb int

// The verbs of an action.
const (
	// Await: wait for the facts to change.
	Await Verb = iota
	// Begin: journal a new attempt of the step, then run it.
	Begin
	// Poll: run a step that has begun once more; it only reads or asks.
	Poll
	// Settle: journal that the step ended, in the action's State.
	Settle
	// RollBack: journal which devices are rolled back, or why that is not possible.
	RollBack
	// Restart: journal that the list of steps starts again from the beginning.
	Restart
	// RepeatGate: journal that the health gate runs again, because the host has rebooted since its verdict.
	RepeatGate
	// RebootAgain: journal that the host reboots once more, because a device may need a second boot, or to see whether a slow boot is slow
	// again, and that all is read back again.
	RebootAgain
	// ConfigureAgain: journal that settings are stored once more, and all is read back again.
	ConfigureAgain
	// Finish: journal that the job ended.
	Finish
)

// Action is what to do next. The record that Apply returns must be journalled before the action is executed.
type Action struct {
	Verb Verb
	// Step is the index of the step; -1 if the action concerns the whole job.
	Step int
	// State of a settled step: Succeeded, Skipped or StepFault.
	State State
	// Message for people: why the step ended this way, or what is waited for.
	Message string
	// Needs is the activation that the device's image still needs, for a settled flash or activation.
	Needs inventory.Activation
	// Failure of the job, for a failed step.
	Failure *Failure
	// Devices to roll back.
	Devices []string
	// Complaints of the health gate. One that passes complains of a slow boot at most.
	Complaints []Complaint
	// Judgement of a job that the gate of its rollback finds unhealthy; nil where that is not what it failed for.
	Judgement *Judgement
	// InService says that the node stays in service, for a maintenance that is skipped.
	InService bool
	// Outcome of a finished job.
	Outcome Outcome
}

// The bounds of one job. They are counted in its record, so that they hold over the death of the process.
const (
	// MaxAttempts bounds how often a step of an update that writes is begun: flash, activate and restore run once, and once
	// more after an interruption. Settings may be stored a second time, which counts anew.
	MaxAttempts = 2
	// MaxTaskAttempts bounds how often a step is begun that is not part of every update: it may do its work in rounds.
	MaxTaskAttempts = 100
	// MaxInterruptions bounds how often such a step is begun once more because the end of its last attempt is not known: the step itself
	// may be what brought down the daemon or the host.
	MaxInterruptions = 5
	// MaxReboots bounds how often a job requests a reboot, its rollback included. Two more are for a job that gives a device firmware and
	// settings, where each activation of firmware may reset what it was told.
	MaxReboots = 3
	// MaxRestarts bounds how often a job restarts its steps because a driver changed.
	MaxRestarts = 3
)

// maxMessage bounds the message of a failed step, in bytes.
const maxMessage = 4096

// Next decides what to do next about a job that has not finished.
func Next(r Record, f Facts, l Limits) Action {
	if r.rollbackDue() {
		return rollBack(r, f)
	}
	i := r.Current()
	if i < 0 {
		if r.Failure != nil {
			return Action{Verb: Finish, Step: -1, Outcome: Failed, Message: r.Failure.Message}
		}
		return Action{Verb: Finish, Step: -1, Outcome: Complete}
	}
	d := decider{r: r, f: f, l: l, i: i, s: r.Steps[i]}
	if stop, ok := d.stopped(); ok {
		return stop
	}
	if d.driverChanged() {
		return Action{Verb: Restart, Step: -1, Message: "a driver changed since the images were checked"}
	}
	switch d.s.Kind {
	case plan.Preflight:
		return d.preflight()
	case plan.Archive:
		return d.archive()
	case plan.Maintenance:
		return d.maintenance()
	case plan.Flash, plan.Restore:
		return d.flash()
	case plan.Configure:
		return d.configure()
	case plan.Activate:
		return d.activate()
	case plan.Reboot:
		return d.rebootUnless(d.reboot())
	case plan.Verify:
		return d.verify()
	case plan.Health:
		return d.health()
	case plan.Release:
		return d.release()
	}
	return d.task()
}

type decider struct {
	r Record
	f Facts
	l Limits
	i int
	s Step
}

// fresh reports whether this process has not begun the step yet.
func (d decider) fresh() bool { return d.s.State == Pending || d.f.Interrupted }

// write begins an attempt of a step that writes, if the maintenance allows it. The first write of a job needs a
// maintenance that is known to be ready, unless the node stays in service. Once something was written, the job goes on even if the API server is
// unreachable.
func (d decider) write() Action { return d.inMaintenance(d.begin()) }

// inMaintenance is the action, if the node is still out of service.
func (d decider) inMaintenance(act Action) Action {
	lost := func(format string, args ...any) Action {
		a := d.fail(MaintenanceLost, format, args...)
		a.Failure.Held = (d.r.Wrote() || d.r.Inherited) && !d.r.UnderHold
		return a
	}
	taken := d.r.step(plan.Maintenance)
	switch {
	case d.r.InService && d.s.Kind != plan.Configure:
		return d.unforeseen()
	case d.r.InService && d.s.Attempt < d.attempts():
		return act
	case !d.r.InService && (taken == nil || taken.State != Succeeded):
		return lost("the node is not in maintenance and the device changed after it was read; nothing was written")
	case act.Verb == Begin && d.s.Kind != plan.Reboot && d.s.Attempt >= d.attempts():
		return d.fail(AttemptsExhausted, "the step has already been started %d times", d.s.Attempt)
	case d.f.Maintenance == MaintenanceReady:
		return act
	case d.f.Maintenance == MaintenanceUnknown && d.r.Wrote():
		return act
	case d.f.Maintenance == MaintenanceUnknown:
		return d.await("it is not known whether the node is still in maintenance")
	case d.f.Maintenance == MaintenanceRequested && d.f.Waited < d.l.Maintenance:
		return d.await("the maintenance is no longer ready: " + d.f.MaintenanceMessage)
	}
	return lost("the maintenance was ended before the step %s: %s", d.s.Kind, cmp.Or(d.f.MaintenanceMessage, "none is left, and the node accepts workloads"))
}

// unforeseen ends a job on a node in service whose settings need an activation that the device did not name before. They are undone.
func (d decider) unforeseen() Action {
	a := d.fail(VerifyFailed, "the settings need the step %s, which the device did not say before they were stored; the node is in service and is not disturbed "+
		"for it", d.s.Kind)
	a.Failure.Settings = true
	for _, u := range d.r.Updates {
		if !d.s.Rollback && d.r.Touched(u.Device) {
			a.Failure.Blames = append(a.Failure.Blames, u.Device)
		}
	}
	return a
}

// attempts bounds how often a step that needs the maintenance is begun.
func (d decider) attempts() int32 {
	switch {
	case d.s.Task:
		return MaxTaskAttempts
	case d.s.Kind == plan.Configure || d.s.Kind == plan.Activate || d.s.Kind == plan.Reboot:
		return MaxAttempts * d.rounds()
	}
	return MaxAttempts
}

// driverChanged reports whether a driver is no longer the one that checked the image, because this process or the
// plugin was replaced. It does not interrupt a step that this process runs, waits for a running write, and does not
// take a node out again that is being returned to service.
func (d decider) driverChanged() bool {
	if d.s.Kind == plan.Release || slices.ContainsFunc(d.r.Steps, Step.erasing) || !d.fresh() || d.r.Failure != nil || d.r.Restarts >= MaxRestarts || d.writing() {
		return false
	}
	return d.f.Drivers != nil && slices.ContainsFunc(d.r.Updates, func(u Update) bool {
		return u.DriverVersion != "" && d.f.Drivers[u.Driver] != u.DriverVersion
	})
}

// awaitAnswer waits for a device that does not answer until Limits.Read has passed, then fails.
func (d decider) awaitAnswer(r Reason, complaint string) Action {
	if d.f.Waited < d.l.Read {
		return d.await(complaint)
	}
	return d.fail(r, "%s", complaint)
}

func (d decider) begin() Action { return Action{Verb: Begin, Step: d.i} }
func (d decider) poll(m string) Action {
	return Action{Verb: Poll, Step: d.i, Message: m}
}

func (d decider) await(m string) Action   { return Action{Verb: Await, Step: d.i, Message: m} }
func (d decider) succeed(m string) Action { return d.settle(Succeeded, m) }
func (d decider) skip(m string) Action    { return d.settle(Skipped, m) }
func (d decider) settle(s State, m string) Action {
	return Action{Verb: Settle, Step: d.i, State: s, Message: m}
}

func (d decider) fail(r Reason, format string, args ...any) Action {
	message := fmt.Sprintf(format, args...)
	if d.s.erasing() && !refused(d.s) { // that one speaks for itself
		message += "; the drive may be erasing itself, which nothing stops, and is NOT proven erased"
	}
	a := d.settle(StepFault, text.Clip(message, maxMessage))
	a.Failure = &Failure{Reason: r, Message: a.Message, Step: d.s.Kind, Device: d.s.Device, Held: d.r.InMaintenance() && !d.r.UnderHold}
	return a
}
