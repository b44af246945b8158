package scsi

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// maxImage is the size that the 24-bit offset of WRITE BUFFER can address, in bytes.
const maxImage = 16 << 20

// maxRevision is the length of a revision in the INQUIRY data.
const maxRevision = 4

// Driver runs sg3_utils.
type Driver struct{ runner command.Runner }

var _ driver.Driver = (*Driver)(nil)

// New returns the driver.
func New(runner command.Runner) *Driver { return &Driver{runner: runner} }

// Name is "scsi".
func (*Driver) Name() string { return "scsi" }

// Version is the version of this driver, not of sg3_utils.
func (*Driver) Version() string { return "2" }

// Support is SupportMainline for SAS drives: the commands are those of the SCSI standard, and a tool of the drive's
// vendor would support it better. SATA drives behind a SAS controller do not take WRITE BUFFER.
func (*Driver) Support(id inventory.Identity) driver.Support {
	if id.Class != inventory.Disk || id.Transport != "sas" || id.Node == "" {
		return driver.SupportNone
	}
	return driver.SupportMainline
}

// Inspect reads the INQUIRY data and the modes of WRITE BUFFER that the drive supports. A drive that supports no mode it could be written
// with is read-only, with the reason in ReadOnly; this also excludes RAID volumes and virtual disks, which look like SAS drives. Stored is
// empty: no command reports whether microcode waits for its activation. The unique id is the one from sysfs; without one it is made of
// vendor, product and serial number.
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
		ReadOnly:   s.readOnly(),
		AtWrite:    s.modes.atWrite(),
	}
	fw.Rollback, fw.RollbackMessage = rollback(s)
	return id, fw, nil
}

// Check verifies that the file is complete, that the command can transfer its size, that the drive can report the
// version, and that the drive takes firmware at all. Images of SAS drives do not describe themselves: model and version
// are those the image's source declares, and the drive makes the final check.
func (d *Driver) Check(ctx context.Context, id inventory.Identity, img driver.Image) error {
	if err := img.Verify(); err != nil {
		return err
	}
	if img.Size == 0 || img.Size%4 != 0 || img.Size > maxImage {
		return driver.Rejectf("%s has %d bytes: a SAS drive's image is a multiple of 4 and has at most %d",
			img.Path, img.Size, maxImage)
	}
	if len(img.Version) > maxRevision {
		return driver.Rejectf("version %q has more than the %d characters of a SAS drive's revision: declare the version as the drive reports it",
			img.Version, maxRevision)
	}
	s, err := d.read(ctx, id)
	if err != nil {
		return err
	}
	if reason := s.readOnly(); reason != "" {
		return driver.Rejectf("%s", reason)
	}
	return nil
}

// Write downloads the image, with deferred activation if the drive supports it. It does so even when the drive runs the
// version: the drive does not report whether another one waits for activation, and the download replaces it.
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
	m, specific, _ := s.modes.download()
	piece, err := s.buffer.piece()
	if reason := s.readOnly(); reason != "" || err != nil {
		return 0, fmt.Errorf("write %s: %s: %w", device(id), reason, driver.ErrNotSupported)
	}
	cmd := img.HeldFor(download(device(id), img.Path, unique(s, id), img.Size, transfer{mode: m, specific: specific, piece: piece}))
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
	if m != modeSave {
		return s.modes.activation(), nil
	}
	return d.afterSave(ctx, id, img.Version)
}

// afterSave is the activation still needed after a download that the drive should have activated itself.
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

// PowerOnHours reads the accumulated power-on minutes of the Background Scan log page.
func (d *Driver) PowerOnHours(ctx context.Context, id inventory.Identity) (int64, error) {
	hours, err := ask(ctx, d, scanPage(device(id)), parsePowerOnHours)
	if unsupported(err) {
		return 0, fmt.Errorf("%s has no Background Scan log page: %w", device(id), driver.ErrNotSupported)
	}
	if err != nil {
		return 0, fmt.Errorf("read power-on time of %s: %w", device(id), err)
	}
	return hours, nil
}

// Activate makes deferred microcode run and reads what runs afterwards. I/O to the drive waits meanwhile, so the node
// should be drained. A drive that reports its old revision afterwards, or refuses, needs a reboot.
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
	case illegal(r) && says(r, senseCommandSequence): // nothing waits for activation
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
	if reason := s.readOnly(); reason != "" {
		return inventory.RollbackNone, reason
	}
	return inventory.RollbackImage, "the firmware of a SAS drive cannot be read back: an image of " + string(s.Revision) +
		" from a FirmwareSource is needed"
}

func unique(s state, id inventory.Identity) string {
	return cmp.Or(id.UniqueID, strings.Join([]string{s.Vendor, s.Model, s.Serial}, "-"))
}

// updates are the tools of sg3_utils for firmware, and erases those for an erasure alone.
var (
	updates = []string{"sg_inq", "sg_logs", "sg_opcodes", "sg_read_buffer", "sg_write_buffer"}
	erases  = []string{"sg_luns", "sg_persist", "sg_requests", "sg_sanitize"}
)

// Tools are those of sg3_utils.
func (*Driver) Tools() []string { return slices.Sorted(slices.Values(slices.Concat(updates, erases))) }

// Usable returns an error that names the tools for firmware that are not installed. Without the others no drive is erased.
func (d *Driver) Usable() error { return command.Installed(d.runner, updates...) }

// commandTimeout bounds one WRITE BUFFER command, in seconds. The kernel aborts a command at its timeout, and a drive
// must not be disturbed while it writes its flash: the tool's own five minutes may be too short. It stays below the
// half hour after which a write without output counts as overdue.
const commandTimeout = 1200

// standardInquiry reads the first 36 bytes of the standard INQUIRY data. sysfs only shows what the kernel read when it
// found the drive. The raw bytes are read because the text output of sg_inq changes between releases.
func standardInquiry(device string) command.Command {
	return command.Command{Argv: []string{"sg_inq", "--raw", "--maxlen=" + strconv.Itoa(inquiryLength), device}}
}

// serialPage reads the Unit Serial Number page.
func serialPage(device string) command.Command {
	return command.Command{Argv: []string{"sg_inq", "--raw", "--page=0x80", device}}
}

// extendedPage reads the Extended INQUIRY Data page.
func extendedPage(device string) command.Command {
	return command.Command{Argv: []string{"sg_inq", "--raw", "--page=0x86", device}}
}

// scanPage reads the Background Scan log page.
func scanPage(device string) command.Command {
	return command.Command{Argv: []string{"sg_logs", "--raw", "--page=0x15", device}}
}

// descriptor reads the READ BUFFER descriptor of the buffer that microcode is written to.
func descriptor(device string) command.Command {
	return command.Command{Argv: []string{"sg_read_buffer", "--mode=desc", "--length=" + strconv.Itoa(descriptorLength), "--raw", device}}
}

// supportsAny asks whether the drive takes WRITE BUFFER at all. A drive that knows no service actions of the command answers
// this alone.
func supportsAny(device string) command.Command {
	return command.Command{Argv: []string{"sg_opcodes", "--raw", "--opcode=0x3b", device}}
}

// supports asks whether the drive takes WRITE BUFFER in the mode, which REPORT SUPPORTED OPERATION CODES knows as a
// service action.
func supports(device string, m mode) command.Command {
	return command.Command{Argv: []string{"sg_opcodes", "--raw", fmt.Sprintf("--opcode=0x3b,0x%02x", byte(m)), device}}
}

// transfer is how an image is sent: the mode, its mode-specific field (0 to 7), and how many bytes one command carries.
type transfer struct {
	mode            mode
	specific, piece int
}

// download transfers an image in pieces. Without --length the tool reads at most 8 MiB. Only with -v does it print the
// sense data of a refusal, and a line for each piece, which shows that it is making progress.
func download(device, path, lock string, size int64, t transfer) command.Command {
	argv := []string{"sg_write_buffer", "-v", "--mode=" + t.mode.String()}
	if t.specific != 0 {
		argv = append(argv, "--specific="+strconv.Itoa(t.specific))
	}
	argv = append(argv, "--bpw="+strconv.Itoa(t.piece), "--length="+strconv.FormatInt(size, 10),
		"--timeout="+strconv.Itoa(commandTimeout), "--in="+path, device)
	return command.Command{Argv: argv, Kind: command.Write, Lock: lock}
}

func activate(device, lock string) command.Command {
	return command.Command{
		Argv: []string{
			"sg_write_buffer", "-v", "--mode=" + modeActivate.String(), "--timeout=" + strconv.Itoa(commandTimeout), device,
		},
		Kind: command.Write,
		Lock: lock,
	}
}

func device(id inventory.Identity) string { return "/dev/" + id.Node }
