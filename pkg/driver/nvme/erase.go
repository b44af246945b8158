package nvme

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/nvme/admin"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// actions are the Sanitize Actions of the methods.
var actions = map[driver.EraseMethod]admin.SanitizeAction{
	driver.EraseCrypto: admin.CryptoErase, driver.EraseBlock: admin.BlockErase, driver.EraseOverwrite: admin.Overwrite,
}

// Erasure reads Identify Controller and, where the drive can be sanitized, its Sanitize Status log.
func (d *Driver) Erasure(ctx context.Context, id inventory.Identity) (driver.Erasure, error) {
	c, _, err := d.read(ctx, id)
	if err == nil {
		err = c.isDrive(id)
	}
	if err != nil {
		return driver.Erasure{}, err
	}
	e := driver.Erasure{Methods: c.Sanitize, By: "NVMe sanitize"}
	if c.Shared {
		e.Shared = "the drive may have other controllers (CMIC), by which another host may use it"
	}
	if len(c.Sanitize) == 0 {
		if c.Format != "" {
			e.Otherwise = c.Format + ", which this product does not do"
		}
		return e, nil
	}
	log, err := d.transport.sanitizeLog(ctx, id.Node)
	if err != nil {
		return driver.Erasure{}, err
	}
	e.Untouched, e.Mark, e.Log = log.GlobalDataErased, log.Command, log.String()
	for method, action := range actions {
		if log.State != admin.NeverSanitized && log.Action() == action {
			e.Method = method
		}
	}
	switch log.State {
	case admin.NeverSanitized:
		e.State, e.Report = driver.EraseNever, "log 81h: never sanitized"
	case admin.Sanitized, admin.SanitizedNoDealloc:
		e.State, e.Report = driver.EraseCompleted, "log 81h: completed"
	case admin.Sanitizing:
		e.State, e.Report, e.Percent = driver.EraseRunning, "log 81h: in progress", int(log.Progress)*100>>16
	case admin.SanitizeFailed:
		e.State, e.Report = driver.EraseFailed, "log 81h: failed"
		e.LeaveBy = "nvme sanitize " + device(id) + " --sanact=1"
		if !log.UnrestrictedExit() { // only another sanitize ends it, which a person is to begin
			e.LeaveBy = fmt.Sprintf("nvme sanitize %s --sanact=%d --ause", device(id), actions[c.Sanitize[0]])
		}
	}
	return e, nil
}

// Erase sends one Sanitize command.
func (d *Driver) Erase(ctx context.Context, id inventory.Identity, method driver.EraseMethod) error {
	c, _, err := d.read(ctx, id)
	if err == nil {
		err = c.isDrive(id)
	}
	if err == nil && !slices.Contains(c.Sanitize, method) {
		err = fmt.Errorf("the drive offers no sanitize by %s: %w", method, driver.ErrNotSupported)
	}
	if err != nil {
		return notErased("%v", err)
	}
	a, err := d.transport.sanitize(ctx, to(c, id), actions[method])
	switch {
	case errors.Is(err, errUnsent):
		return notErased("%v", err)
	case err != nil:
		return fmt.Errorf("sanitize %s: %w", device(id), err)
	case a.status.ByHost():
		return a.failed("the command was ended by this machine")
	}
	switch a.status {
	case admin.Success:
		return nil
	case admin.SanitizeInProgress:
		return notErased("the drive is being sanitized already, which this job did not begin")
	case admin.NeedsControllerReset, admin.NeedsConventionalReset, admin.NeedsSubsystemReset:
		return notErased("the drive holds firmware that waits for its activation, and is not sanitized before; reboot the node, or activate it otherwise")
	case admin.InvalidOpcode, admin.InvalidField, admin.WriteProtected, admin.SanitizeProhibited:
		return notErased("the drive answered %s", a.status)
	}
	return fmt.Errorf("sanitize %s: the drive answered %s", device(id), a.status)
}

// isDrive returns an error where the kernel gave the name of the drive to another one.
func (c controller) isDrive(id inventory.Identity) error {
	if c.Serial != id.SerialNumber || c.Model != id.Model {
		return fmt.Errorf("%s is another drive now, %s with the serial number %q", device(id), c.Model, c.Serial)
	}
	return nil
}

func notErased(format string, args ...any) error {
	return &driver.RejectedError{Of: "erasure", Reason: fmt.Sprintf(format, args...)}
}
