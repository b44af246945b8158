package step

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// configure stores settings in the device. Storing them once more is harmless, and what the device says of them decides.
func (d decider) configure() Action {
	dev, ret := d.f.Devices[d.s.Device], d.s.Returned
	begun := d.s.State == Running
	switch {
	case dev.WriteRunning:
		return d.await(dev.busy())
	case !dev.answers():
		return d.unread(begun, dev.complaint())
	case dev.UnreadSettings != "":
		return d.unread(begun, "its settings cannot be read: "+dev.UnreadSettings)
	case !begun && len(dev.Unset) == 0:
		return d.skip("the device has its settings")
	case !begun && len(dev.Unstored) == 0:
		a := d.skip("its settings are stored already and only need their activation")
		a.Needs = dev.SettingsNeed
		return a
	case begun && (len(dev.Unstored) == 0 || ret != nil && ret.Failure == nil && ret.Message != ""):
		return d.told(dev, ret)
	case begun && ret != nil && ret.Failure != nil:
		return d.charge(d.fail(ret.Failure.Reason, "%s", ret.Failure.Message))
	case begun && ret != nil:
		return d.charge(d.fail(VerifyFailed, "the tool reported success, but the device has %s", strings.Join(dev.Unstored, ", ")))
	case begun && d.s.Attempt >= d.attempts():
		return d.charge(d.fail(WriteFailed, "storing its settings was interrupted %d times, and the device has %s", d.s.Attempt,
			strings.Join(dev.Unstored, ", ")))
	}
	return d.disturb(dev)
}

// unread waits for a device that does not say what it has.
func (d decider) unread(begun bool, complaint string) Action {
	if !begun {
		return d.awaitAnswer(ReadFailed, complaint)
	}
	return d.charge(d.awaitAnswer(VerifyFailed, "after its settings were stored, "+complaint))
}

// told ends the step of a device that stores its settings, or all that its running firmware knows, whatever the tool reported.
func (d decider) told(dev Device, ret *Returned) Action {
	a := d.succeed("its settings are stored")
	switch {
	case ret == nil:
		a.Needs = dev.SettingsNeed
	case ret.Failure != nil:
		a.Needs = dev.SettingsNeed
		a.Message += ", though the tool failed: " + ret.Failure.Message
	default:
		a.Needs, a.Message = ret.Needs, cmp.Or(ret.Message, a.Message)
	}
	return a
}

// charge blames the device for a failure after its settings were begun to be changed, so that it gets back what it had.
func (d decider) charge(a Action) Action {
	if a.Failure != nil && !d.s.Rollback && d.r.Touched(d.s.Device) {
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
	told := d.r.configureOf(d.s.Device, d.s.Rollback)
	switch {
	case told == nil:
		return d.succeed(runs)
	case dev.UnreadSettings != "":
		return d.charge(d.awaitAnswer(VerifyFailed, "its settings cannot be read: "+dev.UnreadSettings))
	case len(dev.Unset) == 0 && runs != "":
		return d.succeed(runs + ", and its settings are in force")
	case len(dev.Unset) == 0:
		return d.succeed("its settings are in force")
	case len(dev.Unstored) == 0 && told.BootID != d.f.BootID && d.r.update(d.s.Device).Needs == inventory.ActivateReboot:
		return d.fail(PowerCycleRequired, "after a reboot %s is still in force: the device has stored its settings and takes them only after a power "+
			"cycle. Shut the node down, cut its power for ten seconds (a warm reboot is not enough), start it, then set spec.requests.retry of its "+
			"NodeFirmware to a new value", strings.Join(dev.Unset, ", "))
	case d.mayConfigureAgain():
		return Action{Verb: ConfigureAgain, Step: d.i, Message: "the device has " + strings.Join(dev.Unset, ", ") + "; its settings are stored once more"}
	}
	a := d.fail(VerifyFailed, "the device has %s", strings.Join(dev.Unset, ", "))
	if !d.reconfigured() && d.r.Failure == nil { // nothing says that the device would not take them
		a.Failure.Message = fmt.Sprintf("%s. Its settings could not be stored once more: the job has requested %d reboots, and keeps the last ones for a rollback",
			a.Message, d.r.rebootAttempts())
		a.Message = a.Failure.Message
		return a
	}
	return d.charge(a)
}

// mayConfigureAgain reports whether the settings may be stored once more. Firmware may have reset them when it was activated, or have brought
// the parameter. An update keeps a reboot for its rollback.
func (d decider) mayConfigureAgain() bool {
	if d.s.Rollback {
		return !d.reconfigured() && d.r.rebootAttempts() < d.r.mostReboots()
	}
	return !d.reconfigured() && d.r.Failure == nil && d.r.rebootAttempts() < d.r.updateReboots()
}

// reconfigured reports whether the settings of this part of the job were stored once more.
func (d decider) reconfigured() bool {
	if d.s.Rollback {
		return d.r.Rollback.Reconfigured
	}
	return d.r.Reconfigured
}
