package nvmetcp

import (
	"slices"
	"time"
)

// reset is how much of the drive begins anew.
type reset int

const (
	controllerReset reset = iota + 1
	subsystemReset
	powerCycle
)

// resetFor is the weakest reset that activates.
var resetFor = map[Activation]reset{
	Immediately: controllerReset, AtControllerReset: controllerReset, AtSubsystemReset: subsystemReset, AtPowerCycle: powerCycle,
}

// download is the pieces of the image that is being downloaded, in order of offset.
type download struct{ pieces []piece }

type piece struct {
	offset int
	data   []byte
}

func (p piece) end() int { return p.offset + len(p.data) }

// add keeps a piece, unless it overlaps another.
func (d *download) add(p piece) Status {
	at, _ := slices.BinarySearchFunc(d.pieces, p.offset, func(q piece, offset int) int { return q.offset - offset })
	if at > 0 && d.pieces[at-1].end() > p.offset || at < len(d.pieces) && p.end() > d.pieces[at].offset {
		return OverlappingRange
	}
	d.pieces = slices.Insert(d.pieces, at, p)
	return Success
}

// image is the pieces in one; without ok there is a gap.
func (d *download) image() (image []byte, ok bool) {
	for _, p := range d.pieces {
		if p.offset != len(image) {
			return nil, false
		}
		image = append(image, p.data...)
	}
	return image, true
}

// downloadPiece is the Firmware Image Download command.
func (d *Drive) downloadPiece(t *task) completion {
	if s := d.faults.download(d, t); s != Success {
		return failed(s)
	}
	offset, length := 4*uint64(t.dword(11)), 4*(uint64(t.dword(10))+1)
	unit := uint64(d.config.Granularity)
	switch {
	case length != uint64(len(t.data)):
		return failed(DataLengthInvalid)
	case offset%unit != 0 || length%unit != 0 || offset+length > imageMax:
		return failed(InvalidField)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if offset == 0 && d.config.RestartsAtZero {
		d.download = download{}
	}
	return failed(d.download.add(piece{offset: int(offset), data: t.data}))
}

// Commit actions.
const (
	actionStore         = 0
	actionStoreAndReset = 1
	actionReset         = 2
	actionNow           = 3
)

// commit is the Firmware Commit command. Once slot and action are right the pieces that were downloaded are gone, whatever
// comes of it.
func (d *Drive) commit(c *controller, t *task) completion {
	if s := d.faults.commit(t); s != Success {
		return failed(s)
	}
	slot, action := int(t.dword(10)&0x07), int(t.dword(10)>>3&0x07)
	d.mu.Lock()
	defer d.mu.Unlock()
	if action > actionNow {
		return failed(InvalidField)
	}
	if slot == 0 && action != actionReset {
		slot = d.freeSlot()
	}
	stores := action == actionStore || action == actionStoreAndReset || action == actionNow && len(d.download.pieces) > 0
	next := d.firmware.clone()
	if slot < 1 || slot > len(next.Slots) || stores && slot == 1 && d.config.FirstSlotReadOnly {
		return failed(InvalidFirmwareSlot)
	}
	image, whole := d.download.image()
	d.download = download{}
	if stores {
		content, ok := d.accept(image)
		if !whole || !ok {
			return failed(InvalidFirmwareImage)
		}
		if d.faults.lies() {
			return completion{}
		}
		next.Slots[slot-1] = content
	}
	s := d.plan(&next, slot, action)
	if s == InvalidFirmwareImage {
		return failed(s)
	}
	if err := d.keep(next); err != nil {
		d.config.Log.Error("Could not store firmware", "slot", slot, "error", err)
		return failed(InternalError)
	}
	d.config.Log.Info("Committed firmware", "slot", slot, "action", action, "revision", next.Slots[slot-1].Revision, "status", s)
	if action == actionNow && s == Success {
		s = d.activateNow(c, t, slot)
	}
	return failed(s)
}

// freeSlot is the slot the drive chooses: the first that is neither active nor read-only, or else the active one.
func (d *Drive) freeSlot() int {
	for slot := 1; slot <= len(d.firmware.Slots); slot++ {
		if slot != d.firmware.Active && (slot != 1 || !d.config.FirstSlotReadOnly) {
			return slot
		}
	}
	return d.firmware.Active
}

// accept judges an image as firmware for this drive.
func (d *Drive) accept(b []byte) (Slot, bool) {
	image, err := ParseImage(b)
	if err == nil && image.Model == d.config.Model {
		return Slot{Revision: image.Revision, Digest: digest(b), Security: image.Security}, true
	}
	d.config.Log.Info("Refused firmware", "model", image.Model, "error", err)
	return Slot{}, false
}

// plan notes in f what an action does to the slot that is next, and says what the host is told.
func (d *Drive) plan(f *Firmware, slot, action int) Status {
	content := f.Slots[slot-1]
	switch {
	case action == actionStore:
		return Success
	case content.Revision == "":
		return InvalidFirmwareImage
	case content.Security < f.Running.Security:
		return ActivationProhibited
	case action == actionNow && d.config.Activation == Immediately:
		if d.config.ActivationMax > 0 && d.config.ActivationTime > d.config.ActivationMax {
			return ActivationTooLong
		}
		return Success
	}
	f.Next = slot
	switch d.config.Activation {
	case AtSubsystemReset:
		return NeedsSubsystemReset
	case AtPowerCycle:
		return NeedsConventionalReset
	}
	if action == actionNow {
		return NeedsControllerReset
	}
	return Success
}

// activateNow activates without a reset. The image is stored, so that a power cut meanwhile leaves it in its slot. The
// caller holds d.mu, which is not held while the drive is busy.
func (d *Drive) activateNow(c *controller, t *task, slot int) Status {
	d.readyAt = time.Now().Add(d.config.ActivationTime)
	until := d.readyAt
	d.mu.Unlock()
	c.pause(until)
	s := t.wait(nil, d.config.ActivationTime)
	c.goOn()
	d.mu.Lock()
	d.readyAt = time.Time{}
	if s != Success {
		return s
	}
	next := d.firmware.clone()
	next.Next = slot
	next.activate()
	if err := d.keep(next); err != nil {
		d.config.Log.Error("Could not activate firmware", "slot", slot, "error", err)
		return InternalError
	}
	d.config.Log.Info("Activated firmware", "slot", slot, "revision", next.Running.Revision)
	return Success
}

// reset drops what was downloaded, and activates what waits for a reset like this. It returns when the drive is ready.
func (d *Drive) reset(r reset) (readyAt time.Time, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.download = download{}
	next := d.firmware.clone()
	if r < resetFor[d.config.Activation] || !next.activate() {
		return d.readyAt, nil
	}
	if err := d.keep(next); err != nil {
		d.config.Log.Error("Could not activate firmware", "slot", next.Active, "error", err)
		return d.readyAt, err
	}
	d.config.Log.Info("Activated firmware", "slot", next.Active, "revision", next.Running.Revision)
	d.readyAt = time.Now().Add(d.config.ActivationTime)
	return d.readyAt, nil
}
