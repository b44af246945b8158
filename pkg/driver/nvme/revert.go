package nvme

import (
	"context"
	"fmt"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/nvme/admin"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// Revert commits the slot that holds the version, without a download: no slot is written. Reverting to the running version cancels the
// activation of an image that is, or may be, staged.
func (d *Driver) Revert(ctx context.Context, id inventory.Identity, version inventory.Version) (inventory.Activation, error) {
	c, l, err := d.read(ctx, id)
	if err != nil {
		return 0, err
	}
	if _, revision := l.stored(c); revision == version && version != "" {
		return needs(c, l), nil
	}
	slot := l.holder(version)
	switch {
	case c.readOnly() != "":
		return 0, fmt.Errorf("revert %s to %s: %s: %w", device(id), version, c.readOnly(), driver.ErrNotSupported)
	case slot == 0:
		return 0, fmt.Errorf("revert %s to %s, which none of its slots holds: %w", device(id), version, driver.ErrNotSupported)
	}
	d.staged.forget(unique(c, id))
	reply, err := d.transport.commit(ctx, to(c, id), slot, admin.ActivateAtReset)
	if err != nil {
		return 0, fmt.Errorf("commit slot %d of %s: %w", slot, device(id), err)
	}
	activation, err := reply.activation()
	if err != nil {
		return 0, fmt.Errorf("commit slot %d of %s: %w", slot, device(id), err)
	}
	if version == c.Revision {
		return inventory.ActivateNone, nil
	}
	d.staged.remember(unique(c, id), staging{slot: slot})
	return activation, nil
}

// holder is the slot that holds the revision, preferably the running one; 0 when none does.
func (l slotLog) holder(revision inventory.Version) int {
	if revision == "" {
		return 0
	}
	if l.Active != 0 && l.Revisions[l.Active] == revision {
		return l.Active
	}
	for slot := 1; slot <= admin.MaxSlots; slot++ {
		if l.Revisions[slot] == revision {
			return slot
		}
	}
	return 0
}

// rollback is how the running firmware can be restored after a write to the slot that slotFor picks, and why not by a slot.
func rollback(c controller, l slotLog) (inventory.Rollback, string) {
	if reason := readOnly(c, l); reason != "" {
		return inventory.RollbackNone, reason
	}
	slot, err := slotFor(c, l)
	if err != nil {
		return inventory.RollbackNone, err.Error()
	}
	for kept, revision := range l.Revisions {
		if kept != slot && revision == c.Revision {
			return inventory.RollbackSlot, ""
		}
	}
	if c.Slots == 1 {
		return inventory.RollbackImage, fmt.Sprintf("the drive has one firmware slot, which an update overwrites: an image of %s is needed", c.Revision)
	}
	return inventory.RollbackImage, fmt.Sprintf("the drive does not list the slot it runs %s from: an image of it is needed", c.Revision)
}
