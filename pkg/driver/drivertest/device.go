package drivertest

import (
	"errors"
	"slices"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// device is one device of a Simulated. Its methods need the lock.
type device struct {
	id       inventory.Identity
	firmware inventory.Firmware
	// running, stored and inSlot (by number) are the defects of the running and stored firmware and of that in slots.
	running, stored Defect
	inSlot          map[int]Defect
	// turns counts the changes of slots, and left has the one at which each of them was last taken or left.
	turns  int
	left   map[int]int
	faults map[Fault]bool
	// parameters are those of every firmware, in order of their names, and brought those of a version alone.
	parameters []inventory.Parameter
	brought    map[inventory.Version][]inventory.Parameter
	// unplugs is the setting with which the links are down; zero for none.
	unplugs inventory.Setting
	// failure is what the tool prints with FailWrite.
	failure string
	gone    bool
	// medium is nil for a device that stores no data of its own.
	medium *medium
	// archives counts the calls of Archive.
	archives int
	// busy while a write runs; release ends a hanging write.
	busy    bool
	release chan struct{}
}

// errSilent is the error of a device that cannot be read.
var errSilent = errors.New("the device does not answer")

func (d *device) read() inventory.Firmware {
	fw := d.firmware
	fw.Slots = slices.Clone(fw.Slots)
	return fw
}

// image is the running firmware, as an image.
func (d *device) image() []byte {
	return imageBytes(content{d.id.BoardID, d.firmware.Running, d.running})
}

// accepts reads the image and returns why the device does not accept it.
func (d *device) accepts(img driver.Image) (content, error) {
	c, err := readImage(img.Path)
	switch {
	case err != nil:
		return content{}, err
	case d.faults[WrongBoard] || inventory.NormalizeID(c.boardID) != inventory.NormalizeID(d.id.BoardID):
		return content{}, driver.Rejectf("%s is for board %s, the device is %s", img.Path, c.boardID, d.id.BoardID)
	case c.version != img.Version:
		return content{}, driver.Rejectf("%s holds version %s, not %s", img.Path, c.version, img.Version)
	}
	return c, nil
}

// store makes the image the one to run next, which may be at once.
func (d *device) store(img content) {
	d.stage(img)
	if d.firmware.Activation == inventory.ActivateNone {
		d.run()
	}
}

// stage makes the image the one to run next, in an inactive slot if the device has slots.
func (d *device) stage(img content) {
	d.firmware.Stored, d.stored = img.version, img.defect
	if slot := d.target(); slot != nil {
		slot.Version, slot.State = img.version, inventory.SlotPending
		d.inSlot[slot.Number] = img.defect
		d.leave(slot)
	}
}

// leave notes that the slot was used just now.
func (d *device) leave(slot *inventory.Slot) {
	d.turns++
	d.left[slot.Number] = d.turns
}

// target is the slot to write: one whose image never ran, else an empty one, else the one that was used longest ago.
func (d *device) target() *inventory.Slot {
	var best *inventory.Slot
	rank := 0
	for i := range d.firmware.Slots {
		slot, r := &d.firmware.Slots[i], 0
		switch {
		case slot.State == inventory.SlotPending:
			r = 3
		case slot.State == inventory.SlotIdle && slot.Version == "":
			r = 2
		case slot.State == inventory.SlotIdle:
			r = 1
		}
		if r > rank || r == 1 && rank == 1 && d.left[slot.Number] < d.left[best.Number] {
			best, rank = slot, r
		}
	}
	return best
}

// revert makes the slot's image the one to run next.
func (d *device) revert(to int) {
	d.drop()
	slot := &d.firmware.Slots[to]
	if slot.State != inventory.SlotActive {
		d.firmware.Stored, d.stored = slot.Version, d.inSlot[slot.Number]
		slot.State = inventory.SlotPending
	}
	if d.firmware.Activation == inventory.ActivateNone {
		d.run()
	}
}

// drop makes the running image the one to run next again.
func (d *device) drop() {
	d.firmware.Stored, d.stored = d.firmware.Running, d.running
	for i := range d.firmware.Slots {
		if slot := &d.firmware.Slots[i]; slot.State == inventory.SlotPending {
			slot.State = inventory.SlotIdle
		}
	}
}

// run makes the stored image the running one.
func (d *device) run() {
	if d.faults[FlashResets] && d.firmware.Pending() {
		d.forget()
	}
	d.firmware.Running, d.running = d.firmware.Stored, d.stored
	if !slices.ContainsFunc(d.firmware.Slots, func(s inventory.Slot) bool { return s.State == inventory.SlotPending }) {
		return
	}
	for i := range d.firmware.Slots {
		switch slot := &d.firmware.Slots[i]; slot.State {
		case inventory.SlotActive:
			slot.State = inventory.SlotIdle
			d.leave(slot)
		case inventory.SlotPending:
			slot.State = inventory.SlotActive
		default:
		}
	}
}

// needs is the activation the device needs now.
func (d *device) needs() inventory.Activation {
	if d.firmware.Pending() {
		return d.firmware.Activation
	}
	return inventory.ActivateNone
}

// written is the activation the device needs after a write; a quiet device says so whatever it stored.
func (d *device) written() inventory.Activation {
	if d.faults[Quiet] {
		return d.firmware.Activation
	}
	return d.needs()
}
