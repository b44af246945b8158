package nvme

import (
	"context"
	"errors"
	"fmt"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// Driver runs nvme-cli.
type Driver struct{ runner command.Runner }

var (
	_ driver.Driver   = (*Driver)(nil)
	_ driver.Reverter = (*Driver)(nil)
)

// New makes the driver.
func New(runner command.Runner) *Driver { return &Driver{runner: runner} }

// Name is "nvme".
func (*Driver) Name() string { return "nvme" }

// Version is the version of this driver, not of nvme-cli.
func (*Driver) Version() string { return "2" }

// Support is SupportMainline for drives the kernel's NVMe driver has: the commands are those of the NVMe standard, and
// a tool of the drive's own vendor would know it better.
func (*Driver) Support(id inventory.Identity) driver.Support {
	if id.Class != inventory.Disk || id.Transport != "nvme" || id.Node == "" {
		return driver.SupportNone
	}
	return driver.SupportMainline
}

// Inspect reads Identify Controller and the slot log. Activation is a controller reset, what the standard promises; a
// drive that needs more says so when an image is committed. A drive without firmware download is readable, with the
// reason in ReadOnly. The unique id stays the one sysfs gave (WWID); without one it is made of vendor, model and serial
// number, which together are unique by the standard.
func (d *Driver) Inspect(ctx context.Context, id inventory.Identity) (inventory.Identity, inventory.Firmware, error) {
	c, l, err := d.read(ctx, id)
	if err != nil {
		return id, inventory.Firmware{}, err
	}
	id.Model, id.SerialNumber = c.Model, c.Serial
	id.UniqueID = unique(c, id)
	fw := inventory.Firmware{
		Running:    c.Revision,
		Stored:     c.Revision,
		Slots:      slots(c, l),
		Activation: inventory.ActivateDeviceReset,
		Format:     inventory.FormatPlain,
		ReadOnly:   readOnly(c, l),
	}
	fw.Rollback, fw.RollbackMessage = rollback(c, l)
	if _, revision := l.stored(); revision != "" {
		fw.Stored = revision
	}
	return id, fw, nil
}

// Check verifies what can be: the file is whole, its size is one the command can transfer, and the drive takes firmware
// at all. Images of NVMe drives do not describe themselves: that this one is for the drive's model and is the wanted
// version is what the image's source declares, and the drive itself has the last word when the image is committed.
func (d *Driver) Check(ctx context.Context, id inventory.Identity, img driver.Image) error {
	if err := img.Verify(); err != nil {
		return err
	}
	if img.Size == 0 || img.Size%4 != 0 {
		return driver.Rejectf("%s has %d bytes: an NVMe image is a multiple of 4", img.Path, img.Size)
	}
	c, l, err := d.read(ctx, id)
	if err != nil {
		return err
	}
	if reason := readOnly(c, l); reason != "" {
		return driver.Rejectf("%s", reason)
	}
	return nil
}

// Write downloads the image and commits it to a slot that is not running, to be activated by the next reset.
func (d *Driver) Write(ctx context.Context, id inventory.Identity, img driver.Image, progress driver.Progress) (inventory.Activation, error) {
	c, l, err := d.read(ctx, id)
	if err != nil {
		return 0, err
	}
	if _, revision := l.stored(); revision == img.Version {
		return needs(c, l), nil
	}
	if reason := readOnly(c, l); reason != "" {
		return 0, fmt.Errorf("write %s: %s: %w", device(id), reason, driver.ErrNotSupported)
	}
	slot, err := target(c, l)
	if err != nil {
		return 0, fmt.Errorf("write %s: %w", device(id), err)
	}
	lock := unique(c, id)
	if err := d.download(ctx, download(device(id), img.Path, lock, c.UpdateGranularityKB<<10, progress)); err != nil {
		return 0, fmt.Errorf("download firmware to %s: %w", device(id), err)
	}
	cmd := commit(device(id), lock, slot)
	r, err := d.runner.Run(ctx, cmd)
	if err != nil {
		return 0, fmt.Errorf("commit firmware to slot %d of %s: %w", slot, device(id), err)
	}
	activation, err := parseCommit(cmd, r)
	if err != nil {
		return 0, fmt.Errorf("commit firmware to slot %d of %s: %w", slot, device(id), err)
	}
	if progress != nil {
		progress(100)
	}
	return activation, nil
}

func (d *Driver) download(ctx context.Context, c command.Command) error {
	r, err := d.runner.Run(ctx, c)
	if err != nil || r.ExitCode == 0 {
		return err
	}
	if status, found := parseStatus(string(r.Stderr)); found {
		if _, err := classify(status, c, r); err != nil {
			return err
		}
	}
	return command.Failed(c, r, errors.New("the drive did not take the image"))
}

// Activate resets the controller and reads what runs then. Whatever uses the drive waits for the reset, so it is for a
// drained node. A drive that came back with its old firmware needs a reboot.
func (d *Driver) Activate(ctx context.Context, id inventory.Identity, kind inventory.Activation) (inventory.Activation, error) {
	if kind != inventory.ActivateDeviceReset {
		return 0, fmt.Errorf("activate by %s: %w", kind, driver.ErrNotSupported)
	}
	c, l, err := d.read(ctx, id)
	if err != nil {
		return 0, err
	}
	if needs(c, l) == inventory.ActivateNone {
		return inventory.ActivateNone, nil
	}
	cmd := reset(device(id), unique(c, id))
	r, err := d.runner.Run(ctx, cmd)
	if err == nil && r.ExitCode != 0 {
		err = command.Failed(cmd, r, errors.New("controller reset failed"))
	}
	if err != nil {
		return 0, fmt.Errorf("reset %s: %w", device(id), err)
	}
	if c, l, err = d.read(ctx, id); err != nil {
		return 0, fmt.Errorf("after its reset: %w", err)
	}
	if needs(c, l) != inventory.ActivateNone {
		return inventory.ActivateReboot, nil
	}
	return inventory.ActivateNone, nil
}

// readOnly says why the drive takes no firmware, or none now, or nothing.
func readOnly(c controller, l slotLog) string {
	if reason := c.readOnly(); reason != "" {
		return reason
	}
	if _, err := target(c, l); err != nil {
		return err.Error()
	}
	return ""
}

// needs is what the drive needs for its stored image to run, as far as can be known before trying.
func needs(c controller, l slotLog) inventory.Activation {
	if _, revision := l.stored(); revision != "" && revision != c.Revision {
		return inventory.ActivateDeviceReset
	}
	return inventory.ActivateNone
}

func (d *Driver) read(ctx context.Context, id inventory.Identity) (controller, slotLog, error) {
	if id.Node == "" {
		return controller{}, slotLog{}, fmt.Errorf("find drive %s: the kernel has no device for it", id.UniqueID)
	}
	c, err := ask(ctx, d.runner, identify(device(id)), parseController)
	if err != nil {
		return controller{}, slotLog{}, fmt.Errorf("identify %s: %w", device(id), err)
	}
	l, err := ask(ctx, d.runner, firmwareLog(device(id)), parseSlotLog)
	if err != nil {
		return controller{}, slotLog{}, fmt.Errorf("read firmware slots of %s: %w", device(id), err)
	}
	return c, l, nil
}

// ask runs a query and reads its output.
func ask[T any](ctx context.Context, runner command.Runner, c command.Command, parse func([]byte) (T, error)) (T, error) {
	var none T
	r, err := runner.Run(ctx, c)
	if err != nil {
		return none, err
	}
	if r.ExitCode != 0 {
		return none, command.Failed(c, r, errors.New("query failed"))
	}
	v, err := parse(r.Stdout)
	if err != nil {
		return none, command.Failed(c, r, err)
	}
	return v, nil
}

func device(id inventory.Identity) string { return "/dev/" + id.Node }

func unique(c controller, id inventory.Identity) string {
	if id.UniqueID != "" {
		return id.UniqueID
	}
	return fmt.Sprintf("%04x-%s-%s", c.VendorID, c.Model, c.Serial)
}
