package scsi

import (
	"context"
	"fmt"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// maxImage is what the 24 bits of an offset of WRITE BUFFER can address.
const maxImage = 16 << 20

// maxRevision is the length of a revision in the INQUIRY data.
const maxRevision = 4

// Driver runs sg3_utils.
type Driver struct{ runner command.Runner }

var _ driver.Driver = (*Driver)(nil)

// New makes the driver.
func New(runner command.Runner) *Driver { return &Driver{runner: runner} }

// Name is "scsi".
func (*Driver) Name() string { return "scsi" }

// Version is the version of this driver, not of sg3_utils.
func (*Driver) Version() string { return "1" }

// Support is SupportMainline for SAS drives: the commands are those of the SCSI standard, and a tool of the drive's own
// vendor would know it better. SATA drives behind a SAS controller are not for WRITE BUFFER.
func (*Driver) Support(id inventory.Identity) driver.Support {
	if id.Class != inventory.Disk || id.Transport != "sas" || id.Node == "" {
		return driver.SupportNone
	}
	return driver.SupportMainline
}

// Inspect reads the INQUIRY data and which modes of WRITE BUFFER the drive takes. A drive that names none it can be
// written with is readable, with the reason in ReadOnly: RAID volumes and virtual disks look like SAS drives and are
// told apart by this. Stored is empty: no command tells whether microcode waits for its activation. The unique id stays
// the one sysfs gave; without one it is made of vendor, product and serial number.
func (d *Driver) Inspect(ctx context.Context, id inventory.Identity) (inventory.Identity, inventory.Firmware, error) {
	s, err := d.read(ctx, id)
	if err != nil {
		return id, inventory.Firmware{}, err
	}
	id.Vendor, id.Model, id.UniqueID = s.Vendor, s.Model, unique(s, id)
	if s.Serial != "" {
		id.SerialNumber = s.Serial
	}
	fw := inventory.Firmware{
		Running:    s.Revision,
		Activation: s.modes.activation(),
		Format:     inventory.FormatPlain,
		ReadOnly:   s.modes.readOnly(),
	}
	fw.Rollback, fw.RollbackMessage = rollback(s)
	return id, fw, nil
}

// Check verifies what can be: the file is whole, its size is one the command can transfer, the version is one the drive
// can show, and the drive takes firmware at all. Images of SAS drives do not describe themselves: that this one is for
// the drive's model and is the wanted version is what the image's source declares, and the drive has the last word.
func (d *Driver) Check(ctx context.Context, id inventory.Identity, img driver.Image) error {
	if err := img.Verify(); err != nil {
		return err
	}
	if img.Size == 0 || img.Size%4 != 0 || img.Size > maxImage {
		return driver.Rejectf("%s has %d bytes: a SAS drive's image is a multiple of 4 and has at most %d",
			img.Path, img.Size, maxImage)
	}
	if len(img.Version) > maxRevision {
		return driver.Rejectf("version %q has more than the %d characters of a SAS drive's revision: declare what the drive shows",
			img.Version, maxRevision)
	}
	s, err := d.read(ctx, id)
	if err != nil {
		return err
	}
	if reason := s.modes.readOnly(); reason != "" {
		return driver.Rejectf("%s", reason)
	}
	return nil
}

// Write downloads the image, deferred where the drive can do that. It does so even when the drive runs the version: the
// drive cannot tell whether another one waits in it, and what is downloaded takes that one's place.
func (d *Driver) Write(
	ctx context.Context, id inventory.Identity, img driver.Image, progress driver.Progress,
) (inventory.Activation, error) {
	if err := img.Verify(); err != nil { // the tool would pad a file that became shorter
		return 0, err
	}
	s, err := d.read(ctx, id)
	if err != nil {
		return 0, err
	}
	m, ok := s.modes.download()
	if !ok {
		return 0, fmt.Errorf("write %s: %s: %w", device(id), s.modes.readOnly(), driver.ErrNotSupported)
	}
	cmd := download(device(id), img.Path, unique(s, id), img.Size, m)
	r, err := d.run(ctx, cmd)
	if err == nil {
		err = classifyDownload(cmd, r)
	}
	if err != nil {
		return 0, fmt.Errorf("download firmware to %s: %w", device(id), err)
	}
	if progress != nil {
		progress(100)
	}
	if m == modeDefer {
		return s.modes.activation(), nil
	}
	return d.afterSave(ctx, id, img.Version)
}

// afterSave is what is needed after a download that the drive should have activated itself.
func (d *Driver) afterSave(ctx context.Context, id inventory.Identity, want inventory.Version) (inventory.Activation, error) {
	now, err := ask(ctx, d, standardInquiry(device(id)), parseInquiry)
	if err != nil {
		return 0, fmt.Errorf("inquire %s after the download: %w", device(id), err)
	}
	if now.Revision != want {
		return inventory.ActivateReboot, nil
	}
	return inventory.ActivateNone, nil
}

// Activate makes deferred microcode run and reads what runs then. Whatever uses the drive waits for it, so it is for a
// drained node. A drive that shows its old revision afterwards, or refuses, needs a reboot.
func (d *Driver) Activate(ctx context.Context, id inventory.Identity, kind inventory.Activation) (inventory.Activation, error) {
	if kind != inventory.ActivateDeviceReset {
		return 0, fmt.Errorf("activate by %s: %w", kind, driver.ErrNotSupported)
	}
	s, err := d.read(ctx, id)
	if err != nil {
		return 0, err
	}
	if !s.modes.Activate {
		return 0, fmt.Errorf("activate %s: the drive does not support WRITE BUFFER mode 0x0f: %w", device(id), driver.ErrNotSupported)
	}
	cmd := activate(device(id), unique(s, id))
	r, err := d.run(ctx, cmd)
	switch {
	case err != nil:
		return 0, fmt.Errorf("activate %s: %w", device(id), err)
	case illegal(r) && says(r, senseCommandSequence): // nothing waits
		return inventory.ActivateNone, nil
	case illegal(r):
		return inventory.ActivateReboot, nil
	case r.ExitCode != 0:
		return 0, fmt.Errorf("activate %s: %w", device(id), classify(cmd, r))
	}
	now, err := ask(ctx, d, standardInquiry(device(id)), parseInquiry)
	if err != nil {
		return 0, fmt.Errorf("inquire %s after its activation: %w", device(id), err)
	}
	if now.Revision == s.Revision {
		return inventory.ActivateReboot, nil
	}
	return inventory.ActivateNone, nil
}

func rollback(s state) (kind inventory.Rollback, message string) {
	if reason := s.modes.readOnly(); reason != "" {
		return inventory.RollbackNone, reason
	}
	return inventory.RollbackImage, "a SAS drive cannot be read out: an image of " + string(s.Revision) +
		" from a FirmwareSource is needed"
}

func unique(s state, id inventory.Identity) string {
	if id.UniqueID != "" {
		return id.UniqueID
	}
	return strings.Join([]string{s.Vendor, s.Model, s.Serial}, "-")
}
