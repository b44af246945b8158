package nvmectrl

import "time"

// Action is the Commit Action of Firmware Commit (NVMe Base Specification 2.0, figure 177).
type Action int

// The actions that a controller without boot partitions knows.
const (
	// Store stores the downloaded image in the slot.
	Store Action = 0
	// StoreAndActivateAtReset stores it, to be activated at the next reset.
	StoreAndActivateAtReset Action = 1
	// ActivateAtReset activates the image that the slot holds at the next reset.
	ActivateAtReset Action = 2
	// ActivateNow activates an image without a reset: the one the slot holds, or one that was downloaded and is stored first.
	ActivateNow Action = 3
)

// Commit is a Firmware Commit command that was judged and can be carried out.
type Commit struct {
	Slot   int
	Action Action
	// Status is what the controller answers.
	Status Status
	// Stores reports whether the command stores Image. Otherwise Image is what the slot holds, or, for a refused image, what
	// Profile.Accept returned with its error.
	Stores bool
	Image  Slot
	// Size is the size of the downloaded image in bytes.
	Size int
	// Activates reports whether the image is activated without a reset, which takes Pause. A transport with registers sets
	// CSTS.PP for that time.
	Activates bool
	Pause     time.Duration
	// awaits reports whether the slot is activated at the next reset.
	awaits bool
}

// Judge is the first part of the Firmware Commit command: it judges the command and changes no slot. Slot 0 lets the
// controller choose.
func (c *Controller) Judge(slot int, action Action) Commit {
	j := Commit{Slot: slot, Action: action}
	if c.NoDownload {
		j.Status = InvalidOpcode
		return j
	}
	if j.Status = c.Sanitize.Blocks(); j.Status != Success {
		return j
	}
	c.Buffer.Stale = true
	if slot == 0 {
		j.Slot = c.chooseSlot()
	}
	stores := action == Store || action == StoreAndActivateAtReset || action == ActivateNow && len(c.Buffer.Pieces) > 0
	switch {
	case action < Store || action > ActivateNow:
		j.Status = InvalidField
		return j
	case j.Slot < 1 || j.Slot > len(c.Slots) || stores && j.Slot == 1 && c.FirstSlotReadOnly:
		j.Status = InvalidFirmwareSlot
		return j
	case stores:
		image, whole := c.Buffer.image()
		var err error
		if j.Image, err = c.accept(image); err != nil || !whole {
			j.Status = InvalidFirmwareImage
			return j
		}
		j.Stores, j.Size = true, len(image)
	default:
		j.Image = c.Slots[j.Slot-1]
	}
	if action != Store {
		c.judgeActivation(&j)
	}
	return j
}

// chooseSlot is the controller's choice: the first slot that is neither active nor read-only, or else the active one.
func (c *Controller) chooseSlot() int {
	for slot := 1; slot <= len(c.Slots); slot++ {
		if slot != c.Active && (slot != 1 || !c.FirstSlotReadOnly) {
			return slot
		}
	}
	return c.Active
}

func (c *Controller) accept(image []byte) (Slot, error) {
	if c.Accept != nil {
		return c.Accept(image)
	}
	return acceptFor(c.Model, image)
}

func (c *Controller) judgeActivation(j *Commit) {
	j.Status = c.mayRun(j.Image)
	if j.Status != Success {
		return
	}
	switch {
	case j.Action == ActivateNow && c.Activation == Immediately && c.MTFA > 0 && c.ActivationTime > c.MTFA:
		j.Status = ActivationTooLong
		return
	case j.Action == ActivateNow && c.Activation == Immediately:
		j.Activates, j.Pause = true, c.ActivationTime
		return
	}
	j.awaits = true
	switch r := c.weakestReset(); {
	case r == SubsystemReset:
		j.Status = NeedsSubsystemReset
	case r > SubsystemReset:
		j.Status = NeedsConventionalReset
	case j.Action == ActivateNow:
		j.Status = NeedsControllerReset
	}
}

// mayRun is Success, or the status with which the controller refuses to activate an image.
func (c *Controller) mayRun(s Slot) Status {
	switch {
	case !s.runnable():
		return InvalidFirmwareImage
	case s.Security < c.Running.Security:
		return ActivationProhibited
	}
	return Success
}

// BeginStore marks the slot of a commit as one of which only a part is stored.
func (c *Controller) BeginStore(j Commit) {
	if j.Stores {
		c.Slots[j.Slot-1] = j.Image
		c.Slots[j.Slot-1].Torn = true
	}
}

// CarryOut is the second part of the Firmware Commit command: it stores the image, which leaves the buffer, remembers what
// the next reset activates, and reports whether it changed something. An image whose activation is refused is stored all
// the same. It does not activate: the caller calls Activate when Pause is over.
func (c *Controller) CarryOut(j Commit) (changed bool) {
	c.Buffer.Stale = true
	if j.Stores {
		c.Slots[j.Slot-1], c.Buffer = j.Image, Buffer{}
		if c.Next == j.Slot && c.mayRun(j.Image) != Success {
			c.Next = 0
		}
	}
	if j.Status == ActivationTooLong { // the command is to be sent again with an action that needs a reset (figure 183)
		c.Next = 0
	}
	if j.awaits {
		c.Next = j.Slot
	}
	return j.Stores || j.awaits || j.Status == ActivationTooLong
}

// Activate activates what the slot holds without a reset.
func (c *Controller) Activate(slot int) Status {
	if s := c.mayRun(c.Slots[slot-1]); s != Success {
		return s
	}
	c.Next = slot
	c.activateNext()
	return Success
}

// Commit is the whole Firmware Commit command, in no time.
func (c *Controller) Commit(slot int, action Action) Status {
	j := c.Judge(slot, action)
	c.CarryOut(j)
	if j.Activates {
		return c.Activate(j.Slot)
	}
	return j.Status
}
