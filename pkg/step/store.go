package step

import (
	"cmp"
	"fmt"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// archive records whether the running firmware of the device can be restored.
func (d decider) archive() Action {
	dev, u := d.f.Devices[d.s.Device], d.r.update(d.s.Device)
	ret := d.s.Returned
	switch {
	case dev.WriteRunning:
		return d.await("a write to the device is still running; the device is read when it ends")
	case d.s.State == Pending && u.From != "" && d.r.Touched(d.s.Device):
		return d.skip("the firmware to roll back to is already known: " + string(u.From))
	case d.s.State == Pending && dev.runsNothingBut(u.Version):
		return d.skip("the device already runs " + string(u.Version))
	case d.fresh():
		return d.begin()
	case ret == nil || ret.Again:
		return d.poll("")
	case ret.Failure != nil:
		return d.fail(ret.Failure.Reason, "%s", ret.Failure.Message)
	case ret.Rollback == inventory.RollbackNone && d.r.RollbackRequired:
		return d.fail(RollbackUnavailable, "the running firmware could not be restored, and the rollout policy requires that it can be: %s", ret.RollbackMessage)
	case ret.Rollback == inventory.RollbackNone:
		return d.succeed("the running firmware cannot be restored: " + ret.RollbackMessage)
	}
	return d.succeed(fmt.Sprintf("%s can be restored (%s)", ret.From, ret.Rollback))
}

func (d decider) flash() Action {
	dev, want := d.f.Devices[d.s.Device], d.want()
	switch {
	case dev.WriteRunning:
		return d.await(dev.busy())
	case d.isUsed():
		return d.used()
	case d.s.State == Pending:
		return d.firstFlash(dev, want)
	case !dev.answers():
		return d.awaitAnswer(VerifyFailed, "after the write, "+dev.complaint())
	case dev.holds() == want && (!d.blind(dev) || d.s.Returned != nil && d.s.Returned.Failure == nil):
		return d.stored(dev, want)
	}
	return d.notStored(dev, want)
}

// blind reports whether the device cannot report if the image to be replaced still waits in it for an activation.
func (d decider) blind(dev Device) bool { return d.s.Rollback && d.r.mayHide(d.s.Device, dev) }

func (d decider) firstFlash(dev Device, want inventory.Version) Action {
	switch {
	case dev.Missing:
		return d.fail(HardwareChanged, "%s; nothing was written to it", dev.complaint())
	case dev.Unreadable != "":
		return d.awaitAnswer(ReadFailed, dev.complaint())
	case dev.settled(want) && !d.blind(dev):
		return d.skip("the device already runs " + string(want))
	case dev.Stored == want:
		a := d.skip(string(want) + " is already stored and only needs its activation")
		a.Needs = dev.Activation
		return a
	}
	return d.disturb(dev)
}

// disturb begins an attempt of a step that writes to the device, once that may be disturbed.
func (d decider) disturb(dev Device) Action {
	if dev.Hold != "" {
		return d.await("the device is not touched while " + dev.Hold + "; repair it, and the job continues automatically")
	}
	return d.write()
}

// stored: the device reports that it holds the target, whatever the tool reported.
func (d decider) stored(dev Device, want inventory.Version) Action {
	a := d.succeed(string(want) + " is stored")
	switch ret := d.s.Returned; {
	case d.s.Rollback && dev.Running == want: // it runs, and nothing else waits for activation now
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

// notStored: the device holds something else, or does not report what it holds.
func (d decider) notStored(dev Device, want inventory.Version) Action {
	ret := d.s.Returned
	switch {
	case ret == nil && d.s.Attempt < MaxAttempts:
		return d.disturb(dev)
	case ret == nil:
		return d.fail(WriteFailed, "the write of %s was interrupted twice and the device holds %s", want, dev.holds())
	case ret.Failure != nil:
		return d.fail(ret.Failure.Reason, "%s", ret.Failure.Message)
	case dev.Stored == "" && ret.Needs != inventory.ActivateNone:
		a := d.succeed("the tool wrote " + string(want) + "; the device reports it only after its activation")
		a.Needs = ret.Needs
		return a
	}
	return d.fail(VerifyFailed, "the tool reported success but the device holds %s instead of %s%s", dev.holds(), want, dev.refusal())
}

func (d decider) activate() Action {
	needs, dev, want := d.r.update(d.s.Device).Needs, d.f.Devices[d.s.Device], d.want()
	switch {
	case dev.WriteRunning:
		return d.await(dev.busy())
	case needs == inventory.ActivateNone:
		return d.skip("nothing to activate")
	case needs == inventory.ActivateReboot:
		a := d.skip(because("the reboot activates it", dev.ActivationMessage))
		a.Needs = needs
		return a
	case needs == inventory.ActivatePowerCycle:
		return d.fail(PowerCycleRequired, "the device was not activated: %s", powerCycle(d.target()))
	case d.s.State == Pending && d.active(dev, want):
		return d.skip(d.arrived() + " already")
	case d.s.State == Pending && !dev.answers():
		return d.blame(d.awaitAnswer(ActivationFailed, dev.complaint()))
	case d.s.State == Pending:
		return d.disturb(dev)
	}
	return d.blame(d.activated(dev, want))
}

func (d decider) activated(dev Device, want inventory.Version) Action {
	switch ret := d.s.Returned; {
	case ret != nil && ret.Failure == nil && ret.Needs == inventory.ActivatePowerCycle:
		return d.fail(PowerCycleRequired, "the device was not activated: %s", powerCycle(d.target()))
	case ret != nil && ret.Failure == nil:
		a := d.succeed("activated")
		if a.Needs = ret.Needs; ret.Needs != inventory.ActivateNone {
			a.Message = because("the device needs a more disruptive activation: "+ret.Needs.String(), cmp.Or(ret.Message, dev.ActivationMessage))
		}
		return a
	case d.active(dev, want):
		return d.succeed(d.arrived())
	case !dev.answers():
		return d.awaitAnswer(ActivationFailed, "after the activation, "+dev.complaint())
	case ret != nil:
		return d.fail(ActivationFailed, "%s is stored but was not activated: %s", d.target(), ret.Failure.Message)
	case d.s.Attempt < d.attempts():
		return d.disturb(dev)
	}
	if want == "" || dev.Running == want {
		return d.fail(ActivationFailed, "the activation of its settings was interrupted twice")
	}
	return d.fail(ActivationFailed, "the activation of %s was interrupted twice and %s still runs", want, dev.Running)
}

// active reports whether the version, if the device was to get one, runs, and all settings that it stores are known to be in force.
func (d decider) active(dev Device, want inventory.Version) bool {
	return (want == "" || dev.settled(want)) && (!d.r.update(d.s.Device).Settings || dev.enforced())
}

// target names what the device of the step gets, for people.
func (d decider) target() string { return cmp.Or(string(d.want()), "its new settings") }

// arrived says that the device of the step has what it gets, for people.
func (d decider) arrived() string {
	if want := d.want(); want != "" {
		return string(want) + " runs"
	}
	return "its settings are in force"
}

// because adds a reason to a message, if there is one.
func because(message, reason string) string {
	if reason == "" {
		return message
	}
	return message + ", because " + reason
}

// blame records which devices may be at fault when an activation failed: nothing has been verified at that point, so every
// device that was written may be.
func (d decider) blame(a Action) Action {
	if a.Failure != nil && a.Failure.Reason == ActivationFailed && !d.s.Rollback {
		a.Failure.Blames = named(d.r.changed())
	}
	return a
}
