package nvme

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/nvme/admin"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// Activate makes the staged image run in the way the drive offers: without a reset where the drive declares that this works
// and how long it then pauses, otherwise, or where that was not enough, by a controller reset. It then reads what runs. I/O
// to the drive stops during the activation, so the node must be drained. A drive that still runs its old firmware needs a
// reboot. A drive that does not report which slot runs next is expected to run the one that this process committed last, or,
// where none did, is reset if that may activate something.
//
// Activation without a reset is used only for a slot that this process has just written: if the drive still holds an image
// that was downloaded and never committed, the command stores it over what the slot holds. Only after such a write is it
// known that there is none.
func (d *Driver) Activate(ctx context.Context, id inventory.Identity, kind inventory.Activation) (inventory.Activation, error) {
	if kind != inventory.ActivateDeviceReset {
		return 0, fmt.Errorf("activate by %s: %w", kind, driver.ErrNotSupported)
	}
	return d.activate(ctx, id, d.resetAndRead)
}

// ActivateLive commits the staged image to run at once, where the drive offers that and this process has just written it. The
// kernel holds back I/O meanwhile, so that the drive may be in use.
func (d *Driver) ActivateLive(ctx context.Context, id inventory.Identity) (inventory.Activation, error) {
	return d.activate(ctx, id, func(context.Context, inventory.Identity, controller, func(controller) bool) (inventory.Activation, error) {
		return inventory.ActivateDeviceReset, nil
	})
}

// activate activates what is staged without a reset, or, where that cannot be or is not enough, by the reset that is given.
func (d *Driver) activate(
	ctx context.Context, id inventory.Identity,
	reset func(context.Context, inventory.Identity, controller, func(controller) bool) (inventory.Activation, error),
) (inventory.Activation, error) {
	c, l, err := d.read(ctx, id)
	if err != nil {
		return 0, err
	}
	last := d.staged.take(unique(c, id))
	slot, want := l.stored(c)
	if slot == 0 {
		slot, want = last.slot, l.Revisions[last.slot]
	}
	if want == c.Revision || want == "" && !l.mayActivate(c) {
		return inventory.ActivateNone, nil
	}
	old := c.Revision
	runs := func(c controller) bool { return c.Revision == want || want == "" && c.Revision != old }
	if c.pausesBriefly() && last.wrote && last.slot == slot {
		need, err := d.activateNow(ctx, id, c, slot, runs)
		if err != nil || need != inventory.ActivateDeviceReset {
			return need, err
		}
	}
	return reset(ctx, id, c, runs)
}

// resetAndRead resets the controller and reads what runs then.
func (d *Driver) resetAndRead(
	ctx context.Context, id inventory.Identity, c controller, runs func(controller) bool,
) (inventory.Activation, error) {
	if err := d.transport.reset(ctx, to(c, id)); err != nil {
		return 0, fmt.Errorf("reset %s: %w", device(id), err)
	}
	c, _, err := d.read(ctx, id)
	if err != nil {
		return 0, fmt.Errorf("after its reset: %w", err)
	}
	if !runs(c) {
		return inventory.ActivateReboot, nil
	}
	return inventory.ActivateNone, nil
}

// activateNow commits the staged slot to run at once, and returns what is still needed.
func (d *Driver) activateNow(
	ctx context.Context, id inventory.Identity, c controller, slot int, runs func(controller) bool,
) (inventory.Activation, error) {
	reply, err := d.transport.commit(ctx, to(c, id), slot, admin.ActivateNow)
	if err != nil {
		return 0, fmt.Errorf("activate slot %d of %s: %w", slot, device(id), err)
	}
	if reply.status == admin.MaximumTimeViolation {
		// This image takes longer than MTFA allows. A reset has no such bound, and is to be asked for (figure 183).
		if reply, err = d.transport.commit(ctx, to(c, id), slot, admin.ActivateAtReset); err == nil {
			var need inventory.Activation
			if need, err = reply.activation(); err == nil {
				return need, nil
			}
		}
		return 0, fmt.Errorf("commit slot %d of %s again, for a reset: %w", slot, device(id), err)
	}
	if !reply.status.ByHost() {
		need, err := reply.activation()
		if err != nil {
			return 0, fmt.Errorf("activate slot %d of %s: %w", slot, device(id), err)
		}
		if reply.status != admin.Success {
			return need, nil
		}
	}
	if c, err = d.readSettled(ctx, id); err != nil {
		return 0, fmt.Errorf("after its activation: %w", err)
	}
	if !runs(c) {
		return inventory.ActivateDeviceReset, nil
	}
	return inventory.ActivateNone, nil
}

// settling bounds how long the kernel may reject commands after an activation without a reset, which it detects by itself.
// It is a little longer than the time after which the kernel gives up on a controller.
const settling = 3 * time.Minute

// readSettled reads a drive to which the kernel may not send commands yet.
func (d *Driver) readSettled(ctx context.Context, id inventory.Identity) (controller, error) {
	ctx, stop := context.WithTimeout(ctx, settling)
	defer stop()
	pause := time.NewTicker(200 * time.Millisecond)
	defer pause.Stop()
	for {
		c, _, err := d.read(ctx, id)
		if !errors.Is(err, admin.ErrNotReady) {
			return c, err
		}
		select {
		case <-ctx.Done():
			return controller{}, err
		case <-pause.C:
		}
	}
}

// staged records, by unique id, what this process committed successfully and has not changed since.
type staged struct {
	mu    sync.Mutex
	slots map[string]staging
}

// staging is a slot that was committed to run next, and whether its image was downloaded for that.
type staging struct {
	slot  int
	wrote bool
}

func (s *staged) remember(device string, what staging) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.slots == nil {
		s.slots = map[string]staging{}
	}
	s.slots[device] = what
}

func (s *staged) forget(device string) { s.take(device) }

// take forgets what was committed and returns it; slot 0 where there is nothing.
func (s *staged) take(device string) staging {
	s.mu.Lock()
	defer s.mu.Unlock()
	what := s.slots[device]
	delete(s.slots, device)
	return what
}

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
