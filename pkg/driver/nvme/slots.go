package nvme

import (
	"errors"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver/nvme/admin"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

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
