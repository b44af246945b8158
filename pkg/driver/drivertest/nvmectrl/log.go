package nvmectrl

import "encoding/binary"

// Log pages.
const (
	HealthLog = 0x02
	SlotLog   = 0x03
	// SanitizeLog is there where Profile.Sanitizes is set.
	SanitizeLog = 0x81
)

const logSize = 512

// Log is a log page, or nil where the controller does not have it.
func (c *Controller) Log(page uint8) []byte {
	switch {
	case page == HealthLog:
		return c.healthLog()
	case page == SanitizeLog && c.Sanitizes != 0:
		return c.Sanitize.log()
	case page == SlotLog && !c.NoSlotLog:
		return c.slotLog()
	}
	return nil
}

// AFI is the Active Firmware Info field of the Firmware Slot Information log: the active slot in bits 2:0, and the one that
// is active after the next reset in bits 6:4, which is the active one where nothing was staged. 0 there reports nothing.
func (c *Controller) AFI() byte {
	if c.HidesNext {
		return byte(c.Active)
	}
	next := c.Next
	if next == 0 {
		next = c.Active
	}
	return byte(c.Active | next<<4)
}

// Revision is the revision that the log reports for a slot: empty where it holds no whole image.
func (c *Controller) Revision(slot int) string {
	if s := c.Slots[slot-1]; s.runnable() {
		return s.Revision
	}
	return ""
}

// slotLog is the Firmware Slot Information log (figure 207).
func (c *Controller) slotLog() []byte {
	b := make([]byte, logSize)
	b[0] = c.AFI()
	for slot := 1; slot <= len(c.Slots); slot++ {
		if revision := c.Revision(slot); revision != "" {
			copy(b[8*slot:], padded(revision, revisionLength))
		}
	}
	return b
}

// Temperatures in kelvin.
const (
	roomTemperature = 310
	// WarningTemperature and CriticalTemperature are for the fields WCTEMP and CCTEMP.
	WarningTemperature  = 350
	CriticalTemperature = 358
)

// healthLog is the SMART / Health Information log (figure 206) of a healthy drive.
func (c *Controller) healthLog() []byte {
	b := make([]byte, logSize)
	binary.LittleEndian.PutUint16(b[1:], roomTemperature)
	b[3], b[4] = 100, 10 // per cent of the spare blocks: what is left, and what is too little
	binary.LittleEndian.PutUint64(b[112:], c.PowerCycles)
	binary.LittleEndian.PutUint64(b[128:], c.PowerOnHours)
	return b
}
