package chaos

import (
	"slices"
	"strconv"
	"time"

	"github.com/nodefirmware/node-firmware-operator/internal/node/engine"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
	"github.com/nodefirmware/node-firmware-operator/pkg/sysfs"
)

// strike injects a fault at a boundary.
func (w *world) strike(f Fault, o Op) {
	if f.Kind != KillDaemon { // no excuse for a node that waits
		w.disturbed(0)
	}
	w.note(Event{Kind: EventFault, Device: o.Device, Fault: f.Kind, Detail: f.String() + ", " + o.String()})
	lasts := []time.Duration{shortFault, longFault}[f.Arg%2]
	switch f.Kind {
	case KillDaemon, KillBoth, Upgrade, Reboot, PowerCut:
		panic(death{f})
	case Stop:
		w.stopping = true
		w.stop()
	case DiskFull, ReadOnly:
		w.readOnly = f.Kind == ReadOnly
		w.diskBack = w.disturbed(lasts)
	case APIAway:
		w.apiBack = w.disturbed(lasts)
	case APIErrors:
		w.erring = w.now + lasts
		w.calm = max(w.calm, w.erring) // a job may wait for it, but not the node that it cut off
	case ArrayDegrades:
		w.degrade(w.device(o.Device).spec.Set, w.disturbed(lasts))
	case BystanderDies:
		w.dying = true
	case Unwell:
		w.wellAgain = w.disturbed([]time.Duration{time.Minute, time.Hour}[f.Arg%2])
	case ClockStep:
		day := []time.Duration{24 * time.Hour, -24 * time.Hour}[f.Arg%2]
		w.stepped += day
		w.disturbed(max(0, -day)) // the deadline for the first write is a time of day
	case Steal:
		if w.window.phase != step.MaintenanceNone {
			w.window.phase, w.window.stolen = step.MaintenanceNone, true
		}
	case Cancel:
		w.engine.Cancel(w.current, engine.Cancellation{Reason: "wrong night", Force: f.Arg%2 == 1})
	case Swap:
		w.swap(o.Device, f.Arg)
	case Mute:
		d := w.devices[f.Arg%len(w.devices)]
		if o.Device != "" {
			d = w.device(o.Device)
		}
		if d != nil {
			w.mute(d, w.disturbed([]time.Duration{time.Minute, time.Hour}[f.Arg%2]))
		}
	case SlowBoot:
		w.slow = true
	case SlowImage:
		w.drags, w.loader = []int{maxLives, 1, maxLives}[f.Arg%3], f.Arg%3 == 2
	case Kexec:
		if !w.kexec { // a host that did so before the job looks as one whose boot loader does
			w.kexecs = 1 + 2*(f.Arg%2)
		}
	case LatePod:
		w.late = longFault
	case ClockLost:
		w.clock = []time.Duration{24 * time.Hour, -24 * time.Hour, -56 * 365 * 24 * time.Hour}[f.Arg%3]
	case SlowMaintenance:
		w.windowTakes = w.disturbed([]time.Duration{longFault, never}[f.Arg%2]) - w.now
	case LapsedMaintenance:
		w.lapse([]time.Duration{shortFault, never}[f.Arg%2])
	case FetchFails:
		w.imagesBack = w.disturbed(lasts)
	case CheckFails:
		w.checksPass = w.disturbed([]time.Duration{time.Minute, time.Hour}[f.Arg%2])
	default:
		w.pending, w.pendingArg = f.Kind, f.Arg // the operation does it
	}
}

// takePending returns the fault of the running operation, and clears it.
func (w *world) takePending() (kind Kind, arg int) {
	kind, arg = w.pending, w.pendingArg
	w.pending = ""
	return kind, arg
}

// swap puts other hardware in the place of a device.
func (w *world) swap(uniqueID string, arg int) {
	d := w.device(uniqueID)
	if d == nil || d.bystander {
		d = w.devices[arg%(len(w.devices)-1)]
	}
	if d.gone {
		return
	}
	d.gone, d.op = true, nil
	w.sim.Remove(d.id.UniqueID)
	w.plug(d.spec, d.id.UniqueID+"-other", true)
}

// afterDeath applies the further effects of a fault that ended the daemon.
func (w *world) afterDeath(f Fault) {
	switch f.Kind {
	case Reboot:
		w.restartHost(f, false)
	case SlowReboot:
		w.restartHost(f, false)
	case PowerCut:
		w.restartHost(f, true)
	case KillBoth:
		for _, d := range w.devices {
			w.tear(d, f.Arg)
		}
	case Upgrade:
		w.driver++
		w.sim.SetVersion(strconv.Itoa(w.driver))
	default:
	}
	w.leaveWrites()
	w.now += 10 * time.Second
}

// leaveWrites lets the writes that the dead daemon began go on without it.
func (w *world) leaveWrites() {
	for _, d := range w.devices {
		if d.op != nil && !d.op.orphan {
			d.op.orphan, d.op.ends = true, w.now+orphanTime
		}
	}
}

// restartHost reboots the host, by a power cut or a regular shutdown.
func (w *world) restartHost(f Fault, cut bool) {
	for _, d := range w.devices {
		w.tear(d, f.Arg)
	}
	if cut {
		w.cutFiles(f.Arg)
	} else {
		w.syncFiles()
	}
	w.rebootAt = 0
	w.boot++
	took := bootTime
	if w.slow {
		took, w.slow = slowBoot, false
	}
	w.bootedAt, w.bootTime.System = w.now, took
	w.now += took + w.late
	w.stepped += w.clock
	if w.late > 0 || took == slowBoot {
		w.disturbed(0)
	}
	w.late, w.clock = 0, 0
	w.calm = max(w.calm, w.now)
	for _, d := range w.devices {
		w.mute(d, 0)
	}
	if d := w.device(bystanderID); w.dying && !d.gone {
		d.gone = true
		w.sim.Remove(bystanderID)
	}
	w.booted = true
	if w.kexec = w.kexecs > 0 && !cut; w.kexec {
		w.kexecs--
		w.note(Event{Kind: EventBoot, Detail: byKexec})
		return
	}
	w.sim.Reboot()
	w.post()
	w.note(Event{Kind: EventBoot})
}

// post is what the firmware does at a reset, before the kernel starts.
func (w *world) post() {
	w.bootTime.Firmware, w.bootTime.By = postTime, sysfs.ByFirmware
	if w.drags == 0 || !slices.ContainsFunc(w.devices, func(d *device) bool { return !d.gone && w.sim.Firmware(d.id.UniqueID).Running == newVersion }) {
		return
	}
	w.drags--
	w.bootTime.Firmware = slowPost
	if w.loader {
		w.bootTime.By = sysfs.ByLoader
	}
	w.now, w.bootedAt, w.calm = w.now+slowPost, w.bootedAt+slowPost, w.calm+slowPost
}
