package fwupd

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// ATA is the driver of SATA drives. It reads the drive itself, and writes it through fwupd's plugin for ATA drives.
type ATA struct{ runner patient }

var _ driver.Driver = (*ATA)(nil)

// NewATA returns the driver of SATA drives.
func NewATA(runner command.Runner) *ATA { return &ATA{runner: newPatient(runner)} }

// WaitBy sets how the driver waits for another fwupdtool; by default it waits in real time.
func (d *ATA) WaitBy(p Pause) *ATA {
	d.runner.pause = p
	return d
}

// Name is "fwupd-ata".
func (*ATA) Name() string { return "fwupd-ata" }

// Version is the version of this driver, not of fwupd.
func (*ATA) Version() string { return "1" }

// Usable returns an error that names the tools that are not installed.
func (d *ATA) Usable() error { return command.Installed(d.runner, identifyTool, tool) }

// Support is SupportMainline for SATA drives, including those behind a SAS controller: DOWNLOAD MICROCODE is part of
// the standard, and a tool of the drive's vendor would support it better.
func (*ATA) Support(id inventory.Identity) driver.Support {
	if id.Class != inventory.Disk || id.Transport != "sata" || id.Node == "" {
		return driver.SupportNone
	}
	return driver.SupportMainline
}

const noDownload = "the drive reports that it takes no microcode (DOWNLOAD MICROCODE is not supported or not enabled)"

// Inspect reads the drive. Model and version are complete: sysfs has only sixteen characters of the model and four of
// the version, read when the kernel found the drive. Stored is empty: no command reports whether microcode waits for
// its activation. AtWrite is not set: fwupd downloads with deferred activation (mode 0x0e) unless a quirk file sets AtaTransferMode, which
// none of fwupd does from 1.2.4 to 2.1.
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
		fw.ReadOnly = "the drive has no serial number, so it cannot be identified among fwupd's devices"
	default:
		if err := command.Installed(d.runner, tool); err != nil {
			fw.ReadOnly = unusable(err)
		}
	}
	fw.Rollback = inventory.RollbackImage
	fw.RollbackMessage = fmt.Sprintf("the firmware of a SATA drive cannot be read back: an archive of %s from a FirmwareSource is needed", drive.Version)
	if fw.ReadOnly != "" {
		fw.Rollback, fw.RollbackMessage = inventory.RollbackNone, fw.ReadOnly
	}
	return id, fw, nil
}

// Check verifies that the archive is complete and has firmware of the desired version for one of the GUIDs fwupd gives
// this drive, that the drive accepts microcode, and that fwupd reports no problem that prevents the update.
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
		return driver.Rejectf("version %q has more than the %d characters of a SATA drive's version: declare the version as the drive reports it", img.Version, maxVersion)
	}
	components, err := details(ctx, d.runner, img.HeldFor(getDetails(img.Path, drivePlugin)))
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

// Write downloads the microcode, which most drives store until it is activated. It does so even when the drive runs the
// version: the drive does not report whether another one waits for activation, and the download replaces it.
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
	c := img.HeldFor(installATA(img.Path, dev.ID, unique(drive, id)))
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
		return 0, fmt.Errorf("read the drive after the download: %w", err)
	}
	if after.Version == img.Version { // it activates downloads at once, or ran the version before
		return inventory.ActivateNone, nil
	}
	return inventory.ActivateDeviceReset, nil
}

// Activate makes downloaded microcode run: fwupd flushes the drive's cache, puts it into standby and sends the
// activation command. I/O to the drive waits meanwhile, so the node should be drained. A drive that rejects the
// command, or reports its old version afterwards, needs a reboot.
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
		case e != nil && e.is(codeNothingToDo): // nothing waits for activation
			return inventory.ActivateNone, nil
		case e != nil && strings.Contains(e.Message, "failed to activate firmware"):
			return inventory.ActivateReboot, nil
		}
		return 0, fmt.Errorf("activate %s: %w", node(id), refused(c, r))
	}
	after, err := d.identify(ctx, id)
	if err != nil {
		return 0, fmt.Errorf("read the drive after its activation: %w", err)
	}
	if after.Version == before.Version {
		return inventory.ActivateReboot, nil
	}
	return inventory.ActivateNone, nil
}

// device is the drive in fwupd's list, found by the identity the drive reports: fwupd's ids depend on where the drive
// is plugged in, and kernel names change.
func (d *ATA) device(ctx context.Context, drive identity) (fwupdDevice, error) {
	devices, err := list(ctx, d.runner, getDevices(drivePlugin))
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
	return cmp.Or(id.UniqueID, strings.Join([]string{"ata", drive.Model, drive.Serial}, "-"))
}

// identity is the part of the answer to IDENTIFY DEVICE (ACS-4, 7.13.6) that is about firmware.
type identity struct {
	Model, Serial string
	Version       inventory.Version
	// Downloads says that the drive takes microcode.
	Downloads bool
}

// Sizes of the answer and of the version in it, in bytes.
const (
	identifySize = 512
	maxVersion   = 8
)

// exitUnitAttention is sg3_utils' exit code for a command that was not executed because the drive first had to report
// that it was reset.
const exitUnitAttention = 6

// identify reads the drive itself, through the translation layer of its controller. It checks that the device node
// still belongs to the same drive: names move to another drive when one is pulled and another plugged in.
func (d *ATA) identify(ctx context.Context, id inventory.Identity) (identity, error) {
	if id.Node == "" {
		return identity{}, fmt.Errorf("find drive %s: the kernel has no device for it", id.UniqueID)
	}
	c := identifyDrive(id)
	r, err := d.runner.Run(ctx, c)
	if err == nil && r.ExitCode == exitUnitAttention {
		r, err = d.runner.Run(ctx, c)
	}
	switch {
	case err != nil:
		return identity{}, fmt.Errorf("identify %s: %w", node(id), err)
	case r.ExitCode != 0:
		return identity{}, fmt.Errorf("identify %s: %w", node(id),
			command.Failed(c, r, errors.New("the drive did not answer, or its controller passes no ATA commands through")))
	}
	drive, err := parseIdentify(r.Stdout)
	if err != nil {
		return identity{}, fmt.Errorf("identify %s: %w", node(id), err)
	}
	if id.SerialNumber != "" && inventory.NormalizeID(drive.Serial) != inventory.NormalizeID(id.SerialNumber) {
		return identity{}, fmt.Errorf("find drive %s: %s is another drive now, with serial number %s instead of %s: scan again",
			id.UniqueID, node(id), drive.Serial, id.SerialNumber)
	}
	return drive, nil
}

// parseIdentify reads the binary answer to IDENTIFY DEVICE: 256 words, whose strings have their bytes swapped.
func parseIdentify(out []byte) (identity, error) {
	if len(out) != identifySize {
		return identity{}, fmt.Errorf("parse IDENTIFY data: %d bytes instead of %d", len(out), identifySize)
	}
	word := func(n int) uint16 { return binary.LittleEndian.Uint16(out[2*n:]) }
	if byte(word(255)) == 0xa5 { // the signature says that a checksum is present
		var sum byte
		for _, b := range out {
			sum += b
		}
		if sum != 0 {
			return identity{}, errors.New("parse IDENTIFY data: wrong checksum")
		}
	}
	if word(0)&0x8000 != 0 {
		return identity{}, errors.New("parse IDENTIFY data: not an ATA device")
	}
	var drive identity
	var err error
	if drive.Model, err = ataString(out, 27, 46); err != nil {
		return identity{}, fmt.Errorf("parse IDENTIFY data: model: %w", err)
	}
	if drive.Serial, err = ataString(out, 10, 19); err != nil {
		return identity{}, fmt.Errorf("parse IDENTIFY data: serial number: %w", err)
	}
	version, err := ataString(out, 23, 26)
	if err != nil {
		return identity{}, fmt.Errorf("parse IDENTIFY data: version: %w", err)
	}
	if drive.Version = inventory.NormalizeVersion(version); drive.Version == "" {
		return identity{}, errors.New("parse IDENTIFY data: the version is empty")
	}
	// Word 83 says what is supported, if its two highest bits mark it as valid; word 86 what is enabled.
	drive.Downloads = word(83)&0xc000 == 0x4000 && word(83)&1 != 0 && word(86)&1 != 0
	return drive, nil
}

// ataString is the text in the words from first to last, without its padding.
func ataString(out []byte, first, last int) (string, error) {
	var b strings.Builder
	for i := 2 * first; i <= 2*last; i += 2 {
		b.WriteByte(out[i+1])
		b.WriteByte(out[i])
	}
	s := strings.Trim(b.String(), " \x00")
	for _, c := range []byte(s) {
		if c < ' ' || c > '~' {
			return "", fmt.Errorf("%q is not ASCII", s)
		}
	}
	return s, nil
}
