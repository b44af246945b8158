package nvme

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

const maxSlots = 7

// slotLog is the Firmware Slot Information log (NVMe Base Specification 2.0, figure 207).
type slotLog struct {
	// Active is the slot that runs, Next the one that will after the next reset; 0 where the drive does not say.
	Active, Next int
	// Revisions by slot number; empty slots are absent.
	Revisions map[int]inventory.Version
}

// parseSlotLog reads the output of nvme fw-log. It is one object under the name of the device. A revision is printed as
// the number its eight bytes make in little-endian order, and as text in which nvme-cli replaced blanks by dots: the
// number is the exact one.
func parseSlotLog(out []byte) (slotLog, error) {
	var devices map[string]map[string]json.RawMessage
	if err := json.Unmarshal(out, &devices); err != nil {
		return slotLog{}, fmt.Errorf("parse fw-log: %w", err)
	}
	if len(devices) != 1 {
		return slotLog{}, fmt.Errorf("parse fw-log: %d devices instead of one", len(devices))
	}
	log, found := slotLog{Revisions: map[int]inventory.Version{}}, false
	for _, fields := range devices {
		for key, value := range fields {
			if key == "Active Firmware Slot (afi)" {
				var afi uint8
				if err := json.Unmarshal(value, &afi); err != nil {
					return slotLog{}, fmt.Errorf("parse fw-log: active slot: %w", err)
				}
				log.Active, log.Next, found = int(afi&7), int(afi>>4&7), true
				continue
			}
			digits, ok := strings.CutPrefix(key, "Firmware Rev Slot ")
			if !ok {
				continue
			}
			slot, err := strconv.Atoi(digits)
			if err != nil || slot < 1 || slot > maxSlots {
				return slotLog{}, fmt.Errorf("parse fw-log: unknown slot %q", key)
			}
			revision, err := parseRevision(value)
			if err != nil {
				return slotLog{}, fmt.Errorf("parse fw-log: %s: %w", key, err)
			}
			log.Revisions[slot] = revision
		}
	}
	if !found {
		return slotLog{}, errors.New("parse fw-log: the active slot is missing")
	}
	return log, nil
}

func parseRevision(value json.RawMessage) (inventory.Version, error) {
	var text string
	if err := json.Unmarshal(value, &text); err != nil {
		return "", err
	}
	number, _, _ := strings.Cut(text, " ")
	n, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		return "", fmt.Errorf("want a number and the text in parentheses: %q", text)
	}
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], n)
	revision := inventory.NormalizeVersion(string(b[:]))
	for _, c := range []byte(revision) {
		if c < ' ' || c > '~' {
			return "", fmt.Errorf("revision %q is not ASCII", revision)
		}
	}
	return revision, nil
}

// stored is the slot whose image runs after the next reset, and that image's revision; slot 0 where the drive does not
// say. A drive with one slot holds the staged image in the slot it runs from.
func (l slotLog) stored() (slot int, revision inventory.Version) {
	slot = l.Next
	if slot == 0 {
		slot = l.Active
	}
	return slot, l.Revisions[slot]
}

// runs reports whether a slot is the one that runs. Where the drive does not say which one that is, it is the only one
// that holds the running revision.
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

// target picks the slot to write: never the one that runs unless it is the only one, and rather the one whose image was
// staged but never ran, or an empty one, than one that holds an image to go back to. Where nothing tells which slot runs,
// none may be written.
func target(c controller, l slotLog) (int, error) {
	if c.Slots > 1 && l.Active == 0 && l.holder(c.Revision) == 0 {
		return 0, errors.New("the drive does not say which of its firmware slots runs, so a write could overwrite it")
	}
	best, rank := 0, 0
	for slot := 1; slot <= c.Slots; slot++ {
		if slot == 1 && c.FirstSlotReadOnly {
			continue
		}
		r := 2
		switch {
		case l.runs(slot, c.Revision):
			r = 1
			if c.Slots > 1 {
				continue
			}
		case slot == l.Next:
			r = 4
		case l.Revisions[slot] == "":
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

// slots describes all slots of the drive.
func slots(c controller, l slotLog) []inventory.Slot {
	pending, revision := l.stored()
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
