package nvmectrl

import (
	"errors"
	"fmt"
	"slices"
)

// Firmware is the firmware a drive holds. It survives a power cut; as JSON it can be the drive's state file.
type Firmware struct {
	// Slots from slot 1 on.
	Slots []Slot `json:"slots"`
	// Active is the slot the running firmware was loaded from.
	Active int `json:"active"`
	// Next is the slot that becomes active at the next reset that suffices; 0 when none does.
	Next int `json:"next,omitempty"`
	// Running is the firmware that runs: what the active slot held when it became active.
	Running Slot `json:"running"`
	// PowerCycles counts how often the drive was turned on.
	PowerCycles uint64 `json:"powerCycles,omitempty"`
	// PowerOnHours is for how long it was on.
	PowerOnHours uint64 `json:"powerOnHours,omitempty"`
}

// Slot is the firmware in a slot; an empty revision is an empty slot.
type Slot struct {
	Revision string `json:"revision,omitempty"`
	// Digest is the SHA-256 of the image in hexadecimal; empty where it is not known.
	Digest string `json:"digest,omitempty"`
	// Security is a number below which a drive does not go back: an image with a lower one than the running firmware's is
	// stored and never activated.
	Security uint32 `json:"security,omitempty"`
	// Torn is an image of which only a part was stored. It is not reported and never runs.
	Torn bool `json:"torn,omitempty"`
}

func (s Slot) runnable() bool { return s.Revision != "" && !s.Torn }

// NewFirmware is the firmware of a drive that runs what slot 1 of the slots holds.
func NewFirmware(slots ...Slot) Firmware {
	return Firmware{Slots: slots, Active: 1, Running: slots[0]}
}

// Stored is the firmware that runs after a power cycle.
func (f *Firmware) Stored() Slot {
	if f.Next != 0 && f.Slots[f.Next-1].runnable() {
		return f.Slots[f.Next-1]
	}
	return f.Running
}

// activateNext makes the next slot active, where it holds a whole image.
func (f *Firmware) activateNext() (activated bool) {
	next := f.Next
	f.Next = 0
	if next == 0 || !f.Slots[next-1].runnable() {
		return false
	}
	f.Active, f.Running = next, f.Slots[next-1]
	return true
}

func (f *Firmware) validate() error {
	slots := len(f.Slots)
	switch {
	case slots < 1 || slots > MaxSlots:
		return fmt.Errorf("%d firmware slots: a drive has 1 to %d", slots, MaxSlots)
	case f.Active < 1 || f.Active > slots || f.Next < 0 || f.Next > slots:
		return fmt.Errorf("active slot %d and next slot %d of %d", f.Active, f.Next, slots)
	case f.Running.Revision == "" || f.Next != 0 && f.Slots[f.Next-1].Revision == "":
		return errors.New("an empty slot is active")
	}
	for _, slot := range append(slices.Clone(f.Slots), f.Running) {
		if slot.Revision != "" && !printable(slot.Revision, revisionLength) {
			return fmt.Errorf("revision %q is not printable, of at most %d characters", slot.Revision, revisionLength)
		}
	}
	return nil
}
