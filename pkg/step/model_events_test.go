package step_test

import (
	"time"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// tick draws the events that happen without the process, such as reboots, ends of writes and changes of the maintenance.
func (w *world) tick() {
	w.now += time.Second
	for _, d := range w.devices {
		if d.until > 0 && w.now >= d.until {
			w.end(d)
		}
	}
	if w.maint == step.MaintenanceRequested && w.chance(2) {
		w.maint = step.MaintenanceReady
	}
	if w.rebootRequested || w.chance(80) {
		if w.rebootRequested {
			w.reboots++
		}
		w.restart()
	}
	w.apiAway = w.chance(5)
	switch {
	case w.chance(150) && !w.apiAway && w.maint == step.MaintenanceReady:
		w.maint, w.stolen = step.MaintenanceNone, true
		w.note("somebody takes the maintenance away")
	case w.chance(300) && w.cancel == nil:
		reason := "wrong night"
		w.cancel = &reason
		w.note("a person cancels the job")
	case w.chance(100):
		w.stepped += w.between(-24*time.Hour, 24*time.Hour)
		w.note("the clock is stepped to %s", w.wall())
	case w.chance(300):
		w.unwell = !w.unwell
		w.note("the host is unwell: %t", w.unwell)
	case w.chance(400):
		d := w.devices[w.random.IntN(len(w.devices))]
		d.gone = true
		w.note("%s is unplugged", d.name)
	}
}

// restart reboots the host, which interrupts a running write.
func (w *world) restart() {
	w.rebootRequested = false
	w.die()
	for _, d := range w.devices {
		if d.until > 0 {
			d.tears = w.chance(2)
			if d.tears || w.chance(2) {
				w.end(d)
			}
			d.until = 0
		}
		d.reboot()
	}
	w.boot++
	w.boots.next(w)
	w.now += w.between(time.Minute, 40*time.Minute)
	w.bootedAt = w.now - w.between(0, 34*time.Minute)
	w.note("the host has rebooted")
}

func (d *device) reboot() {
	if d.kind > inventory.ActivateReboot && !d.needsMore {
		return
	}
	if d.refuses && d.stored == target {
		d.stored, d.taken = d.running, 0 // what it took before is not there any more
	}
	if d.late && d.stored == target {
		d.late = false
		return
	}
	d.run()
}

func (d *device) run() {
	d.running = d.stored
	d.torn = d.torn || d.running == garbage
}

// end is the end of a write that no process follows.
func (w *world) end(d *device) {
	d.until = 0
	if d.tears {
		w.note("the write to %s is torn", d.name)
		d.tears = false
		d.store(garbage, w.boot)
		return
	}
	w.take(d)
}

func (d *device) store(v inventory.Version, boot int) {
	d.stored, d.flashedUnder, d.torn = v, boot, v == garbage
	if d.kind == inventory.ActivateNone {
		d.run()
	}
}

// take is the end of a write that succeeds.
func (w *world) take(d *device) {
	if d.writing == target && (d.lies || d.fails) {
		return
	}
	if d.writing == target {
		d.taken++
	}
	d.store(d.writing, w.boot)
}

// act carries out a step that begins or is polled.
func (w *world) act(r step.Record, s step.Step) *step.Returned {
	if s.Writes() {
		w.judgeWrite(r, s)
		w.operations++
	}
	switch s.Kind {
	case plan.Preflight:
		return w.preflight(s)
	case plan.Maintenance:
		if w.maint == step.MaintenanceNone && !w.apiAway && !w.notInstalled {
			w.maint, w.maintenances = step.MaintenanceRequested, w.maintenances+1
		}
	case plan.Release:
		w.judgeRelease(r)
		if !w.apiAway {
			w.maint = step.MaintenanceNone
		}
	case plan.Reboot:
		w.requests++
		w.rebootRequested = !w.ignoresReboot
		return &step.Returned{}
	case plan.Archive:
		return w.archive(r, s)
	case plan.Flash, plan.Restore:
		return w.write(r, s)
	case plan.Activate:
		return w.activate(s)
	}
	return nil
}

func failure(s step.Step, r step.Reason) *step.Returned {
	return &step.Returned{Failure: &step.Failure{Reason: r, Message: "the tool failed", Step: s.Kind, Device: s.Device}}
}

func (w *world) preflight(s step.Step) *step.Returned {
	if w.chance(4) {
		ret := failure(s, step.ImageUnavailable)
		ret.Again = true
		return ret
	}
	for _, d := range w.devices {
		if d.dead() {
			ret := failure(s, step.ReadFailed)
			ret.Again, ret.Failure.Device = true, d.name
			return ret
		}
	}
	ret := &step.Returned{Drivers: map[string]step.Driver{}}
	for _, d := range w.devices {
		ret.Drivers[d.name] = step.Driver{Name: "sim", Version: w.driverVersion()}
	}
	return ret
}

func (w *world) archive(r step.Record, s step.Step) *step.Returned {
	d := w.device(s.Device)
	switch {
	case d.gone || d.dead():
		return failure(s, step.ArchiveFailed)
	case w.chance(60):
		return failure(s, step.ArchiveFailed)
	}
	if !r.Touched(d.name) {
		d.original = d.running
	}
	if d.back != inventory.RollbackNone {
		d.archived = d.running
	}
	return &step.Returned{From: d.running, Rollback: d.back, RollbackMessage: "declared so"}
}

func (w *world) write(r step.Record, s step.Step) *step.Returned {
	d := w.device(s.Device)
	w.note("%s begins, attempt %d", name(s), s.Attempt)
	if d.gone || d.dead() {
		return failure(s, step.WriteFailed)
	}
	if d.writing = target; s.Kind == plan.Restore {
		d.writing = r.Target(s.Device, true)
		d.restores++
	} else {
		d.writes++
	}
	if w.chance(8) {
		d.until, d.tears = w.now+w.between(time.Minute, 20*time.Minute), w.chance(3)
		w.note("the process dies during the write")
		w.die()
		return nil
	}
	w.now += w.between(time.Second, 10*time.Minute)
	w.take(d)
	if s.Kind == plan.Flash && d.fails {
		return failure(s, step.WriteFailed)
	}
	if w.chance(40) {
		return failure(s, step.WriteFailed) // though it took it
	}
	return &step.Returned{Needs: d.kind}
}

func (w *world) activate(s step.Step) *step.Returned {
	d := w.device(s.Device)
	if d.needsMore {
		d.kind = inventory.ActivateReboot
		return &step.Returned{Needs: inventory.ActivateReboot}
	}
	if w.chance(40) {
		return failure(s, step.ActivationFailed)
	}
	d.run()
	return &step.Returned{}
}

func (w *world) driverVersion() string { return string(rune('0' + w.driver%10)) }
