package chaos

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// The versions of the simulated firmware.
const (
	oldVersion inventory.Version = "1.0"
	newVersion inventory.Version = "2.0"
	// noVersion is what a device reports that holds garbage.
	noVersion inventory.Version = "unknown"
)

// firmware is what a device runs or stores. The zero value is garbage.
type firmware struct {
	version inventory.Version
	defect  Defect
	content string
}

const (
	imageHeader  = "chaos firmware"
	imagePayload = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
)

func makeFirmware(board string, v inventory.Version, d Defect) firmware {
	content := strings.Join([]string{imageHeader, board, string(v), string(d), imagePayload}, "\n")
	return firmware{version: v, defect: d, content: content}
}

// parseFirmware parses an image.
func parseFirmware(content string) (board string, fw firmware, err error) {
	fields := strings.Split(content, "\n")
	if len(fields) != 5 || fields[0] != imageHeader || fields[4] != imagePayload {
		return "", firmware{}, fmt.Errorf("it is not a whole image")
	}
	return fields[1], firmware{version: inventory.Version(fields[2]), defect: Defect(fields[3]), content: content}, nil
}

func (f firmware) digest() inventory.Digest { return sha256.Sum256([]byte(f.content)) }

func (f firmware) garbage() bool { return f.content == "" }

func (f firmware) says() inventory.Version {
	if f.garbage() {
		return noVersion
	}
	return f.version
}

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

// device is one piece of hardware.
type device struct {
	spec   DeviceSpec
	id     inventory.Identity
	run    firmware
	stored firmware
	// slots are the images in the slots that do not run, oldest first; the staged one is among them.
	slots     []firmware
	kind      inventory.Activation
	refused   string
	op        *operation
	answersAt time.Duration
	gone      bool
	// bystander devices are none of the job's.
	bystander bool
	// original is what ran when the job had archived it, or had found that there is nothing to do.
	original firmware
	known    bool
}

func newDevice(s DeviceSpec) *device {
	d := &device{spec: s, kind: s.Activation, id: inventory.Identity{
		Class: s.Class, UniqueID: s.ID, BoardID: "BOARD_" + s.ID, Model: "model", Vendor: "vendor",
	}}
	d.run = makeFirmware(d.id.BoardID, oldVersion, Sound)
	d.stored = d.run
	if s.Staged {
		d.stored = d.target()
		if s.Slots > 1 {
			d.slots = []firmware{d.stored}
		}
	}
	return d
}

// target is the firmware the job brings.
func (d *device) target() firmware { return makeFirmware(d.id.BoardID, newVersion, d.spec.Defect) }

// running reports whether a tool changes the device now.
func (d *device) running() bool { return d.op != nil }

// store completes a write that the device accepts, into the slot that the driver chose.
func (d *device) store(f firmware) {
	if d.spec.Slots > 1 {
		if i := d.victim(); i >= 0 {
			d.slots = slices.Delete(d.slots, i, i+1)
		}
		d.slots = append(d.slots, f)
	}
	d.commit(f)
}

// victim is the slot that a write overwrites: the one whose image is staged and never ran, or the oldest; -1 for an empty one.
func (d *device) victim() int {
	if i := slices.IndexFunc(d.slots, func(f firmware) bool { return f == d.stored && f != d.run }); i >= 0 {
		return i
	}
	if len(d.slots) < d.spec.Slots-1 {
		return -1
	}
	return 0
}

// loses reports whether a write now would overwrite the only slot with the version.
func (d *device) loses(v inventory.Version) bool {
	switch {
	case d.spec.Slots == 0, d.spec.Slots > 1 && d.run.version == v:
		return false
	case d.spec.Slots == 1:
		return true
	}
	i := d.victim()
	return i >= 0 && d.slots[i].version == v
}

// commit makes a stored image the one that is activated next.
func (d *device) commit(f firmware) {
	d.stored, d.refused = f, ""
	if d.kind == inventory.ActivateNone {
		d.activate()
	}
}

func (d *device) activate() {
	if d.run.content != d.stored.content && d.spec.Slots != 1 {
		if i := slices.Index(d.slots, d.stored); i >= 0 {
			d.slots = slices.Delete(d.slots, i, i+1)
		}
		d.slots = append(d.slots, d.run)
	}
	d.run = d.stored
}

// reboot makes the stored firmware run, where a reboot does that. Every device starts over.
func (d *device) reboot() {
	d.answersAt = 0
	switch {
	case d.spec.Refuses && d.stored.version == newVersion:
		d.stored, d.refused = d.run, "it refused "+string(newVersion)+" at boot"
	default:
		d.activate()
	}
}

// slot finds a version in the slots that are kept.
func (d *device) slot(v inventory.Version) (firmware, bool) {
	if d.run.version == v && !d.run.garbage() && (d.spec.Slots != 1 || d.stored == d.run) {
		return d.run, true
	}
	for _, f := range d.slots {
		if f.version == v && !f.garbage() {
			return f, true
		}
	}
	return firmware{}, false
}

// answers reports whether the device can be read.
func (d *device) answers(now time.Duration) error {
	switch {
	case d.run.garbage():
		return fmt.Errorf("the device is in recovery mode")
	case d.run.defect == DeviceMute, now < d.answersAt:
		return fmt.Errorf("the device does not answer")
	}
	return nil
}

// link reports whether the device has a link, and carries whether anything passes through it.
func (d *device) link() bool    { return d.run.defect != LinkDown && !d.run.garbage() }
func (d *device) carries() bool { return d.link() && d.run.defect != NoTraffic }

// finish ends a tool that no process follows.
func (w *world) finish(d *device) {
	op := d.op
	d.op = nil
	op.apply()
	w.note(Event{Kind: EventTaken, Device: d.id.UniqueID, Version: d.stored.says()})
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
		d.store(firmware{})
	}
	w.note(Event{Kind: EventTorn, Device: d.id.UniqueID, Version: d.stored.says()})
}

// read is what the device reports about itself.
func (d *device) read(now time.Duration) inventory.Device {
	out := inventory.Device{Identity: d.id, Driver: driverName, Err: d.answers(now)}
	if out.Err != nil {
		return out
	}
	fw := inventory.Firmware{
		Running: d.run.says(), Stored: d.stored.says(), Activation: d.kind, Format: inventory.FormatPlain,
		Rollback: d.spec.Rollback, LastAttempt: d.refused,
	}
	if d.spec.Rollback == inventory.RollbackSlot && d.spec.Slots == 1 {
		fw.Rollback, fw.RollbackMessage = inventory.RollbackNone, "its only slot is overwritten"
	}
	if d.spec.Quiet {
		fw.Stored = ""
	}
	if d.spec.Rollback == inventory.RollbackSlot {
		fw.Slots = []inventory.Slot{{Number: 1, Version: d.run.says(), State: inventory.SlotActive}}
		for i, f := range d.slots {
			fw.Slots = append(fw.Slots, inventory.Slot{Number: i + 2, Version: f.says(), State: inventory.SlotIdle})
		}
	}
	out.Firmware = &fw
	return out
}
