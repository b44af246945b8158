package drivertest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// Archive writes the running image, including its defect, to a new file. It is not supported by devices that were added
// with another rollback than ReadBack.
func (s *Simulated) Archive(_ context.Context, id inventory.Identity, path string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, err := s.open(id)
	if err != nil {
		return err
	}
	if d.firmware.Rollback != inventory.RollbackReadBack {
		return fmt.Errorf("read the image of %s: %w", d.id.UniqueID, driver.ErrNotSupported)
	}
	d.archives++
	switch {
	case d.faults[Unreadable]:
		return toolError("read", d, errSilent)
	case d.faults[FailArchive]:
		return toolError("read", d, errors.New("the device stopped in the middle"))
	}
	return createFile(path, d.image())
}

// createFile creates a new, complete file, or leaves none.
func createFile(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("write image: %w", err)
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(fmt.Errorf("write image: %w", err), os.Remove(path))
	}
	return nil
}

// Archives returns how often Archive reached the device.
func (s *Simulated) Archives(uniqueID string) int {
	n := 0
	s.change(uniqueID, func(d *device) { n = d.archives })
	return n
}

// Revert makes the version of a slot the one that runs next. It is not supported by devices that were added with
// another rollback than Slot.
func (s *Simulated) Revert(ctx context.Context, id inventory.Identity, v inventory.Version) (inventory.Activation, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, err := s.open(id)
	if err != nil {
		return 0, err
	}
	to := slices.IndexFunc(d.firmware.Slots, func(slot inventory.Slot) bool { return v != "" && slot.Version == v })
	switch {
	case d.firmware.Rollback != inventory.RollbackSlot:
		return 0, fmt.Errorf("revert %s to %s: %w", d.id.UniqueID, v, driver.ErrNotSupported)
	case d.faults[Unreadable]:
		return 0, toolError("query", d, errSilent)
	case to < 0:
		return 0, fmt.Errorf("revert %s to %s, which none of its slots holds: %w", d.id.UniqueID, v, driver.ErrNotSupported)
	case d.busy || d.faults[BusyWrite]:
		return 0, toolError("revert", d, command.ErrBusy)
	case d.firmware.Stored == v:
		return d.needs(), nil
	}
	s.operations = append(s.operations, Operation{OpRevert, d.id.UniqueID})
	switch {
	case d.faults[FailRevert]:
		return 0, toolError("revert", d, errors.New("the device refused the slot"))
	case d.faults[HangWrite]:
		if err := s.hang(ctx, d, "revert", func() { d.revert(to) }); err != nil {
			return 0, err
		}
	default:
		was := content{d.id.BoardID, v, d.inSlot[d.firmware.Slots[to].Number]}
		err := s.carryOut(ctx, Change{
			Operation: Operation{OpRevert, d.id.UniqueID}, Version: v, Digest: sha256.Sum256(imageBytes(was)), Apply: func() { d.revert(to) },
		})
		if err != nil {
			return 0, err
		}
	}
	return d.written(), nil
}

// LinkDown reports whether the device has no links because of the firmware it runs.
func (s *Simulated) LinkDown(uniqueID string) bool {
	down := false
	s.change(uniqueID, func(d *device) {
		p := d.parameter(d.unplugs.Name)
		down = d.running == DefectLinkDown || d.running == DefectTorn || p != nil && p.Runs(d.unplugs.Value)
	})
	return down
}
