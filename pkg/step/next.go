package step

import (
	"fmt"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
)

// Verb says what to do.
type Verb int

// The verbs of an action.
const (
	// Await: wait for the facts to change.
	Await Verb = iota
	// Begin: journal a new attempt of the step, then run it.
	Begin
	// Poll: run the step, which only reads or asks and is begun already, once more.
	Poll
	// Settle: journal that the step ended, in the action's State.
	Settle
	// Finish: journal that the job ended.
	Finish
)

// Action is what to do next. It must be journalled by Apply before it is acted upon.
type Action struct {
	Verb Verb
	// Step is the index of the step; -1 for Finish.
	Step int
	// State of a settled step: Succeeded, Skipped or StepFault.
	State State
	// Message for people: why the step is settled so, or what is waited for.
	Message string
	// Needs is what the image of the step's device still needs, for a settled flash or activation.
	Needs inventory.Activation
	// Failure of the job that a failed step means.
	Failure *Failure
	// Outcome of a finished job.
	Outcome Outcome
}

// maxWrites bounds the attempts of a step that writes: the first and one repetition after an interruption.
const maxWrites = 2

// Next decides what to do next about a job that has not finished.
func Next(r Record, f Facts, l Limits) Action {
	i := r.Current()
	if i < 0 {
		if r.Failure != nil {
			return Action{Verb: Finish, Step: -1, Outcome: Failed, Message: r.Failure.Message}
		}
		return Action{Verb: Finish, Step: -1, Outcome: Complete}
	}
	d := decider{r: r, f: f, l: l, i: i, s: r.Steps[i]}
	if stop, ok := d.calledOff(); ok {
		return stop
	}
	switch d.s.Kind {
	case plan.Preflight:
		return d.preflight()
	case plan.Maintenance:
		return d.maintenance()
	case plan.Flash:
		return d.flash()
	case plan.Activate:
		return d.activate()
	case plan.Reboot:
		return d.reboot()
	case plan.Verify:
		return d.verify()
	case plan.Health:
		return d.health()
	case plan.Release:
		return d.release()
	}
	return d.fail(TimedOut, "unknown step %q", d.s.Kind)
}

type decider struct {
	r Record
	f Facts
	l Limits
	i int
	s Step
}

// calledOff stops a job that has written nothing when a person or its deadline says so.
func (d decider) calledOff() (Action, bool) {
	if d.r.Failure != nil || d.r.Wrote() || d.s.Kind == plan.Verify || d.s.Kind == plan.Health || d.s.Kind == plan.Release {
		return Action{}, false
	}
	var a Action
	switch {
	case d.f.Cancel != nil:
		a = d.fail(Cancelled, "cancelled before the first write: %s", *d.f.Cancel)
	case !d.f.Expired:
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

func (d decider) preflight() Action {
	switch ret := d.s.Returned; {
	case d.fresh():
		return d.begin()
	case ret == nil || ret.Again:
		return d.poll("")
	case ret.Failure != nil:
		a := d.fail(ret.Failure.Reason, "%s", ret.Failure.Message)
		a.Failure.Device = ret.Failure.Device
		return a
	}
	return d.succeed("every image fits its device")
}

func (d decider) maintenance() Action {
	if d.s.State == Pending && !d.r.Inherited && d.nothingToDo() {
		return d.skip("every device already runs its target")
	}
	switch {
	case d.fresh():
		return d.begin()
	case d.f.Maintenance == MaintenanceReady:
		return d.succeed("the node is out of service")
	}
	return d.poll(d.f.MaintenanceMessage)
}

func (d decider) nothingToDo() bool {
	for _, u := range d.r.Updates {
		if dev, ok := d.f.Devices[u.Device]; !ok || dev.WriteRunning || !dev.settled(u.Version) {
			return false
		}
	}
	return true
}

func (d decider) flash() Action {
	dev, want := d.f.Devices[d.s.Device], d.r.update(d.s.Device).Version
	switch {
	case dev.WriteRunning:
		return d.await("a write to the device is still running; it is never killed")
	case d.s.State == Pending:
		return d.firstFlash(dev, want)
	case !dev.answers():
		return d.patience(VerifyFailed, "after the write, "+dev.complaint())
	case dev.holds() == want:
		return d.stored(dev, want)
	}
	return d.notStored(dev, want)
}

func (d decider) firstFlash(dev Device, want inventory.Version) Action {
	switch {
	case dev.Missing:
		return d.fail(DeviceChanged, "%s; nothing was written to it", dev.complaint())
	case dev.Unreadable != "":
		return d.patience(ReadFailed, dev.complaint())
	case dev.settled(want):
		return d.skip("the device already runs " + string(want))
	case dev.Stored == want:
		a := d.skip(string(want) + " is stored already and only activated")
		a.Needs = dev.Activation
		return a
	}
	return d.write()
}

// stored: the device says it holds the target, whatever the tool said.
func (d decider) stored(dev Device, want inventory.Version) Action {
	a := d.succeed(string(want) + " is stored")
	switch ret := d.s.Returned; {
	case ret != nil && ret.Failure == nil:
		a.Needs = ret.Needs
	case dev.Running != want:
		a.Needs = dev.Activation
	}
	if ret := d.s.Returned; ret != nil && ret.Failure != nil {
		a.Message += ", though the tool failed: " + ret.Failure.Message
	}
	return a
}

// notStored: the device holds something else, or cannot say what it holds.
func (d decider) notStored(dev Device, want inventory.Version) Action {
	ret := d.s.Returned
	switch {
	case ret == nil && d.s.Attempt < maxWrites:
		return d.write()
	case ret == nil:
		return d.fail(WriteFailed, "the write of %s was interrupted twice and the device holds %s", want, dev.holds())
	case ret.Failure != nil:
		return d.fail(ret.Failure.Reason, "%s", ret.Failure.Message)
	case dev.Stored == "" && ret.Needs != inventory.ActivateNone:
		a := d.succeed("the tool wrote " + string(want) + "; the device tells after its activation")
		a.Needs = ret.Needs
		return a
	}
	return d.fail(VerifyFailed, "the tool reported success but the device holds %s instead of %s%s", dev.holds(), want, dev.refusal())
}

func (d decider) activate() Action {
	u, dev := d.r.update(d.s.Device), d.f.Devices[d.s.Device]
	switch {
	case dev.WriteRunning:
		return d.await("a write to the device is still running; it is never killed")
	case u.Needs == inventory.ActivateNone:
		return d.skip("nothing to activate")
	case u.Needs == inventory.ActivateReboot:
		a := d.skip("the reboot activates it")
		a.Needs = u.Needs
		return a
	case u.Needs == inventory.ActivatePowerCycle:
		return d.fail(PowerCycleRequired, "%s is stored but runs only after a power-cycle; power-cycle the node, then retry", u.Version)
	case d.s.State == Pending && dev.settled(u.Version):
		return d.skip(string(u.Version) + " runs already")
	case d.s.State == Pending && !dev.answers():
		return d.patience(ActivationFailed, dev.complaint())
	case d.s.State == Pending:
		return d.write()
	}
	return d.activated(dev, *u)
}

func (d decider) activated(dev Device, u Update) Action {
	switch ret := d.s.Returned; {
	case ret != nil && ret.Failure == nil && ret.Needs == inventory.ActivatePowerCycle:
		return d.fail(PowerCycleRequired, "%s is stored but runs only after a power-cycle; power-cycle the node, then retry", u.Version)
	case ret != nil && ret.Failure == nil:
		a := d.succeed("activated")
		if a.Needs = ret.Needs; ret.Needs != inventory.ActivateNone {
			a.Message = "the device asks for a stronger activation: " + ret.Needs.String()
		}
		return a
	case dev.settled(u.Version):
		return d.succeed(string(u.Version) + " runs")
	case !dev.answers():
		return d.patience(ActivationFailed, "after the activation, "+dev.complaint())
	case ret != nil:
		return d.fail(ActivationFailed, "%s is stored but was not activated: %s", u.Version, ret.Failure.Message)
	case d.s.Attempt < maxWrites:
		return d.write()
	}
	return d.fail(ActivationFailed, "the activation of %s was interrupted twice and %s still runs", u.Version, dev.Running)
}

func (d decider) reboot() Action {
	switch ret := d.s.Returned; {
	case d.s.State == Pending && !d.rebootNeeded():
		return d.skip("nothing needs a reboot")
	case d.s.State == Pending && d.writing():
		return d.await("a write to a device is still running; the host is not rebooted under it")
	case d.s.State == Pending:
		return d.write()
	case d.f.BootID != d.s.BootID:
		return d.succeed("the host runs under a new boot id")
	case ret != nil && ret.Failure != nil:
		return d.fail(RebootFailed, "the reboot could not be requested: %s", ret.Failure.Message)
	case ret == nil && d.s.Attempt < maxWrites && d.f.Interrupted:
		return d.write()
	case d.f.Waited < d.l.Reboot:
		return d.await("waiting for the host to reboot")
	}
	return d.fail(RebootFailed, "the host did not reboot within %s: its boot id is unchanged", d.l.Reboot)
}

func (d decider) writing() bool {
	for _, dev := range d.f.Devices {
		if dev.WriteRunning {
			return true
		}
	}
	return false
}

// rebootNeeded reports whether an image waits for a reboot that has not happened since it was stored.
func (d decider) rebootNeeded() bool {
	for _, u := range d.r.Updates {
		if u.Needs != inventory.ActivateReboot {
			continue
		}
		dev := d.f.Devices[u.Device]
		rebooted := d.r.flashOf(u.Device).BootID != d.f.BootID
		if !rebooted || dev.WriteRunning || !dev.answers() || dev.Running != u.Version && dev.holds() == u.Version {
			return true
		}
	}
	return false
}

func (d decider) verify() Action {
	dev, want := d.f.Devices[d.s.Device], d.r.update(d.s.Device).Version
	switch {
	case d.fresh():
		return d.begin()
	case dev.WriteRunning:
		return d.await("a write to the device is still running; it is never killed")
	case !dev.answers():
		return d.patience(VerifyFailed, dev.complaint())
	case dev.Running == want:
		return d.succeed("the device runs " + string(want))
	}
	return d.fail(VerifyFailed, "the device runs %s instead of %s%s", dev.Running, want, dev.refusal())
}

func (d Device) refusal() string {
	if d.Refusal == "" {
		return ""
	}
	return ": " + d.Refusal
}

func (d decider) health() Action {
	switch {
	case d.fresh():
		return d.begin()
	case !d.f.HealthKnown:
		return d.await("the health of the host cannot be judged: " + d.f.HealthMessage)
	case len(d.f.Unhealthy) == 0:
		return d.succeed("the host is as healthy as before")
	case d.f.Waited < d.l.Health:
		return d.await("not yet as healthy as before: " + strings.Join(d.f.Unhealthy, "; "))
	}
	return d.fail(Unhealthy, "%s", strings.Join(d.f.Unhealthy, "; "))
}

func (d decider) release() Action {
	switch {
	case !d.r.began(plan.Maintenance) && !d.r.Inherited:
		return d.skip("the node was never out of service")
	case d.fresh():
		return d.begin()
	case d.f.Maintenance == MaintenanceNone || d.f.Maintenance == MaintenanceNotInstalled:
		return d.succeed("the node is back in service")
	}
	return d.poll(d.f.MaintenanceMessage)
}

// fresh reports whether this process has not begun the step yet.
func (d decider) fresh() bool { return d.s.State == Pending || d.f.Interrupted }

// write begins an attempt of a step that writes, if the maintenance allows it. The first write of a job needs a
// maintenance that is known to be ready; once something was written, the job goes on while the API server is away.
func (d decider) write() Action {
	lost := func(format string, args ...any) Action {
		a := d.fail(MaintenanceLost, format, args...)
		a.Failure.Held = d.r.Wrote() || d.r.Inherited
		return a
	}
	taken := d.r.step(plan.Maintenance)
	switch {
	case taken == nil || taken.State != Succeeded:
		return lost("the node is not in maintenance; the device changed after it was looked at, so nothing was written")
	case d.f.Maintenance == MaintenanceReady:
		return d.begin()
	case d.f.Maintenance == MaintenanceUnknown && d.r.Wrote():
		return d.begin()
	case d.f.Maintenance == MaintenanceUnknown:
		return d.await("it cannot be found out whether the node is still in maintenance")
	case d.f.Maintenance == MaintenanceRequested && d.f.Waited < d.l.Maintenance:
		return d.await("the maintenance is not ready any more: " + d.f.MaintenanceMessage)
	}
	return lost("the maintenance was taken away before the step %s: %s", d.s.Kind, d.f.MaintenanceMessage)
}

// patience waits for a device that does not answer, then fails.
func (d decider) patience(r Reason, complaint string) Action {
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
	a := d.settle(StepFault, fmt.Sprintf(format, args...))
	a.Failure = &Failure{Reason: r, Message: a.Message, Step: d.s.Kind, Device: d.s.Device, Held: d.r.InMaintenance()}
	return a
}
