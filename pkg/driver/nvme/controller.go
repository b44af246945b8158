package nvme

import (
	"errors"
	"time"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/nvme/admin"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// controller is what the Identify Controller data means for firmware.
type controller struct {
	VendorID      uint16
	Serial, Model string
	// Shared: the drive may have several ports or controllers, each with namespaces of its own.
	Shared            bool
	Revision          inventory.Version
	Downloadable      bool
	Slots             int
	FirstSlotReadOnly bool
	// UpdateGranularityKB and MaxTransferKB bound the pieces of a download; 0 where the drive sets no bound.
	UpdateGranularityKB, MaxTransferKB int
	// ActivatesNow: the drive can run another image without a reset. MaxPause is the longest time for which it then stops
	// working; 0 where the drive does not report it.
	ActivatesNow bool
	MaxPause     time.Duration
}

// newController interprets the fields of Identify Controller.
func newController(i admin.Identification) (controller, error) {
	c := controller{
		VendorID: i.VendorID, Serial: i.Serial, Model: i.Model,
		Revision: inventory.NormalizeVersion(i.Revision),
		// CMIC bits 0 and 1: more than one port, and two or more controllers.
		Shared: i.CMIC&3 != 0,
		// OACS bit 2: Firmware Commit and Firmware Image Download.
		Downloadable: i.OACS&(1<<2) != 0,
		// FRMW bits 3:1 are the number of slots, bit 0 says that the first one is read-only, bit 4 that no reset is needed.
		Slots:             int(i.FRMW >> 1 & 7),
		FirstSlotReadOnly: i.FRMW&1 != 0,
		ActivatesNow:      i.FRMW&(1<<4) != 0,
		MaxPause:          i.MTFA,
	}
	if c.Revision == "" {
		return controller{}, errors.New("identify controller: the firmware revision is empty")
	}
	if i.FWUG != 0xff {
		c.UpdateGranularityKB = int(i.FWUG) * pageKB
	}
	// The drive's own pages are 4 KiB or larger. A bound above a few MiB never limits pieces.
	if i.MDTS > 0 && i.MDTS < 10 {
		c.MaxTransferKB = pageKB << i.MDTS
	}
	return c, nil
}

// pageKB is the unit of FWUG, and the least of MDTS.
const pageKB = 4

// readOnly is the reason why the controller cannot be updated, or empty.
func (c controller) readOnly() string {
	switch {
	case !c.Downloadable:
		return "the drive does not support firmware download (OACS bit 2 is clear)"
	case c.Slots == 0:
		return "the drive reports no firmware slots"
	case c.Slots == 1 && c.FirstSlotReadOnly:
		return "the drive's only firmware slot is read-only"
	}
	return ""
}

// piece is the size of the pieces of a download in bytes: one page, unless the drive asks for a larger granularity.
func (c controller) piece() int {
	kb := pageKB
	if c.UpdateGranularityKB > 0 {
		kb = c.UpdateGranularityKB
	}
	if c.MaxTransferKB > 0 {
		kb = min(kb, c.MaxTransferKB)
	}
	return kb << 10
}

// ioTimeout is how long the kernel waits for a read or write before it resets the controller (nvme_core.io_timeout).
const ioTimeout = 30 * time.Second

// pausesBriefly reports whether the drive can run another image without a reset, and pauses no longer than the kernel waits
// for I/O. Drives that do not report how long they pause are reset instead: the kernel then knows why they do not answer.
func (c controller) pausesBriefly() bool {
	return c.ActivatesNow && c.MaxPause > 0 && c.MaxPause < ioTimeout
}

// activation is what the committed image needs to run, or why it was not committed.
func (a answer) activation() (inventory.Activation, error) {
	switch a.status {
	case admin.Success, admin.NeedsControllerReset:
		return inventory.ActivateDeviceReset, nil
	case admin.NeedsConventionalReset, admin.NeedsSubsystemReset:
		return inventory.ActivateReboot, nil
	}
	return 0, a.refusal()
}

// refusal is the error of an answer that is no success.
func (a answer) refusal() error {
	switch a.status {
	case admin.InvalidImage:
		return driver.Rejectf("the drive does not accept the image: it is damaged or for another model")
	case admin.ActivationProhibited:
		return driver.Rejectf("the drive prohibits this image, as a downgrade or by its security policy")
	case admin.InvalidSlot:
		return a.failed("the drive refuses the slot")
	case admin.MaximumTimeViolation:
		return a.failed("the drive cannot activate this image in the time it declares: power-cycle the node and try again")
	case admin.OverlappingRange:
		return command.Failed(a.command, a.result, errOverlapping)
	}
	return a.failed("the drive failed the command")
}

// errOverlapping means that the drive holds pieces of another image than the one that is being sent.
var errOverlapping = errors.New("the drive holds pieces of another download: another program is updating it, or a download was interrupted; " +
	"end the program, reset the drive or power-cycle the node, and try again")

func (a answer) failed(text string) error {
	return command.Failed(a.command, a.result, errors.New(text))
}
