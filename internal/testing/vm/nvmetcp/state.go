package nvmetcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"github.com/nodefirmware/node-firmware-operator/pkg/durable"
)

// Firmware is the firmware a drive holds. As JSON it is the drive's state file.
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
	PowerCycles uint64 `json:"powerCycles"`
}

// Slot is the firmware in a slot; an empty revision is an empty slot.
type Slot struct {
	Revision string `json:"revision,omitempty"`
	// Digest is the SHA-256 of the image in hexadecimal; empty for what a new drive came with.
	Digest string `json:"digest,omitempty"`
	// Security is the image's.
	Security uint32 `json:"security,omitempty"`
}

func (f Firmware) clone() Firmware {
	f.Slots = slices.Clone(f.Slots)
	return f
}

// activate makes the next slot active and says whether there was one.
func (f *Firmware) activate() bool {
	if f.Next == 0 {
		return false
	}
	f.Active, f.Running, f.Next = f.Next, f.Slots[f.Next-1], 0
	return true
}

func (f *Firmware) check(slots int) error {
	switch {
	case len(f.Slots) != slots:
		return fmt.Errorf("state of %d slots for a drive of %d", len(f.Slots), slots)
	case f.Active < 1 || f.Active > slots || f.Next < 0 || f.Next > slots:
		return fmt.Errorf("slots %d and %d of %d", f.Active, f.Next, slots)
	case f.Running.Revision == "" || f.Next != 0 && f.Slots[f.Next-1].Revision == "":
		return errors.New("an empty slot is active")
	}
	for _, slot := range append(slices.Clone(f.Slots), f.Running) {
		if slot.Revision != "" && !printable(slot.Revision, revisionLength) {
			return fmt.Errorf("revision %q", slot.Revision)
		}
	}
	return nil
}

// load reads the state file, which is small.
func (d *Drive) load() (Firmware, error) {
	file, err := d.config.FS.Open(d.path)
	if errors.Is(err, fs.ErrNotExist) {
		factory := Slot{Revision: d.config.Revision}
		f := Firmware{Slots: make([]Slot, d.config.Slots), Active: 1, Running: factory}
		f.Slots[0] = factory
		return f, nil
	}
	if err != nil {
		return Firmware{}, fmt.Errorf("read state: %w", err)
	}
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, 64<<10))
	if err != nil {
		return Firmware{}, fmt.Errorf("read state: %w", err)
	}
	var f Firmware
	if err := json.Unmarshal(content, &f); err != nil {
		return Firmware{}, fmt.Errorf("read state %s: %w", d.path, err)
	}
	if err := f.check(d.config.Slots); err != nil {
		return Firmware{}, fmt.Errorf("read state %s: %w", d.path, err)
	}
	return f, nil
}

// keep makes f what the drive holds, on disk first. The caller holds d.mu, or has the only reference to the drive.
func (d *Drive) keep(f Firmware) error {
	content, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return fmt.Errorf("write state: %w", err)
	}
	if err := durable.WriteFile(d.config.FS, d.path, append(content, '\n')); err != nil {
		return fmt.Errorf("write state: %w", err)
	}
	d.firmware = f
	return nil
}
