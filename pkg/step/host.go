package step

import (
	"cmp"
	"slices"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
)

func (d decider) preflight() Action {
	switch ret := d.s.Returned; {
	case d.fresh():
		return d.begin()
	case d.lost():
		a := d.fail(ReadFailed, "%s", ret.Failure.Message)
		if a.Failure.Device = ret.Failure.Device; slices.Contains(named(d.r.changed()), ret.Failure.Device) {
			a.Failure.Blames = []string{ret.Failure.Device}
		}
		return a
	case ret == nil || ret.Again:
		return d.poll("")
	case ret.Failure != nil:
		a := d.fail(ret.Failure.Reason, "%s", ret.Failure.Message)
		a.Failure.Device, a.Failure.Settings = ret.Failure.Device, ret.Failure.Settings
		return a
	}
	if !slices.ContainsFunc(d.r.Updates, func(u Update) bool { return u.Version != "" }) && slices.ContainsFunc(d.r.Updates, func(u Update) bool { return u.Settings }) {
		return d.succeed("every setting fits its device")
	}
	return d.succeed("every image fits its device")
}

// lost reports whether a device that was changed before the list was restarted has not answered for too long. The job's
// deadline no longer ends that wait.
func (d decider) lost() bool {
	ret := d.s.Returned
	silent := ret != nil && ret.Again && (ret.Failure.Reason == ReadFailed || ret.Failure.Reason == HardwareChanged)
	return silent && d.r.Touched(ret.Failure.Device) && d.f.Waited >= d.l.Read
}

func (d decider) maintenance() Action {
	mayStay := d.s.State == Pending && !d.r.Inherited && !d.r.UnderHold && !slices.ContainsFunc(d.r.Steps, Step.outOfService)
	if mayStay && d.nothingToDo() {
		return d.skip("every device already runs its target")
	}
	if mayStay && d.quiet() {
		a := d.skip("what is changed needs no activation and disturbs nothing: the node stays in service")
		a.InService = true
		return a
	}
	switch {
	case d.fresh():
		return d.begin()
	case d.f.Maintenance == MaintenanceReady:
		return d.succeed(cmp.Or(d.f.MaintenanceMessage, "the node is out of service"))
	}
	return d.poll(d.f.MaintenanceMessage)
}

// quiet reports whether all that is to be done is settings that come into force at once and disturb nothing.
func (d decider) quiet() bool {
	for _, u := range d.r.Updates {
		dev := d.f.Devices[u.Device]
		has := dev.Settings
		if u.Version != "" || !dev.answers() || dev.WriteRunning || has.Unread != "" || !has.Quiet || has.Used != "" || has.DoubtedNeed != inventory.ActivateNone {
			return false
		}
	}
	return true
}

func (d decider) nothingToDo() bool {
	for _, u := range d.r.Updates {
		dev, ok := d.f.Devices[u.Device]
		if !ok || dev.WriteRunning || u.Version != "" && !dev.settled(u.Version) || u.Settings && !dev.configured() {
			return false
		}
	}
	return true
}

func (d decider) reboot() Action {
	switch ret := d.s.Returned; {
	case d.s.State == Pending && !d.rebootNeeded():
		return d.skip("nothing needs a reboot")
	case (d.s.State == Pending || d.refused()) && d.writing():
		return d.await("a write to a device is still running; the host is not rebooted under it")
	case d.s.State == Pending && d.r.rebootAttempts() >= d.r.mostReboots():
		return d.fail(RebootFailed, "the job has already requested %d reboots", d.r.mostReboots())
	case d.s.State == Pending:
		return d.write()
	case d.f.BootID != d.s.BootID && d.f.Kexec && d.r.rebootAttempts() < d.r.mostReboots():
		return d.write()
	case d.f.BootID != d.s.BootID && d.f.Kexec:
		return d.fail(RebootFailed, "the host starts its kernels by kexec, which resets no hardware: the job requested %d reboots, and its devices were "+
			"not reset since their firmware was written. Run kexec -u on the node, turn off what loads the kernel (systemctl disable kexec-load), and reboot it", d.r.mostReboots())
	case d.f.BootID != d.s.BootID:
		return d.succeed("the host runs under a new boot id")
	case d.refused() && d.f.Waited < d.l.Reboot:
		return d.inMaintenance(d.poll("the host refuses to reboot, and is asked again: " + ret.Failure.Message))
	case d.refused():
		return d.fail(RebootFailed, "the host refused to reboot for %s: %s; if something keeps it from shutting down, systemd-inhibit --list on the "+
			"node names it", d.l.Reboot, ret.Failure.Message)
	case ret == nil && d.s.Attempt < d.attempts() && d.r.rebootAttempts() < d.r.mostReboots() && d.f.Interrupted:
		return d.write()
	case d.f.Waited < d.l.Reboot:
		return d.await("waiting for the host to reboot")
	}
	return d.fail(RebootFailed, "the host did not reboot within %s: its boot id is unchanged", d.l.Reboot)
}

// refused reports whether the host runs on because it refused the reboot.
func (d decider) refused() bool { return refused(d.s) && d.f.BootID == d.s.BootID }

func refused(s Step) bool { return s.Returned != nil && s.Returned.Failure != nil }

func (d decider) writing() bool {
	for _, dev := range d.f.Devices {
		if dev.WriteRunning {
			return true
		}
	}
	return false
}

// rebootNeeded reports whether a stored image waits for a reboot that has not happened yet.
func (d decider) rebootNeeded() bool {
	if d.r.RebootFor == d.f.BootID {
		return true
	}
	for _, u := range d.r.Updates {
		told := d.r.configureOf(u.Device, d.s.Rollback)
		if told != nil && u.Needs == inventory.ActivateReboot && (told.BootID == d.f.BootID || d.f.Kexec) {
			return true
		}
		wrote := d.r.writeOf(u.Device, d.s.Rollback)
		if u.Needs != inventory.ActivateReboot || wrote == nil {
			continue
		}
		dev, want := d.f.Devices[u.Device], d.r.Target(u.Device, d.s.Rollback)
		rebooted := wrote.BootID != d.f.BootID && !d.f.Kexec
		if !rebooted || dev.WriteRunning || !dev.answers() || dev.Running != want && dev.holds() == want {
			return true
		}
	}
	return false
}

func (d decider) release() Action {
	switch {
	case !d.r.began(plan.Maintenance) && !d.r.Inherited:
		return d.skip("the node was never out of service")
	case d.s.State == Running && d.fresh() && d.f.Maintenance == MaintenanceUnknown && d.r.verdictVoid(d.f.BootID):
		return d.await("the host has rebooted since it was found healthy, and it is not known whether the node was already returned to service")
	case d.fresh() && !d.returned() && d.r.verdictVoid(d.f.BootID):
		return Action{Verb: RepeatGate, Step: -1, Message: "the host has rebooted since it was found healthy"}
	case d.fresh():
		return d.begin()
	case d.f.Maintenance == MaintenanceNone || d.f.Maintenance == MaintenanceNotInstalled:
		return d.succeed(cmp.Or(d.f.MaintenanceMessage, "the node is back in service"))
	}
	return d.poll(d.f.MaintenanceMessage)
}

// returned reports whether the node is known to be returning to service.
func (d decider) returned() bool {
	return d.f.Maintenance == MaintenanceNone || d.f.Maintenance == MaintenanceEnding || d.f.Maintenance == MaintenanceNotInstalled
}

// task is a step that is not part of every update. It is run again after an interruption, so repeating it must be
// harmless.
func (d decider) task() Action {
	begin := d.begin
	switch {
	case d.notAgain(), d.untold():
		begin = d.endRounds
	case d.s.outOfService() && !d.s.Followed(): // to look at a drive takes no maintenance
		begin = d.write
	}
	dev, ret := d.f.Devices[d.s.Device], d.s.Returned
	mayTell := d.s.Kind == plan.Erase && !d.s.Lasting && len(d.s.Data) > 0
	switch {
	case mayTell && d.f.Cancel == nil && d.f.Unasked && (d.fresh() || ret != nil && ret.Again):
		return d.await("it is not known yet whether the job was cancelled meanwhile, so the drive is not told to erase itself")
	case mayTell && d.f.Cancel == nil && d.f.Maintenance == MaintenanceUnknown && (d.fresh() || ret != nil && ret.Again):
		return d.await("it is not known whether the node is still out of service, so the drive is not told to erase itself")
	case d.s.Device != "" && dev.WriteRunning:
		return d.await(dev.busy())
	case d.fresh() && d.s.interrupted() && d.s.Interruptions >= MaxInterruptions:
		return d.fail(AttemptsExhausted, "the step was interrupted %d times, each time because the daemon or the host went down; "+
			"check the daemon's log and the host, then request the step again", d.s.Interruptions+1)
	case d.fresh():
		return begin()
	case ret == nil && (d.s.Lasting || mayTell) && d.notAgain(): // it is only followed, or asked whether it has begun
		return d.endRounds()
	case ret == nil:
		return d.poll("")
	case ret.Failure != nil:
		return d.fail(ret.Failure.Reason, "%s", ret.Failure.Message)
	case ret.Again && d.s.Attempt >= MaxTaskAttempts:
		return d.fail(StepFailed, "the step is not done after %d rounds", d.s.Attempt)
	case ret.Again:
		return begin()
	case d.s.OutOfService: // what it found says nothing where the node came back meanwhile
		return d.inMaintenance(d.succeed(ret.Message))
	}
	return d.succeed(ret.Message)
}
