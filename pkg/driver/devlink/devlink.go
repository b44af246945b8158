package devlink

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// Driver asks the kernel, and writes through the tool firmware-devlink.
type Driver struct {
	runner command.Runner
	root   fs.FS
	dial   Dialer
	asked  questions
}

var _ driver.Driver = (*Driver)(nil)

// New makes the driver. Root is the host's, with its sys directory; the connections reach the kernel of that host.
func New(runner command.Runner, root fs.FS, dial Dialer) *Driver {
	return &Driver{runner: runner, root: root, dial: dial}
}

// Name is "devlink".
func (*Driver) Name() string { return "devlink" }

// Version is the version of this driver, not of the kernel.
func (*Driver) Version() string { return "1" }

// Support is SupportGeneric for adapters whose kernel driver is known here: which of the versions it reports is the
// firmware's, and which is the board's name, differs from driver to driver. A tool made for the adapter knows it better.
func (*Driver) Support(id inventory.Identity) driver.Support {
	if _, known := adaptersOf(id); !known || id.Class != inventory.NIC || len(id.PCI) == 0 && id.Node == "" {
		return driver.SupportNone
	}
	return driver.SupportGeneric
}

// reading is what was read of an adapter.
type reading struct {
	adapters
	handle Handle
	info   Info
	// id is completed with it.
	id inventory.Identity
}

// Inspect asks the kernel, which asks the adapter. Stored is empty where the kernel's driver does not tell it.
func (d *Driver) Inspect(ctx context.Context, id inventory.Identity) (inventory.Identity, inventory.Firmware, error) {
	r, err := d.read(ctx, id)
	if err != nil {
		return id, inventory.Firmware{}, err
	}
	return r.id, r.firmware(), nil
}

func (r reading) firmware() inventory.Firmware {
	fw := inventory.Firmware{
		Running:    inventory.NormalizeVersion(r.info.Running[r.version]),
		Stored:     inventory.NormalizeVersion(r.info.Stored[r.version]),
		Activation: r.activation,
		Format:     r.format,
		Rollback:   inventory.RollbackImage,
	}
	fw.RollbackMessage = "the kernel reads no image out of the adapter: one of " + string(fw.Running) + " from a FirmwareSource is needed"
	return fw
}

// needs is what the adapter needs for its stored image to run.
func (r reading) needs() inventory.Activation {
	if !r.firmware().Pending() {
		return inventory.ActivateNone
	}
	return r.activation
}

func (d *Driver) read(ctx context.Context, id inventory.Identity) (reading, error) {
	a, known := adaptersOf(id)
	if !known {
		return reading{}, fmt.Errorf("read adapter %s: kernel driver %q: %w", id.UniqueID, id.Kernel, driver.ErrNotSupported)
	}
	h, err := handleOf(d.root, id)
	if err != nil {
		return reading{}, err
	}
	if err := d.idle(id); err != nil {
		return reading{}, fmt.Errorf("read adapter %s: %w", h, err)
	}
	info, err := d.asked.info(ctx, d.dial, h)
	if err != nil {
		return reading{}, err
	}
	if info.Running[a.version] == "" {
		return reading{}, fmt.Errorf("read adapter %s: the kernel reports no running version %q of it; it reports %s",
			h, a.version, names(info.Running))
	}
	id.BoardID = info.Fixed[a.board]
	if info.BoardSerial != "" {
		id.SerialNumber = info.BoardSerial
	}
	id.UniqueID = unique(id, info)
	return reading{a, h, info, id}, nil
}

// idle says that the adapter is being written: the kernel would keep us waiting until it is not. Where the runner does not
// tell, the kernel does. The lock of a write that has ended may be held for another instant, by a process that was started
// at that moment.
func (d *Driver) idle(id inventory.Identity) error {
	writes, ok := d.runner.(interface {
		Writing(lock string) (*command.Writing, error)
	})
	if !ok || id.UniqueID == "" {
		return nil
	}
	w, err := writes.Writing(id.UniqueID)
	if err == nil && w != nil && w.State == command.WriteRunning && w.Ended == nil {
		err = fmt.Errorf("%w: read it again when that is over", command.ErrBusy)
	}
	return err
}

// unique is the id sysfs gave, unless that is no more than the slot: then the serial numbers name the adapter, if there are
// any.
func unique(id inventory.Identity, info Info) string {
	named := id.UniqueID != "" && !strings.HasPrefix(id.UniqueID, "pci.")
	if named || info.Serial == "" && info.BoardSerial == "" {
		return id.UniqueID
	}
	name := "devlink." + id.Kernel
	for _, serial := range []string{info.Serial, info.BoardSerial} {
		if serial != "" {
			name += "-" + serial
		}
	}
	return name
}

// Check verifies what can be: that the file is whole, and in the format the kernel's driver takes where that has one. For
// which board it is, and which version, is what its source declares; the kernel's driver and the adapter have the last word.
func (d *Driver) Check(ctx context.Context, id inventory.Identity, img driver.Image) error {
	if err := img.Verify(); err != nil {
		return err
	}
	r, err := d.read(ctx, id)
	if err != nil {
		return err
	}
	return r.checkContainer(img)
}

func (r reading) checkContainer(img driver.Image) error {
	f, err := os.Open(img.Path)
	if err != nil {
		return fmt.Errorf("open image: %w", err)
	}
	defer f.Close()
	head := make([]byte, max(1, len(r.container.mark)))
	switch _, err := io.ReadFull(f, head); {
	case errors.Is(err, io.EOF):
		return driver.Rejectf("%s is empty: fetch it again", img.Path)
	case err != nil && !errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("read image %s: %w", img.Path, err)
	}
	if !r.container.matches(head) {
		return driver.Rejectf("%s is no %s, and the kernel driver %s takes nothing else: name an image in that format",
			img.Path, r.container.name, r.id.Kernel)
	}
	return nil
}

// Write has the kernel write the image. The settings and the addresses of the adapter stay.
func (d *Driver) Write(
	ctx context.Context, id inventory.Identity, img driver.Image, progress driver.Progress,
) (inventory.Activation, error) {
	r, err := d.read(ctx, id)
	if err != nil {
		return 0, err
	}
	if r.firmware().Stored == img.Version {
		return r.needs(), nil
	}
	if err := r.checkContainer(img); err != nil {
		return 0, err
	}
	c := flashCommand(r.handle, img.Path, r.id.UniqueID, progress)
	result, err := d.runner.Run(ctx, c)
	if err == nil {
		err = classify(c, result)
	}
	if err != nil {
		return 0, fmt.Errorf("write adapter %s: %w", r.handle, err)
	}
	if progress != nil {
		progress(100)
	}
	return r.activation, nil
}

// Activate has the kernel's driver reset the adapter, whose links go down, and reads what runs then. One that cannot be
// reset, or runs its old firmware afterwards, needs a reboot.
func (d *Driver) Activate(ctx context.Context, id inventory.Identity, kind inventory.Activation) (inventory.Activation, error) {
	if kind != inventory.ActivateDriverReload {
		return 0, fmt.Errorf("activate by %s: %w", kind, driver.ErrNotSupported)
	}
	r, err := d.read(ctx, id)
	if err != nil {
		return 0, err
	}
	if need := r.needs(); need != inventory.ActivateDriverReload {
		return need, nil
	}
	c := activateCommand(r.handle, r.id.UniqueID)
	result, err := d.runner.Run(ctx, c)
	switch {
	case err != nil:
		return 0, fmt.Errorf("activate firmware of adapter %s: %w", r.handle, err)
	case result.ExitCode == exitUnsupported:
		return inventory.ActivateReboot, nil
	case result.ExitCode != 0:
		err = command.Failed(c, result, errors.New("the kernel could not"))
		return 0, fmt.Errorf("activate firmware of adapter %s: %w", r.handle, err)
	}
	after, err := d.read(ctx, r.id)
	if err != nil {
		return 0, fmt.Errorf("read adapter after its firmware was activated: %w", err)
	}
	if after.firmware().Pending() {
		return inventory.ActivateReboot, nil
	}
	return inventory.ActivateNone, nil
}
