package engine

import (
	"context"
	"fmt"

	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// Uses reads what uses the drives of this host.
type Uses interface {
	// Use reads what uses a device now; nothing for a device that is no drive.
	Use(ctx context.Context, id inventory.Identity) (inventory.Use, error)
}

// use is what uses the device; nothing where the host cannot tell.
func (x *execution) use(ctx context.Context, id inventory.Identity) (inventory.Use, error) {
	if x.cfg.Uses == nil || id.Class != inventory.Disk {
		return inventory.Use{}, nil
	}
	return x.cfg.Uses.Use(ctx, id)
}

// disturbs returns why the device must not be disturbed, nil when it may; again is true when that may pass. One job changes one
// drive of each array: bad firmware must not take two.
func (x *execution) disturbs(ctx context.Context, u journal.Update, d inventory.Device) (failure *step.Failure, again bool) {
	if x.job.Record.Touched(u.Device) {
		return nil, false
	}
	use, err := x.use(ctx, d.Identity)
	if err != nil {
		return &step.Failure{Reason: step.ReadFailed, Message: fmt.Sprintf("%s: %v", u.Device, err)}, true
	}
	if hold := use.Hold(); hold != "" {
		return &step.Failure{Reason: step.UnhealthyBefore, Message: fmt.Sprintf(
			"%s: nothing was changed, because %s; repair it or wait for it to recover; the update then continues automatically", u.Device, hold)}, true
	}
	if why := use.Forbids(*d.Firmware); why != "" {
		return &step.Failure{Reason: step.NotUpdatable, Message: fmt.Sprintf("%s: nothing was changed, because %s", u.Device, why)}, false
	}
	for _, a := range use.Arrays {
		if other, taken := x.arrays[a.Name]; taken {
			return &step.Failure{Reason: step.HardwareChanged, Message: fmt.Sprintf(
				"%s and %s are both drives of %s, and a job may change only one of them; nothing was written, and the other is planned afterwards",
				other, u.Device, a.Name)}, false
		}
		x.arrays[a.Name] = u.Device
	}
	return nil, false
}

// hold says why the device must not be disturbed by the current step; empty when it may be.
func (x *execution) hold(ctx context.Context, d inventory.Device) string {
	s := x.job.CurrentStep()
	if s == nil || s.Kind != plan.Flash && s.Kind != plan.Restore && s.Kind != plan.Configure && s.Kind != plan.Activate {
		return ""
	}
	use, err := x.use(ctx, d.Identity)
	if err != nil {
		return err.Error()
	}
	return use.Hold()
}

// activateDevice activates the device. One that the host itself uses is activated without a reset, where it can be, and by a reboot
// otherwise: a drive that did not come back from a reset would take its file systems with it, while a reboot unmounts them first.
// What carries the node is activated by the reboot alone: nothing could report a drive that did not come back, or roll it back.
func (x *execution) activateDevice(
	ctx context.Context, d inventory.Device, drv driver.Driver, kind inventory.Activation,
) (inventory.Activation, error) {
	use, err := x.use(ctx, d.Identity)
	by := use.String()
	if err != nil {
		by = err.Error()
	}
	if err == nil && use.MayReset() {
		return drv.Activate(ctx, d.Identity, kind)
	}
	needs := kind
	if live, ok := drv.(driver.LiveActivator); ok && kind == inventory.ActivateDeviceReset && err == nil && use.MayPause() {
		if needs, err = live.ActivateLive(ctx, d.Identity); err != nil || needs == inventory.ActivateNone {
			return needs, err
		}
	}
	return 0, &driver.NotEnoughError{Needs: max(needs, inventory.ActivateReboot), Reason: "the drive is in use and is not reset: " + by}
}
