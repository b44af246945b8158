package chaos

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// The versions of the simulated firmware.
const (
	oldVersion inventory.Version = "1.0"
	newVersion inventory.Version = "2.0"
)

// bystanderID is the unique id of a device that no job has.
const bystanderID = "bystander"

// manySlots is how many slots a device has that has as many as needed.
const manySlots = 8

// operation is a tool that changes a device.
type operation struct {
	// apply is what the device is like when the tool succeeds.
	apply func()
	// writes distinguishes a write from an activation: only a write can be torn.
	writes bool
	// orphan operations end by themselves.
	orphan bool
	ends   time.Duration
}

// device is one piece of the simulated hardware, with what the campaign does to it and knows of it.
type device struct {
	spec DeviceSpec
	id   inventory.Identity
	op   *operation
	// answersAt is when a device that is mute answers again; zero for one that is not.
	answersAt time.Duration
	gone      bool
	// bystander devices are none of the job's.
	bystander bool
	// original is the image that ran when the job had archived it, or had found that there is nothing to do, and before its version.
	original []byte
	before   inventory.Version
}

// image is an image for the device that a specification describes.
func (s DeviceSpec) image(v inventory.Version, d drivertest.Defect) []byte {
	return drivertest.BadImageBytes(s.board(), v, d)
}

func (s DeviceSpec) board() string { return "BOARD_" + s.ID }

// target is the image the job brings, and before the one that runs when it begins.
func (s DeviceSpec) target() []byte { return s.image(newVersion, s.Defect) }
func (s DeviceSpec) before() []byte { return s.image(oldVersion, drivertest.DefectNone) }

// plug adds a device to the machine.
func (w *world) plug(s DeviceSpec, uniqueID string, bystander bool) {
	d := &device{spec: s, bystander: bystander, id: inventory.Identity{
		Class: s.Class, UniqueID: uniqueID, BoardID: s.board(), Model: "model", Vendor: "vendor", SerialNumber: serialOf(uniqueID),
	}}
	fw := inventory.Firmware{Running: oldVersion, Activation: s.Activation, Format: inventory.FormatPlain, Rollback: s.Rollback}
	if s.Rollback == inventory.RollbackSlot {
		slots := s.Slots
		if slots == 0 {
			slots = manySlots
		}
		fw.Slots = []inventory.Slot{{Number: 1, Version: oldVersion, State: inventory.SlotActive}}
		for n := 2; n <= slots; n++ {
			fw.Slots = append(fw.Slots, inventory.Slot{Number: n, State: inventory.SlotIdle})
		}
		if slots == 1 {
			fw.Rollback, fw.RollbackMessage = inventory.RollbackNone, "its only slot is overwritten"
		}
	}
	w.sim.Add(d.id, fw)
	for fault, is := range map[drivertest.Fault]bool{
		drivertest.Quiet: s.Quiet, drivertest.NeedReboot: s.NeedsMore, drivertest.RefuseBoot: s.Refuses, drivertest.TwoBoots: s.TwoBoots, drivertest.FlashResets: s.Resets,
	} {
		if is {
			w.sim.Inject(uniqueID, fault)
		}
	}
	if s.Stores && uniqueID == s.ID {
		w.fill(s)
	}
	if s.Setting {
		w.sim.Give(uniqueID, inventory.Parameter{
			Name: settingName, Current: inventory.Read(settingBefore), Default: inventory.Read("0"), Needs: max(s.Activation, inventory.ActivateDeviceReset),
		})
	}
	if s.Unplugs {
		w.sim.Unplugs(uniqueID, inventory.Setting{Name: settingName, Value: settingValue})
	}
	w.devices = append(w.devices, d)
}

// The setting of devices that have one: what it was, and what a job makes it.
const (
	settingName   = "VFS"
	settingBefore = "3"
	settingValue  = "8"
)

// running reports whether a tool changes the device now.
func (d *device) running() bool { return d.op != nil }

// mute makes the device not answer until then; zero for a device that answers.
func (w *world) mute(d *device, until time.Duration) {
	if d.answersAt = until; until == 0 {
		w.sim.Cure(d.id.UniqueID, drivertest.Unreadable)
		return
	}
	w.sim.Inject(d.id.UniqueID, drivertest.Unreadable)
}

// defect of the firmware that the device runs.
func (w *world) defect(d *device) drivertest.Defect {
	_, defect := w.sim.Running(d.id.UniqueID)
	return defect
}

// carries reports whether anything passes through the links of the device.
func (w *world) carries(d *device) bool {
	return !w.sim.LinkDown(d.id.UniqueID) && w.defect(d) != drivertest.DefectNoTraffic
}

// boundaries are those of the operations of the simulated driver.
var boundaries = map[drivertest.OperationKind]string{
	drivertest.OpWrite: opWrite, drivertest.OpRevert: opRevert, drivertest.OpActivate: opActivate, drivertest.OpConfigure: opConfigure,
}

// carryOut is the tool of the simulated driver.
func (w *world) carryOut(ctx context.Context, c drivertest.Change) error {
	d, op := w.device(c.UniqueID), boundaries[c.Kind]
	switch c.Kind {
	case drivertest.OpWrite:
		w.note(Event{Kind: EventWrite, Device: c.UniqueID, Version: c.Version, Digest: c.Digest, Archived: w.archived(d, op)})
	case drivertest.OpConfigure:
		w.note(Event{Kind: EventConfigure, Device: c.UniqueID, Detail: fmt.Sprint(c.Settings)})
	case drivertest.OpActivate:
		w.note(Event{Kind: EventActivate, Device: c.UniqueID, Version: c.Version})
	}
	if d.running() {
		return fmt.Errorf("%s %s: %w", op, c.UniqueID, command.ErrBusy)
	}
	return w.follow(ctx, d, op, c.Progress, &operation{writes: op == opWrite, apply: c.Apply})
}

var errTool = errors.New("exit code 1")

// follow runs a tool that changes a device, to its end or until the daemon stops following it.
func (w *world) follow(ctx context.Context, d *device, op string, progress func(int), o *operation) error {
	d.op = o
	for percent := 0; percent <= 100; percent += 50 {
		if progress != nil {
			progress(percent)
		}
		w.advance(chunkTime)
		w.point(op, Inside, d.id.UniqueID)
		if d.op == nil {
			return fmt.Errorf("%s %s: no such device any more", op, d.id.UniqueID)
		}
		if w.stopping {
			<-ctx.Done()
			w.leaveWrites()
			return fmt.Errorf("%s %s: %w", op, d.id.UniqueID, command.ErrStillRunning)
		}
		if kind, arg := w.takePending(); kind != "" {
			return w.misbehave(d, op, kind, arg)
		}
	}
	w.finish(d)
	w.point(op, After, d.id.UniqueID)
	return nil
}

// misbehave ends a tool with the pending fault.
func (w *world) misbehave(d *device, op string, kind Kind, arg int) error {
	switch kind {
	case ToolHangs:
		d.op.orphan, d.op.ends = true, w.disturbed(30*chunkTime)
		return fmt.Errorf("%s %s: %w", op, d.id.UniqueID, command.ErrStillRunning)
	case KillWorker:
		w.tear(d, arg)
		return fmt.Errorf("%s %s: signal: killed", op, d.id.UniqueID)
	case ToolFailsLate:
		w.finish(d)
		return fmt.Errorf("%s %s: %w", op, d.id.UniqueID, errTool)
	case ToolLies:
		d.op = nil
		return nil
	default:
		d.op = nil
		return fmt.Errorf("%s %s: %w", op, d.id.UniqueID, errTool)
	}
}

// finish ends a tool that no process follows.
func (w *world) finish(d *device) {
	op := d.op
	d.op = nil
	op.apply()
	w.note(Event{Kind: EventTaken, Device: d.id.UniqueID, Version: w.sim.Firmware(d.id.UniqueID).Stored})
}

// tear ends a tool in its middle: the device keeps what it has, holds garbage, or has taken it.
func (w *world) tear(d *device, arg int) {
	op := d.op
	if op == nil {
		return
	}
	d.op = nil
	switch {
	case arg%3 == 2:
		op.apply()
	case op.writes && (arg%3 == 1 || d.spec.Unsafe):
		w.sim.Tear(d.id.UniqueID)
	}
	w.note(Event{Kind: EventTorn, Device: d.id.UniqueID, Version: w.sim.Firmware(d.id.UniqueID).Stored})
}

// digest names the bytes of an image.
func digest(image []byte) inventory.Digest { return sha256.Sum256(image) }
