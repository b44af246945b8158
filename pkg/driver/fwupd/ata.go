package fwupd

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// ATA is the driver of SATA drives. It reads a drive by asking the drive itself, and writes it through fwupd's plugin for
// ATA drives.
type ATA struct{ runner command.Runner }

var _ driver.Driver = (*ATA)(nil)

// NewATA makes the driver of SATA drives.
func NewATA(runner command.Runner) *ATA { return &ATA{runner: runner} }

// Name is "fwupd-ata".
func (*ATA) Name() string { return "fwupd-ata" }

// Version is the version of this driver, not of fwupd.
func (*ATA) Version() string { return "1" }

// Usable says which of the tools are not installed.
func (d *ATA) Usable() error {
	return errors.Join(command.Installed(d.runner, identifyTool), command.Installed(d.runner, tool))
}

// Support is SupportMainline for SATA drives, behind a SAS controller too: DOWNLOAD MICROCODE is part of the standard, and
// a tool of the drive's own vendor would know it better.
func (*ATA) Support(id inventory.Identity) driver.Support {
	if id.Class != inventory.Disk || id.Transport != "sata" || id.Node == "" {
		return driver.SupportNone
	}
	return driver.SupportMainline
}

const noDownload = "the drive says that it takes no microcode (DOWNLOAD MICROCODE is not supported or not enabled)"

// Inspect asks the drive. Model and version are the whole ones: sysfs has sixteen characters of the one and four of the
// other, which it read when it found the drive. Stored is empty: no command tells whether microcode waits for its
// activation.
func (d *ATA) Inspect(ctx context.Context, id inventory.Identity) (inventory.Identity, inventory.Firmware, error) {
	drive, err := d.identify(ctx, id)
	if err != nil {
		return id, inventory.Firmware{}, err
	}
	id.Model, id.SerialNumber, id.UniqueID = drive.Model, drive.Serial, unique(drive, id)
	fw := inventory.Firmware{Running: drive.Version, Activation: inventory.ActivateDeviceReset, Format: inventory.FormatPlain}
	switch {
	case !drive.Downloads:
		fw.ReadOnly = noDownload
	case drive.Serial == "":
		fw.ReadOnly = "the drive has no serial number, so that fwupd's devices cannot be told apart"
	case command.Installed(d.runner, tool) != nil:
		fw.ReadOnly = "fwupdtool is not installed where the daemon looks for tools"
	}
	fw.Rollback = inventory.RollbackImage
	fw.RollbackMessage = fmt.Sprintf("a SATA drive cannot be read out: an archive of %s from a FirmwareSource is needed", drive.Version)
	if fw.ReadOnly != "" {
		fw.Rollback, fw.RollbackMessage = inventory.RollbackNone, fw.ReadOnly
	}
	return id, fw, nil
}

// Check verifies that the archive is whole and has firmware of the wanted version for one of the GUIDs fwupd gives this
// drive, that the drive takes microcode, and that fwupd knows nothing that keeps it from writing it.
func (d *ATA) Check(ctx context.Context, id inventory.Identity, img driver.Image) error {
	if err := img.Verify(); err != nil {
		return err
	}
	drive, err := d.identify(ctx, id)
	switch {
	case err != nil:
		return err
	case !drive.Downloads:
		return driver.Rejectf(noDownload)
	case len(img.Version) > maxVersion:
		return driver.Rejectf("version %q has more than the %d characters of a SATA drive's: declare what the drive shows", img.Version, maxVersion)
	}
	components, err := details(ctx, d.runner, getATADetails(img.Path))
	if err != nil {
		return err
	}
	dev, err := d.device(ctx, drive)
	if err != nil {
		return err
	}
	if err := checkFit(components, dev.GUIDs, img); err != nil {
		return err
	}
	return dev.hindered()
}

// Write downloads the microcode, which most drives store until they are told to activate it. It does so even when the drive
// runs the version: the drive cannot tell whether another one waits in it, and what is downloaded takes that one's place.
func (d *ATA) Write(ctx context.Context, id inventory.Identity, img driver.Image, progress driver.Progress) (inventory.Activation, error) {
	drive, err := d.identify(ctx, id)
	if err != nil {
		return 0, err
	}
	if !drive.Downloads {
		return 0, fmt.Errorf("write %s: %s: %w", node(id), noDownload, driver.ErrNotSupported)
	}
	dev, err := d.device(ctx, drive)
	if err == nil {
		err = dev.hindered()
	}
	if err != nil {
		return 0, err
	}
	c := installATA(img.Path, dev.ID, unique(drive, id))
	r, err := d.runner.Run(ctx, c)
	switch {
	case err != nil:
		return 0, fmt.Errorf("download firmware to %s: %w", node(id), err)
	case r.ExitCode != 0:
		return 0, fmt.Errorf("download firmware to %s: %w", node(id), refused(c, r))
	}
	if progress != nil {
		progress(100)
	}
	after, err := d.identify(ctx, id)
	if err != nil {
		return 0, fmt.Errorf("ask the drive after the download: %w", err)
	}
	if after.Version == img.Version { // it activates what it downloads, or ran the version before
		return inventory.ActivateNone, nil
	}
	return inventory.ActivateDeviceReset, nil
}

// Activate makes downloaded microcode run: fwupd flushes the drive's cache, puts it to standby and tells it to. Whatever
// uses the drive waits for it, so it is for a drained node. A drive that does not take the command, or shows its old
// version afterwards, needs a reboot.
func (d *ATA) Activate(ctx context.Context, id inventory.Identity, kind inventory.Activation) (inventory.Activation, error) {
	if kind != inventory.ActivateDeviceReset {
		return 0, fmt.Errorf("activate by %s: %w", kind, driver.ErrNotSupported)
	}
	before, err := d.identify(ctx, id)
	if err != nil {
		return 0, err
	}
	dev, err := d.device(ctx, before)
	if err != nil {
		return 0, err
	}
	c := activateATA(dev.ID, unique(before, id))
	r, err := d.runner.Run(ctx, c)
	if err != nil {
		return 0, fmt.Errorf("activate %s: %w", node(id), err)
	}
	if r.ExitCode != 0 {
		e := reported(r)
		switch {
		case e != nil && e.is(codeNothingToDo): // nothing waits
			return inventory.ActivateNone, nil
		case e != nil && strings.Contains(e.Message, "failed to activate firmware"):
			return inventory.ActivateReboot, nil
		}
		return 0, fmt.Errorf("activate %s: %w", node(id), refused(c, r))
	}
	after, err := d.identify(ctx, id)
	if err != nil {
		return 0, fmt.Errorf("ask the drive after its activation: %w", err)
	}
	if after.Version == before.Version {
		return inventory.ActivateReboot, nil
	}
	return inventory.ActivateNone, nil
}

// device is the drive as fwupd lists it, found by what the drive says of itself: fwupd's ids follow the place a drive is
// plugged in, and names of the kernel move.
func (d *ATA) device(ctx context.Context, drive identity) (fwupdDevice, error) {
	devices, err := list(ctx, d.runner, getATADevices())
	if err != nil {
		return fwupdDevice{}, fmt.Errorf("list fwupd's drives: %w", err)
	}
	var found []fwupdDevice
	for _, dev := range devices {
		if drive.Serial != "" && inventory.NormalizeID(dev.Serial) == inventory.NormalizeID(drive.Serial) && dev.Plugin == "ata" {
			found = append(found, dev)
		}
	}
	if len(found) != 1 {
		return fwupdDevice{}, fmt.Errorf("find drive: fwupd lists %d drives with the serial number %q, and exactly one is needed: run fwupdtool get-devices --plugins ata",
			len(found), drive.Serial)
	}
	return found[0], nil
}

// unique is the id of the drive, under which its writes are locked.
func unique(drive identity, id inventory.Identity) string {
	if id.UniqueID != "" {
		return id.UniqueID
	}
	return strings.Join([]string{"ata", drive.Model, drive.Serial}, "-")
}
