package admin

import "fmt"

// MaxSlots is how many firmware slots a drive can have.
const MaxSlots = 7

// SlotLog is the Firmware Slot Information log (NVMe Base Specification 2.0, figure 207).
type SlotLog struct {
	// AFI holds the running slot in bits 2:0, and the slot that runs after the next reset in bits 6:4.
	AFI uint8
	// Revisions are those of slots 1 to 7, empty where a slot holds nothing.
	Revisions [MaxSlots]string
	// Unreadable marks slots that hold something whose revision is not ASCII.
	Unreadable [MaxSlots]bool
}

const revisionSize = 8

// ParseSlotLog reads the log page.
func ParseSlotLog(b []byte) (SlotLog, error) {
	if len(b) < slotLogSize {
		return SlotLog{}, fmt.Errorf("parse firmware slot log: %d bytes instead of %d", len(b), slotLogSize)
	}
	log := SlotLog{AFI: b[0]}
	for i := range log.Revisions {
		at := revisionSize * (i + 1)
		revision, err := text(b[at : at+revisionSize])
		log.Revisions[i], log.Unreadable[i] = revision, err != nil
	}
	return log, nil
}
