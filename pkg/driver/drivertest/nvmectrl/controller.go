package nvmectrl

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Activation is the weakest event that makes a controller run firmware that was committed.
type Activation string

// The activations, from the weakest event on. A controller activates at every event that is stronger than the one it needs.
const (
	// Immediately is a controller that also activates without a reset (commit action 3).
	Immediately Activation = "immediately"
	// AtControllerReset is a controller that answers NeedsControllerReset to action 3.
	AtControllerReset Activation = "controller-reset"
	// AtSubsystemReset is a controller that answers NeedsSubsystemReset to actions 1, 2 and 3.
	AtSubsystemReset Activation = "subsystem-reset"
	// AtConventionalReset is a controller that answers NeedsConventionalReset to actions 1, 2 and 3. A reboot of its host is one.
	AtConventionalReset Activation = "conventional-reset"
	// AtPowerCycle is a controller that answers the same, and keeps its firmware until its power was off.
	AtPowerCycle Activation = "power-cycle"
)

// Reset is an event that resets a controller.
type Reset int

// The resets, from the weakest on.
const (
	ControllerReset Reset = iota + 1
	SubsystemReset
	ConventionalReset
	PowerCycle
)

// weakestReset is the weakest reset that activates.
var weakestReset = map[Activation]Reset{
	Immediately: ControllerReset, AtControllerReset: ControllerReset, AtSubsystemReset: SubsystemReset,
	AtConventionalReset: ConventionalReset, AtPowerCycle: PowerCycle,
}

// Units and bounds.
const (
	// PageSize is the unit of FWUG and of MDTS in bytes.
	PageSize = 1 << pageShift
	// MTFAUnit is the unit in which Identify Controller reports MTFA.
	MTFAUnit = 100 * time.Millisecond
	// MaxSlots is the most firmware slots a controller has.
	MaxSlots = 7

	pageShift = 12
)

// Profile is what a controller is.
type Profile struct {
	VendorID uint16
	// Model and Serial as the controller reports them, at most 40 and 20 characters.
	Model, Serial string
	// TwoPorts drives may have a controller on each of two ports.
	TwoPorts bool
	// FirstSlotReadOnly makes slot 1 keep the firmware the drive came with.
	FirstSlotReadOnly bool
	// Activation is AtControllerReset when empty.
	Activation Activation
	// ActivationTime is how long the controller processes no commands while it activates.
	ActivationTime time.Duration
	// MTFA is the reported maximum of ActivationTime without a reset, in steps of MTFAUnit; 0 reports none. The controller
	// answers ActivationTooLong where ActivationTime is longer.
	MTFA time.Duration
	// FWUG is the granularity and alignment of pieces of an image in pages; 0 and 255 demand none.
	FWUG uint8
	// AnyLength controllers accept pieces whose length is not a multiple of FWUG, such as a short last one.
	AnyLength bool
	// MDTS bounds the data of one command to 2^MDTS pages; 0 sets no bound.
	MDTS uint8
	// RestartsAtZero makes a piece at offset 0 the beginning of a new image. Without it the pieces of an image that was given
	// up overlap those of the next, until a commit or a reset.
	RestartsAtZero bool
	// HidesNext controllers do not report in AFI which slot runs after the next reset.
	HidesNext bool
	// NoDownload controllers do not have the firmware commands, and NoSlotLog ones do not have the slot log.
	NoDownload, NoSlotLog bool
	// Sanitizes are the bits 2:0 of SANICAP: 1 for crypto erase, 2 for block erase, 4 for overwrite. SanitizeSteps is how many readings of
	// the log a sanitize takes; 0 means one.
	Sanitizes     byte
	SanitizeSteps int
	// Accept judges an image at its commit; nil takes images of MakeImage for the model.
	Accept func(image []byte) (Slot, error) `json:"-"`
}

// Controller is a controller and what it holds.
type Controller struct {
	Profile
	Firmware
	// Buffer is the image that is being downloaded. It does not survive a reset.
	Buffer Buffer
	// Sanitize is the last sanitize operation. It survives a power cut.
	Sanitize Sanitize
}

// Validate returns an error for a controller that cannot exist.
func (c *Controller) Validate() error {
	switch {
	case !printable(c.Model, modelLength) || !printable(c.Serial, serialLength):
		return errors.New("model and serial are printable, of at most 40 and 20 characters")
	case c.FirstSlotReadOnly && len(c.Slots) == 1:
		return errors.New("the only slot is read-only")
	case c.weakestReset() == 0:
		return fmt.Errorf("activation %q is unknown", c.Activation)
	}
	return c.Firmware.validate()
}

func (c *Controller) weakestReset() Reset {
	if c.Activation == "" {
		return ControllerReset
	}
	return weakestReset[c.Activation]
}

// Clone is a copy that shares no firmware and no pieces with c.
func (c *Controller) Clone() Controller {
	clone := *c
	clone.Slots, clone.Buffer.Pieces = slices.Clone(c.Slots), slices.Clone(c.Buffer.Pieces)
	return clone
}

// Reset resets the controller: it drops what was downloaded, activates what awaits a reset like this, and reports
// whether it activated something.
func (c *Controller) Reset(r Reset) (activated bool) {
	c.Buffer = Buffer{}
	if r == PowerCycle {
		c.PowerCycles++
	}
	return r >= c.weakestReset() && c.activateNext()
}

// Field lengths and offsets of the Identify Controller data (figure 275).
const (
	serialLength   = 20
	modelLength    = 40
	revisionLength = 8
)

// OACS bit 2: Firmware Commit and Firmware Image Download.
const oacsFirmware = 1 << 2

// Identify fills in the fields of the Identify Controller data that the model knows.
func (c *Controller) Identify(data []byte) {
	le := binary.LittleEndian
	le.PutUint16(data[0:], c.VendorID)
	copy(data[4:], padded(c.Serial, serialLength))
	copy(data[24:], padded(c.Model, modelLength))
	copy(data[64:], padded(c.Running.Revision, revisionLength))
	if c.TwoPorts {
		data[76] = 3
	}
	data[77] = c.MDTS
	if !c.NoDownload {
		le.PutUint16(data[256:], le.Uint16(data[256:])|oacsFirmware)
	}
	data[260] = c.FRMW()
	data[328] = c.Sanitizes
	le.PutUint16(data[270:], uint16(c.MTFA/MTFAUnit))
	data[319] = c.FWUG
}

// FRMW is the Firmware Updates field of Identify Controller.
func (c *Controller) FRMW() byte {
	b := byte(len(c.Slots) << 1)
	if c.FirstSlotReadOnly {
		b |= 1
	}
	if c.Activation == Immediately {
		b |= 1 << 4
	}
	return b
}
