package devlink

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/owntool"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// Driver reads adapters through the kernel, and writes them through the tool firmware-devlink.
type Driver struct {
	runner command.Runner
	root   fs.FS
	dial   Dialer
	asked  queries
}

var _ driver.Driver = (*Driver)(nil)

// New returns the driver. Root is the root of the host's file system with its sys directory; dial connects to the
// kernel of that host.
func New(runner command.Runner, root fs.FS, dial Dialer) *Driver {
	return &Driver{runner: runner, root: root, dial: dial}
}

// Name is "devlink".
func (*Driver) Name() string { return "devlink" }

// Version is the version of this driver, not of the kernel.
func (*Driver) Version() string { return "2" }

// Support is SupportGeneric for adapters whose kernel driver is known here: which of the versions it reports is the
// firmware's, and which is the board's name, differs from driver to driver. A vendor's tool supports its adapters
// better.
func (*Driver) Support(id inventory.Identity) driver.Support {
	if _, known := adaptersOf(id); !known || id.Class != inventory.NIC || len(id.PCI) == 0 && id.Node == "" {
		return driver.SupportNone
	}
	return driver.SupportGeneric
}

type reading struct {
	adapters
	handle Handle
	info   Info
	// id is completed from the adapter's answer.
	id inventory.Identity
	// obstacle says why the adapter is not reset, refusal why it is not updated at all; both empty as a rule.
	obstacle, refusal string
}

// Inspect asks the kernel, which asks the adapter. Stored is empty if the kernel driver does not report it.
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
	if fw.ReadOnly = r.refusal; r.obstacle != "" && r.activation < inventory.ActivateReboot {
		fw.Activation, fw.ActivationMessage = inventory.ActivateReboot, r.obstacle
	}
	fw.RollbackMessage = "the kernel cannot read the image from the adapter: an image of " + string(fw.Running) + " from a FirmwareSource is needed"
	return fw
}

// needs is the activation the adapter's stored image needs.
func (r reading) needs() inventory.Activation {
	if !r.firmware().Pending() {
		return inventory.ActivateNone
	}
	return r.firmware().Activation
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
	if err := owntool.Idle(d.runner, id.UniqueID); err != nil {
		return reading{}, fmt.Errorf("read adapter %s: %w", h, err)
	}
	info, err := ask(ctx, &d.asked, h, "info", func() (Info, error) { return d.dial.info(h) })
	if err != nil {
		return reading{}, err
	}
	if info.Running[a.version] == "" {
		return reading{}, fmt.Errorf("read adapter %s: the kernel reports no running version %q; it reports %s",
			h, a.version, names(info.Running))
	}
	for _, v := range []string{info.Running[a.version], info.Stored[a.version]} {
		if slices.Contains(a.unread, v) {
			return reading{}, fmt.Errorf("read adapter %s: the card did not answer the kernel driver, which reports version %s then: "+
				"read it again, and reboot the node if this persists", h, v)
		}
	}
	id.BoardID = info.Fixed[a.board]
	if info.BoardSerial != "" {
		id.SerialNumber = info.BoardSerial
	}
	id.UniqueID = unique(id, info)
	return reading{a, h, info, id, d.obstacle(id), d.modeRefusal(id, h)}, nil
}

// unique is the id from sysfs, unless that is only the slot: then it is made of the adapter's serial numbers, if there
// are any.
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

// Check verifies that the file is complete and, where the kernel driver has a known format, in that format. The board
// and the version of the image are those its source declares; the kernel driver and the adapter make the final check.
func (d *Driver) Check(ctx context.Context, id inventory.Identity, img driver.Image) error {
	if err := img.Verify(); err != nil {
		return err
	}
	r, err := d.read(ctx, id)
	if err != nil {
		return err
	}
	if r.refusal != "" {
		return fmt.Errorf("check adapter %s: %s", r.handle, r.refusal)
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
		return driver.Rejectf("%s is not a %s, and the kernel driver %s accepts no other format: provide an image in that format",
			img.Path, r.container.name, r.id.Kernel)
	}
	return nil
}

// Write lets the kernel write the image. The settings and the addresses of the adapter are kept.
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
	if r.refusal != "" {
		return 0, fmt.Errorf("write adapter %s: nothing was written: %s", r.handle, r.refusal)
	}
	c := flashCommand(r.handle, img, r.id.UniqueID, progress)
	result, err := d.runner.Run(ctx, c)
	if err == nil {
		err = r.classify(c, result)
	}
	if err != nil {
		return 0, fmt.Errorf("write adapter %s: %w", r.handle, err)
	}
	if progress != nil {
		progress(100)
	}
	return r.firmware().Activation, nil
}

// Activate lets the kernel driver reset the adapter, which takes its links down, and reads what runs afterwards. An adapter needs a reboot
// if it cannot be reset, if its driver or another host prevents the reset, or if it still runs its old firmware. Where no firmware
// waits, the driver begins anew for the parameters that it reads then.
func (d *Driver) Activate(ctx context.Context, id inventory.Identity, kind inventory.Activation) (inventory.Activation, error) {
	if kind != inventory.ActivateDriverReload {
		return 0, fmt.Errorf("activate by %s: %w", kind, driver.ErrNotSupported)
	}
	r, err := d.read(ctx, id)
	if err != nil {
		return 0, err
	}
	switch need := r.needs(); {
	case need == inventory.ActivateReboot && r.obstacle != "":
		return 0, &driver.NotEnoughError{Needs: need, Reason: r.obstacle}
	case need == inventory.ActivateNone:
		return need, d.reinit(ctx, r)
	case need != inventory.ActivateDriverReload:
		return need, nil
	}
	c := activateCommand(r.handle, r.id.UniqueID)
	result, err := d.runner.Run(ctx, c)
	switch {
	case err != nil:
		return 0, fmt.Errorf("activate firmware of adapter %s: %w", r.handle, err)
	case result.ExitCode == exitUnsupported:
		return 0, &driver.NotEnoughError{Needs: inventory.ActivateReboot, Reason: "the kernel driver did not reset the adapter: " + owntool.FirstLine(result.Stderr)}
	case result.ExitCode != 0:
		err = command.Failed(c, result, errors.New("the kernel did not activate it"))
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
