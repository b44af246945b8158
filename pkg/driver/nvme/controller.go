package nvme

import (
	"context"
	"errors"
	"fmt"
	"sync"
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
	// Sanitize are the ways to erase the drive, and Format what Format NVM can.
	Sanitize []driver.EraseMethod
	Format   string
	// Busy says why the drive neither reports nor takes firmware now; empty where it does.
	Busy string
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
	for bit, method := range driver.EraseMethods() { // SANICAP bits 0, 1 and 2
		if i.SANICAP&(1<<bit) != 0 {
			c.Sanitize = append(c.Sanitize, method)
		}
	}
	// OACS bit 1: Format NVM; FNA bit 2: it can erase by a new key.
	switch format := i.OACS&(1<<1) != 0; {
	case format && i.FNA&(1<<2) != 0:
		c.Format = "it can be formatted with a cryptographic erase (nvme format --ses=2)"
	case format:
		c.Format = "it can be formatted with an erase of user data (nvme format --ses=1)"
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
	case c.Busy != "":
		return c.Busy
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

// reader reads drives through the running kernel. A read of a drive that hangs does not return: it is abandoned at the
// deadline, and no other read of that drive begins until it ends.
type reader struct {
	open admin.Opener

	mu      sync.Mutex
	ongoing map[string]*reading
}

type reading struct {
	// done is closed when the kernel has answered; err is written before.
	done chan struct{}
	err  error
	// left is set when the caller stopped waiting for it, unless it was a side read: that nobody waited for its end says nothing of the drive.
	// It is guarded by the reader's lock.
	left bool
	side bool
}

func newReader(open admin.Opener) *reader {
	return &reader{open: open, ongoing: map[string]*reading{}}
}

// longestRead bounds a read whose caller has no deadline. It is a little longer than the kernel waits for one command.
const longestRead = 75 * time.Second

var errHangs = errors.New("an earlier read of it has not returned: the drive hangs; power-cycle the node if this persists")

// read reads what firmware is about.
func (r *reader) read(ctx context.Context, node string) (controller, slotLog, error) {
	type answers struct {
		controller controller
		log        slotLog
	}
	got, err := ofDrive(ctx, r, node, false, func(device admin.Controller) (a answers, err error) {
		data, err := admin.Identify(device)
		if err != nil {
			return a, err
		}
		if a.controller, err = newController(data); err != nil {
			return a, err
		}
		log, err := admin.ReadSlotLog(device)
		if err = a.controller.doesWithout(err); err == nil {
			a.log = newSlotLog(log)
		}
		return a, err
	})
	return got.controller, got.log, err
}

// doesWithout returns the error of reading the slot log, unless the drive need not have one, or gives none while it is being sanitized.
func (c *controller) doesWithout(err error) error {
	refused, ok := errors.AsType[*admin.StatusError](err)
	switch {
	case !ok:
		return err
	case refused.Status == admin.SanitizeInProgress:
		c.Busy = "the drive is being sanitized, and neither reports nor takes firmware until it is done"
	case refused.Status == admin.FailedSanitize:
		c.Busy = "a sanitize of the drive has failed, and it neither reports nor takes firmware until another one succeeds or somebody ends that state"
	case c.Downloadable:
		return err
	}
	return nil
}

// ofDrive starts its own read of the drive and waits for it until the context ends. Others wait for the end of a side read, and a second side
// read does not.
func ofDrive[T any](ctx context.Context, r *reader, node string, side bool, ask func(admin.Controller) (T, error)) (T, error) {
	var got, none T
	ctx, stop := context.WithTimeoutCause(ctx, longestRead, fmt.Errorf("no answer within %v", longestRead))
	defer stop()
	mine, err := r.begin(ctx, node, side, func(device admin.Controller) (err error) {
		got, err = ask(device)
		return err
	})
	if err != nil {
		return none, err
	}
	select {
	case <-mine.done:
		if mine.err != nil {
			return none, mine.err
		}
		return got, nil
	case <-ctx.Done():
		r.mu.Lock()
		defer r.mu.Unlock()
		mine.left = !side
		return none, fmt.Errorf("the drive does not answer: %w", context.Cause(ctx))
	}
}

// begin waits until no other read of the drive is running and starts one.
func (r *reader) begin(ctx context.Context, node string, side bool, ask func(admin.Controller) error) (*reading, error) {
	for {
		r.mu.Lock()
		other := r.ongoing[node]
		if other == nil {
			mine := &reading{done: make(chan struct{}), side: side}
			r.ongoing[node] = mine
			r.mu.Unlock()
			go r.carryOut(mine, node, ask)
			return mine, nil
		}
		left := other.left || side && other.side
		r.mu.Unlock()
		if left {
			return nil, errHangs
		}
		select {
		case <-other.done:
		case <-ctx.Done():
			return nil, fmt.Errorf("another read of the drive has not returned: %w", context.Cause(ctx))
		}
	}
}

func (r *reader) carryOut(mine *reading, node string, ask func(admin.Controller) error) {
	mine.err = r.ask(node, ask)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.ongoing, node)
	close(mine.done)
}

func (r *reader) ask(node string, ask func(admin.Controller) error) (err error) {
	device, err := r.open(node)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, device.Close()) }()
	return ask(device)
}

// slotLog is the Firmware Slot Information log (NVMe Base Specification 2.0, figure 207).
type slotLog struct {
	// Active is the slot that runs, Next the one that runs after the next reset; 0 where the drive does not report it, which
	// does not mean that nothing is staged.
	Active, Next int
	// Revisions by slot number; empty slots are absent, and a revision that cannot be read is empty.
	Revisions map[int]inventory.Version
}

// newSlotLog interprets the fields of the log page.
func newSlotLog(raw admin.SlotLog) slotLog {
	log := slotLog{Revisions: map[int]inventory.Version{}}
	log.setActive(raw.AFI)
	for i, revision := range raw.Revisions {
		if v := inventory.NormalizeVersion(revision); v != "" || raw.Unreadable[i] {
			log.Revisions[i+1] = v
		}
	}
	return log
}

// setActive decodes the Active Firmware Info field.
func (l *slotLog) setActive(afi uint8) { l.Active, l.Next = int(afi&7), int(afi>>4&7) }

// stored is the slot whose image runs after the next reset, and that image's revision; empty where the drive does not report
// them. A drive with one slot holds the staged image in the slot it runs from.
func (l slotLog) stored(c controller) (slot int, revision inventory.Version) {
	slot = l.Next
	if c.Slots == 1 {
		slot = 1
	}
	return slot, l.Revisions[slot]
}

// mayActivate reports whether a reset may make the drive run another image than it runs.
func (l slotLog) mayActivate(c controller) bool {
	if _, revision := l.stored(c); revision != "" {
		return revision != c.Revision
	}
	for _, revision := range l.Revisions {
		if revision != c.Revision {
			return true
		}
	}
	return false
}

// runs reports whether a slot is the running one. Where the drive does not report the running slot, it is the only slot that
// holds the running revision.
func (l slotLog) runs(slot int, revision inventory.Version) bool {
	if l.Active != 0 {
		return slot == l.Active
	}
	for other, held := range l.Revisions {
		if other != slot && held == revision {
			return false
		}
	}
	return l.Revisions[slot] == revision
}

// slotFor picks the slot to write: never the running one unless it is the only one. A slot whose image was staged and never
// ran comes first, then an empty one, then one that holds an image to go back to. It returns an error where the running slot
// is not known, because no slot may be written then.
func slotFor(c controller, l slotLog) (int, error) {
	if c.Slots > 1 && l.Active == 0 && l.holder(c.Revision) == 0 {
		return 0, errors.New("the drive does not say which of its firmware slots runs, so a write could overwrite it")
	}
	best, rank := 0, 0
	for slot := 1; slot <= c.Slots; slot++ {
		if slot == 1 && c.FirstSlotReadOnly {
			continue
		}
		r := 2
		_, held := l.Revisions[slot]
		switch {
		case l.runs(slot, c.Revision):
			r = 1
			if c.Slots > 1 {
				continue
			}
		case slot == l.Next:
			r = 4
		case !held:
			r = 3
		}
		if r > rank {
			best, rank = slot, r
		}
	}
	if best == 0 {
		return 0, errors.New("the drive has no firmware slot that can be written without overwriting the running one")
	}
	return best, nil
}

func slots(c controller, l slotLog) []inventory.Slot {
	pending, revision := l.stored(c)
	out := make([]inventory.Slot, 0, c.Slots)
	for n := 1; n <= c.Slots; n++ {
		s := inventory.Slot{Number: n, Version: l.Revisions[n], State: inventory.SlotIdle}
		switch {
		case n == pending && revision != "" && revision != c.Revision:
			s.State = inventory.SlotPending
		case n == l.Active:
			s.State = inventory.SlotActive
		case n == 1 && c.FirstSlotReadOnly:
			s.State = inventory.SlotReadOnly
		}
		out = append(out, s)
	}
	return out
}
