package step

import (
	"cmp"
	"slices"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
)

// configure stores settings in the device. Storing them once more is harmless, and what the device says of them decides.
func (d decider) configure() Action {
	dev, ret := d.f.Devices[d.s.Device], d.s.Returned
	has, begun := dev.Settings, d.s.State == Running
	switch {
	case dev.WriteRunning:
		return d.await(dev.busy())
	case !dev.answers():
		return d.unread(begun, dev.complaint())
	case has.Unread != "":
		return d.unread(begun, "its settings cannot be read: "+has.Unread)
	case !begun && len(has.Unset) == 0:
		a := d.skip("the device has its settings")
		a.Needs = has.DoubtedNeed
		return a
	case !begun && len(has.Unstored) == 0:
		a := d.skip("its settings are stored already and only need their activation")
		a.Needs = max(has.Need, has.DoubtedNeed)
		return a
	case !begun && d.r.InService && (!has.Quiet || has.Used != "") && !d.s.Rollback && d.r.Restarts < MaxRestarts:
		return Action{Verb: Restart, Step: -1, Message: "the settings need a maintenance now"}
	case d.isUsed():
		return d.used()
	case begun && (len(has.Unstored) == 0 || ret.done() && (ret.Message != "" || len(has.Unstored) == has.Unreported)):
		return d.told(has, ret)
	case begun && ret != nil && d.s.BootID != d.f.BootID && d.s.Attempt < d.attempts():
		return d.disturb(dev) // the boot may have taken what was stored
	case begun && ret != nil && ret.Again && d.f.Waited < d.l.Read:
		return d.poll(ret.Failure.Message)
	case begun && ret != nil && ret.Failure != nil:
		return d.charge(d.fail(ret.Failure.Reason, "%s", ret.Failure.Message))
	case begun && ret != nil:
		return d.charge(d.fail(VerifyFailed, "the tool reported success, but the device has %s", strings.Join(has.Unstored, ", ")))
	case begun && d.s.Attempt >= d.attempts():
		return d.charge(d.fail(WriteFailed, "storing its settings was interrupted %d times, and the device has %s", d.s.Attempt,
			strings.Join(has.Unstored, ", ")))
	}
	return d.disturb(dev)
}

// isUsed reports whether a device of a job that has written nothing does not take its settings on a node that is out of service, because
// something still uses it.
func (d decider) isUsed() bool {
	return !d.r.InService && d.r.begins(d.s) && slices.ContainsFunc(d.r.Updates, func(u Update) bool { return d.f.Devices[u.Device].Settings.Used != "" })
}

// used ends the job for that, with nothing written.
func (d decider) used() Action {
	i := slices.IndexFunc(d.r.Updates, func(u Update) bool { return d.f.Devices[u.Device].Settings.Used != "" })
	device := d.r.Updates[i].Device
	a := d.fail(ParameterInvalid, "%s: %s, also now that the node is out of service; nothing was written", device, d.f.Devices[device].Settings.Used)
	a.Failure.Device, a.Failure.Settings, a.Failure.Held = device, true, d.r.Inherited && !d.r.UnderHold
	return a
}

// done reports whether the attempt claims to have succeeded.
func (r *Returned) done() bool { return r != nil && r.Failure == nil }

// unread waits for a device that does not say what it has.
func (d decider) unread(begun bool, complaint string) Action {
	if begun {
		return d.charge(d.awaitAnswer(VerifyFailed, "after its settings were stored, "+complaint))
	}
	return d.charge(d.awaitAnswer(ReadFailed, complaint))
}

// told ends the step of a device that stores its settings, or all that its running firmware knows, whatever the tool reported.
func (d decider) told(has Settings, ret *Returned) Action {
	a := d.succeed("its settings are stored")
	switch {
	case ret == nil:
		a.Needs = has.Need
	case ret.Failure != nil:
		a.Needs = has.Need
		a.Message += ", though the tool failed: " + ret.Failure.Message
	default:
		a.Needs, a.Message = ret.Needs, cmp.Or(ret.Message, a.Message)
	}
	if !ret.done() || d.s.Attempt > 1 { // the tool says only what its last attempt needs
		a.Needs = max(a.Needs, has.Need, has.DoubtedNeed)
	}
	return a
}

// charge blames the device for a failure after the job began to change it, so that it gets back what it had. What is wrong with its settings
// says nothing about its image.
func (d decider) charge(a Action) Action {
	if a.Failure == nil {
		return a
	}
	a.Failure.Settings = true
	if !d.s.Rollback && d.r.Touched(d.s.Device) {
		a.Failure.Blames = []string{d.s.Device}
	}
	return a
}

// readBack judges a device that runs the version, if it was to get one.
func (d decider) readBack(dev Device, want inventory.Version) Action {
	runs := ""
	if want != "" {
		runs = "the device runs " + string(want)
	}
	has, told, u := dev.Settings, d.r.configureOf(d.s.Device, d.s.Rollback), d.r.update(d.s.Device)
	unset := strings.Join(has.Unset, ", ")
	switch {
	case told == nil:
		return d.succeed(runs)
	case has.Unread != "":
		return d.charge(d.awaitAnswer(VerifyFailed, "its settings cannot be read: "+has.Unread))
	case len(has.Unset) == 0 && runs != "":
		return d.succeed(runs + ", and its settings are in force")
	case len(has.Unset) == 0:
		return d.succeed("its settings are in force")
	case len(has.Unstored) == 0 && told.BootID != d.f.BootID && u.Needs == inventory.ActivateReboot:
		a := d.fail(PowerCycleRequired, "after a reboot %s is still in force: the device has stored its settings and takes them only after a power "+
			"cycle. Shut the node down, cut its power for ten seconds (a warm reboot is not enough), start it, then set spec.requests.retry of its "+
			"NodeFirmware to a new value", unset)
		a.Failure.Settings = true
		return a
	case has.Lost && told.BootID != d.f.BootID, d.mayConfigureAgain(*u):
		return Action{Verb: ConfigureAgain, Step: d.i, Message: "the device has " + unset + "; its settings are stored once more"}
	case d.reconfigured(*u) || d.r.Failure != nil:
		return d.charge(d.fail(VerifyFailed, "the device has %s", unset))
	}
	// Nothing says that the device would not take them.
	a := d.fail(VerifyFailed, "the device has %s. Its settings could not be stored once more: the job has requested %d reboots, and keeps the last ones "+
		"for a rollback", unset, d.r.rebootAttempts())
	a.Failure.Settings = true
	return a
}

// mayConfigureAgain reports whether the settings of the device may be stored once more. Firmware may have reset them when it was activated, or
// have brought the parameter. An update keeps its last reboots for its rollback.
func (d decider) mayConfigureAgain(u Update) bool {
	switch {
	case d.reconfigured(u) || !d.s.Rollback && d.r.Failure != nil:
		return false
	case u.Needs < inventory.ActivateReboot:
		return true
	case d.s.Rollback:
		return d.r.rebootAttempts() < d.r.mostReboots()
	}
	return d.r.rebootAttempts() < d.r.updateReboots()
}

// reconfigured reports whether the settings of the device were stored once more in this part of the job.
func (d decider) reconfigured(u Update) bool {
	if d.s.Rollback {
		return u.UndoneAgain
	}
	return u.Reconfigured
}

// rounds is how often settings are stored at most in this part of the job.
func (d decider) rounds() int32 {
	n := int32(1)
	for _, u := range d.r.Updates {
		if d.reconfigured(u) {
			n++
		}
	}
	return n
}

// configureAgain resets the part of the record that the step belongs to, to its settings. What was counted stays, and so does what other
// devices wait for.
func (r *Record) configureAgain(a Action) {
	at := r.Steps[a.Step]
	if u := r.update(at.Device); at.Rollback {
		u.UndoneAgain = true
	} else {
		u.Reconfigured = true
	}
	verified := func(device string) bool {
		return slices.ContainsFunc(r.Steps, func(s Step) bool {
			return s.Kind == plan.Verify && s.Device == device && s.Rollback == at.Rollback && s.State == Succeeded
		})
	}
	for i := range r.Updates {
		if u := &r.Updates[i]; u.Settings && (u.Device == at.Device || verified(u.Device)) {
			u.Needs = inventory.ActivateNone
		}
	}
	for i := range r.Steps {
		if s := &r.Steps[i]; s.Rollback == at.Rollback && r.repeats(*s) {
			if s.Kind == plan.Reboot && s.State == Succeeded {
				r.Rebooted++
			}
			s.State, s.Returned, s.BootID, s.Message = Pending, nil, "", a.Message
		}
	}
}

// repeats reports whether the step is done again where settings are stored once more.
func (r *Record) repeats(s Step) bool {
	switch s.Kind {
	case plan.Configure, plan.Reboot, plan.Verify, plan.Health:
		return true
	case plan.Activate:
		return r.update(s.Device).Settings
	}
	return false
}
