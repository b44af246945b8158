package nvme

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/nvme/admin"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// Driver updates NVMe drives. Its decisions do not depend on the transport.
type Driver struct {
	transport transport
	staged    staged
}

var (
	_ driver.Driver        = (*Driver)(nil)
	_ driver.Reverter      = (*Driver)(nil)
	_ driver.Prober        = (*Driver)(nil)
	_ driver.LiveActivator = (*Driver)(nil)
	_ driver.HourMeter     = (*Driver)(nil)
	_ driver.Eraser        = (*Driver)(nil)
)

// New makes the driver that runs nvme-cli. It is for machines whose drives the running kernel does not have, such as
// simulated ones.
func New(runner command.Runner) *Driver { return &Driver{transport: cli{runner: runner}} }

// NewNative makes the driver that reads through the running kernel and writes through the tool of package nvmetool.
func NewNative(runner command.Runner, open admin.Opener) *Driver {
	return &Driver{transport: newNative(runner, open)}
}

// Tools are the external programs the driver runs: none if it talks to the kernel directly.
func (d *Driver) Tools() []string {
	if _, ok := d.transport.(cli); ok {
		return []string{tool}
	}
	return nil
}

// Usable returns an error when the tool is not installed.
func (d *Driver) Usable() error { return d.transport.usable() }

// Name is "nvme".
func (*Driver) Name() string { return "nvme" }

// Version is the version of this driver, not of nvme-cli.
func (*Driver) Version() string { return "7" }

// Support is SupportMainline for drives of the kernel's NVMe driver: the commands are those of the NVMe standard, and a
// vendor's own tool supports its drives better.
func (*Driver) Support(id inventory.Identity) driver.Support {
	if id.Class != inventory.Disk || id.Transport != "nvme" || id.Node == "" {
		return driver.SupportNone
	}
	return driver.SupportMainline
}

// Inspect reads Identify Controller and the slot log. Stored is empty where the drive does not report which slot runs next.
// Activation is a controller reset, as the standard defines; a drive that
// needs more reports so when an image is committed. A drive without firmware download can be read, with the reason in
// ReadOnly. The unique id is that of sysfs, see unique.
func (d *Driver) Inspect(ctx context.Context, id inventory.Identity) (inventory.Identity, inventory.Firmware, error) {
	c, l, err := d.read(ctx, id)
	if err != nil {
		return id, inventory.Firmware{}, err
	}
	id.Model, id.SerialNumber = c.Model, c.Serial
	id.UniqueID = unique(c, id)
	fw := inventory.Firmware{
		Running:    c.Revision,
		Slots:      slots(c, l),
		Activation: inventory.ActivateDeviceReset,
		Format:     inventory.FormatPlain,
		ReadOnly:   readOnly(c, l),
	}
	fw.Rollback, fw.RollbackMessage = rollback(c, l)
	if _, fw.Stored = l.stored(c); !c.Downloadable {
		fw.Stored = c.Revision
	}
	return id, fw, nil
}

// PowerOnHours reads the count in the SMART / Health Information log.
func (d *Driver) PowerOnHours(ctx context.Context, id inventory.Identity) (int64, error) {
	return d.transport.powerOnHours(ctx, id.Node)
}

// Check verifies what can be verified: the file is whole, the command can transfer its size, and the drive accepts firmware
// at all. Images of NVMe drives do not describe themselves. The image's source declares that it is for the drive's model and
// is the desired version, and the drive decides when the image is committed.
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
	if _, revision := l.stored(c); revision == img.Version {
		return needs(c, l), nil
	}
	if reason := readOnly(c, l); reason != "" {
		return 0, fmt.Errorf("write %s: %s: %w", device(id), reason, driver.ErrNotSupported)
	}
	slot, err := slotFor(c, l)
	if err != nil {
		return 0, fmt.Errorf("write %s: %w", device(id), err)
	}
	d.staged.forget(unique(c, id))
	reply, err := d.transport.download(ctx, to(c, id), img, slot, progress)
	if errors.Is(err, errOverlapping) && !l.mayActivate(c) {
		// This process holds the lock, so no other write of this product is running: an earlier download was interrupted. Some
		// drives keep its pieces until a reset. The reset activates nothing, because nothing can await activation.
		if err = d.transport.reset(ctx, to(c, id)); err == nil {
			reply, err = d.transport.download(ctx, to(c, id), img, slot, progress)
		}
	}
	if err != nil {
		return 0, fmt.Errorf("write slot %d of %s: %w", slot, device(id), err)
	}
	activation, err := reply.activation()
	if err != nil {
		return 0, fmt.Errorf("commit firmware to slot %d of %s: %w", slot, device(id), err)
	}
	d.staged.remember(unique(c, id), staging{slot: slot, wrote: true})
	if progress != nil {
		progress(100)
	}
	return activation, nil
}

// readOnly is the reason why the drive cannot be updated, or cannot be updated now, or empty.
func readOnly(c controller, l slotLog) string {
	if reason := c.readOnly(); reason != "" {
		return reason
	}
	if _, err := slotFor(c, l); err != nil {
		return err.Error()
	}
	return ""
}

// needs is the activation that the stored image needs, as far as the drive reports it before it is tried.
func needs(c controller, l slotLog) inventory.Activation {
	if _, revision := l.stored(c); revision != "" && revision != c.Revision {
		return inventory.ActivateDeviceReset
	}
	return inventory.ActivateNone
}

func (d *Driver) read(ctx context.Context, id inventory.Identity) (controller, slotLog, error) {
	if id.Node == "" {
		return controller{}, slotLog{}, fmt.Errorf("find drive %s: the kernel has no device for it", id.UniqueID)
	}
	return d.transport.read(ctx, id.Node)
}

func device(id inventory.Identity) string { return "/dev/" + id.Node }

func to(c controller, id inventory.Identity) target {
	return target{node: id.Node, lock: unique(c, id), controller: c}
}

// unique is the drive's id. It is that of sysfs, which names the first namespace, unless the drive of this machine may have several
// ports: then a namespace belongs to one of them, and goes with it when that port dies. Such a drive, and one that sysfs has no id of,
// is named by vendor, model and serial number, which together are unique by the standard (NVMe Base Specification 2.0, section 4.5.1).
// A drive behind a network is named by its subsystem already.
func unique(c controller, id inventory.Identity) string {
	local := id.Kernel == kernelDriver
	if id.UniqueID != "" && (!c.Shared || !local || c.Serial == "") {
		return id.UniqueID
	}
	return strings.Join(strings.Fields(fmt.Sprintf("%04x-%s-%s", c.VendorID, c.Model, c.Serial)), "-")
}

// kernelDriver is the kernel driver of the drives of this machine; those behind a network have others.
const kernelDriver = "nvme"
