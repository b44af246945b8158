package profile

import (
	"context"
	"fmt"
	"slices"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// Driver executes a profile.
type Driver struct {
	runner command.Runner
	p      Profile
}

var (
	_ driver.Driver  = (*Driver)(nil)
	_ driver.Stepper = (*Driver)(nil)
)

// New returns the driver of a profile.
func New(runner command.Runner, p Profile) *Driver { return &Driver{runner: runner, p: p} }

// Name is the profile's.
func (d *Driver) Name() string { return d.p.Name }

// Version is the profile's.
func (d *Driver) Version() string { return d.p.Version }

// Support is the profile's level for the devices it matches. A device passed through to a virtual machine is not
// touched.
func (d *Driver) Support(id inventory.Identity) driver.Support {
	if !d.p.Match.Fits(id) {
		return driver.SupportNone
	}
	return d.p.Match.Support
}

// Tools are the programs that the profile names.
func (d *Driver) Tools() []string {
	tools := d.ofFirmware()
	if s := d.p.Settings; s != nil {
		commands := [][]template{s.Set.Argv}
		for _, l := range s.Read {
			commands = append(commands, l.Argv)
		}
		if s.Commit != nil {
			commands = append(commands, s.Commit.Argv, s.Commit.Unless.Argv)
		}
		tools = append(tools, programs(commands)...)
	}
	slices.Sort(tools)
	return slices.Compact(tools)
}

// ofFirmware are the programs for firmware and steps.
func (d *Driver) ofFirmware() []string {
	commands := [][]template{d.p.Inspect.Argv}
	if d.p.Check != nil {
		commands = append(commands, d.p.Check.Argv)
	}
	for _, c := range []*Change{d.p.Write, d.p.Activate} {
		if c != nil {
			commands = append(commands, c.Argv)
		}
	}
	for _, s := range d.p.Steps {
		commands = append(commands, s.Argv)
	}
	return programs(commands)
}

func programs(commands [][]template) (out []string) {
	for _, argv := range commands {
		if len(argv) > 0 { // the first word has no variables
			out = append(out, argv[0].text)
		}
	}
	return out
}

// Usable returns an error that names the programs which are not installed. One for settings alone is missed where settings are read.
func (d *Driver) Usable() error { return command.Installed(d.runner, d.ofFirmware()...) }

// Inspect runs the profile's inspect and reads the fields.
func (d *Driver) Inspect(ctx context.Context, id inventory.Identity) (inventory.Identity, inventory.Firmware, error) {
	s, fw, err := d.inspect(ctx, id)
	return s.id, fw, err
}

// inspect returns the device with the tool's current number of it.
func (d *Driver) inspect(ctx context.Context, id inventory.Identity) (subject, inventory.Firmware, error) {
	values, err := d.query(ctx, d.p.Inspect, subject{id: id})
	if err != nil {
		return subject{id: id}, inventory.Firmware{}, fmt.Errorf("inspect %s: %w", id.UniqueID, err)
	}
	fw := inventory.Firmware{
		Running: inventory.Version(values[fieldRunning]), Stored: d.stored(values),
		Activation: d.p.Activation, Format: d.p.Format, ReadOnly: d.p.ReadOnly, Rollback: d.p.Rollback,
	}
	if len(fw.Running) > maxVersion || len(fw.Stored) > maxVersion {
		return subject{id: id}, inventory.Firmware{}, fmt.Errorf("inspect %s: a version has more than %d bytes", id.UniqueID, maxVersion)
	}
	if fw.Rollback == inventory.RollbackNone {
		fw.RollbackMessage = "profile " + d.p.Name + " declares no rollback"
	}
	for name, target := range map[string]*string{
		fieldBoardID: &id.BoardID, fieldModel: &id.Model, fieldPartNumber: &id.PartNumber,
		fieldSerialNumber: &id.SerialNumber, fieldUniqueID: &id.UniqueID,
	} {
		if value, ok := values[name]; ok {
			*target = value
		}
	}
	return subject{id: id, number: values[fieldNumber]}, fw, nil
}

// stored is empty if the profile does not say how to find it. If the tool reports it only when it differs, it is the
// running version.
func (d *Driver) stored(values map[string]string) inventory.Version {
	if _, declared := d.p.Inspect.Fields[fieldStored]; !declared {
		return ""
	}
	if stored, ok := values[fieldStored]; ok {
		return inventory.Version(stored)
	}
	return inventory.Version(values[fieldRunning])
}

func (d *Driver) query(ctx context.Context, q Query, of subject) (map[string]string, error) {
	values, _, err := d.run(ctx, q, of, command.Command{})
	return values, err
}

// run runs the command of a query, of the given kind and with its lock, and classifies the result.
func (d *Driver) run(ctx context.Context, q Query, of subject, c command.Command) (values map[string]string, outcome class, err error) {
	if c.Argv, err = fillAll(q.Argv, of); err != nil {
		return nil, classFail, err
	}
	c.Timeout = q.Timeout
	if using(q.Argv, isImagePath) != "" {
		if c, err = of.give(c, q.ImageAs); err != nil {
			return nil, classFail, err
		}
	}
	r, err := d.runner.Run(ctx, c)
	if err != nil {
		return nil, classFail, err
	}
	switch outcome = q.Exits.class(r.ExitCode); outcome {
	case classOK, classAlready, classPending:
	default:
		return nil, outcome, q.Exits.failure(c, r)
	}
	if q.Format == "" {
		return nil, outcome, nil
	}
	if values, err = q.read(r.Stdout, of); err != nil {
		return nil, classFail, command.Failed(c, r, err)
	}
	return values, outcome, nil
}

// give gives the command's tool the image. An image that is a script finds itself by its path, so it is a file. One that is no longer as
// it was verified is a command.ErrImage, as it is of a copy: the source's image is not at fault for what became of the file.
func (s subject) give(c command.Command, as ImageAs) (command.Command, error) {
	if as != AsFile && c.Argv[0] != "sh" {
		return s.img.HeldFor(c), nil
	}
	return c, s.img.Verify()
}

// Check verifies the file, and lets the tool check the image if the profile says how.
func (d *Driver) Check(ctx context.Context, id inventory.Identity, img driver.Image) error {
	if err := img.Verify(); err != nil {
		return err
	}
	s, _, err := d.inspect(ctx, id)
	if err != nil {
		return err
	}
	s.img = img
	return d.fits(ctx, s)
}

// fits checks the image for the device as inspect completed it.
func (d *Driver) fits(ctx context.Context, s subject) error {
	id, img := s.id, s.img
	switch {
	case d.p.Write == nil:
		return driver.Rejectf("%s", d.p.ReadOnly)
	case d.p.Check == nil:
		return nil
	}
	values, err := d.query(ctx, *d.p.Check, s)
	if err != nil {
		return fmt.Errorf("check image %s: %w", img.Path, err)
	}
	board, isForBoard := values[fieldBoardID]
	version, isVersion := values[fieldVersion]
	switch {
	case isForBoard && inventory.NormalizeID(board) != inventory.NormalizeID(id.BoardID):
		return driver.Rejectf("%s is for board %q, the device is %q: name an image for that board", img.Path, board, id.BoardID)
	case isVersion && inventory.Version(version) != img.Version:
		return driver.Rejectf("%s holds version %s, not %s: correct the version or the image", img.Path, version, img.Version)
	}
	return nil
}

// Write runs the profile's write unless the device holds the image, and reads the device back afterwards.
func (d *Driver) Write(ctx context.Context, id inventory.Identity, img driver.Image, progress driver.Progress) (inventory.Activation, error) {
	s, before, err := d.inspect(ctx, id)
	if err != nil {
		return 0, err
	}
	s.img, id = img, s.id
	if d.p.Write == nil {
		return 0, fmt.Errorf("write %s: %s: %w", id.UniqueID, d.p.ReadOnly, driver.ErrNotSupported)
	}
	if before.Stored == img.Version {
		return needed(before, d.p.Activation), nil
	}
	if err := d.fits(ctx, s); err != nil {
		return 0, err
	}
	if s, err = d.renumber(ctx, s); err != nil {
		return 0, fmt.Errorf("write %s: nothing was written: %w", id.UniqueID, err)
	}
	argv, err := fillAll(d.p.Write.Argv, s)
	if err != nil {
		return 0, err
	}
	c := command.Command{
		Argv: argv, Kind: command.Write, Timeout: d.p.Write.Timeout, Lock: id.UniqueID,
		Progress: progress.Lines(d.p.Write.Progress),
	}
	if c, err = s.give(c, d.p.Write.ImageAs); err != nil {
		return 0, fmt.Errorf("write %s: nothing was written: %w", id.UniqueID, err)
	}
	r, err := d.runner.Run(ctx, c)
	if err != nil {
		return 0, fmt.Errorf("write %s: %w", id.UniqueID, err)
	}
	outcome := d.p.Write.Exits.class(r.ExitCode)
	switch outcome {
	case classOK, classPending, classAlready:
	default:
		return 0, fmt.Errorf("write %s: %w", id.UniqueID, d.p.Write.Exits.failure(c, r))
	}
	need := d.p.Write.Exits.needs(r.ExitCode, d.p.Activation)
	if err = d.p.Write.judge(r.Stdout, s); err == nil {
		need, err = d.readBack(ctx, s, outcome, need)
	}
	if err != nil {
		return 0, fmt.Errorf("write %s: %w", id.UniqueID, command.Failed(c, r, err))
	}
	if progress != nil {
		progress(100)
	}
	return need, nil
}

// renumber reads the tool's number of the device again, right before the tool writes to that number: the tool may
// renumber devices on every run, and a check takes time.
func (d *Driver) renumber(ctx context.Context, s subject) (subject, error) {
	if s.number == "" {
		return s, nil
	}
	now, _, err := d.inspect(ctx, s.id)
	switch {
	case err != nil:
		return s, err
	case now.id.UniqueID != s.id.UniqueID || now.id.SerialNumber != s.id.SerialNumber:
		return s, fmt.Errorf("another device has taken its place: %s with serial number %q", now.id.UniqueID, now.id.SerialNumber)
	}
	now.img = s.img
	return now, nil
}

// judge checks the output of a tool whose exit code means success.
func (c Change) judge(out []byte, of subject) error {
	if c.Format == "" {
		return nil
	}
	d, err := parseOutput(c.Format, out)
	if err != nil {
		return err
	}
	return d.meets(c.Expect, of)
}

// readBack does not rely on the tool's report: the device decides what it holds, if it reports that.
func (d *Driver) readBack(ctx context.Context, written subject, outcome class, need inventory.Activation) (inventory.Activation, error) {
	now, fw, err := d.inspect(ctx, written.id)
	img := written.img
	switch {
	case err != nil:
		return 0, fmt.Errorf("read back: %w", err)
	case now.number != written.number:
		return 0, fmt.Errorf("the tool wrote to number %s, and the device has number %s now: find out which device was written before writing any other",
			written.number, now.number)
	case fw.Stored != "" && fw.Stored != img.Version:
		return 0, fmt.Errorf("the tool reports success, but the device stores %s", fw.Stored)
	case fw.Stored != "":
		return needed(fw, need), nil
	case fw.Running == img.Version && outcome != classPending:
		return inventory.ActivateNone, nil
	case outcome == classAlready || need == inventory.ActivateNone:
		return 0, fmt.Errorf("the tool reports success, but the device runs %s", fw.Running)
	}
	return need, nil
}

func needed(fw inventory.Firmware, byDefault inventory.Activation) inventory.Activation {
	if !fw.Pending() {
		return inventory.ActivateNone
	}
	return byDefault
}

// Activate runs the profile's activate when something is staged, and reads what runs afterwards.
func (d *Driver) Activate(ctx context.Context, id inventory.Identity, kind inventory.Activation) (inventory.Activation, error) {
	a := d.p.Activate
	if a == nil || kind != a.Kind {
		return 0, fmt.Errorf("activate by %s: %w", kind, driver.ErrNotSupported)
	}
	s, before, err := d.inspect(ctx, id)
	if err != nil {
		return 0, err
	}
	id = s.id
	if !before.Pending() {
		settings, err := d.settingsWait(ctx, s, kind)
		if err != nil {
			return 0, fmt.Errorf("activate %s: %w", id.UniqueID, err)
		}
		if !settings {
			return inventory.ActivateNone, nil
		}
	}
	argv, err := fillAll(a.Argv, s)
	if err != nil {
		return 0, err
	}
	c := command.Command{Argv: argv, Kind: command.Write, Timeout: a.Timeout, Lock: id.UniqueID}
	r, err := d.runner.Run(ctx, c)
	if err != nil {
		return 0, fmt.Errorf("activate %s: %w", id.UniqueID, err)
	}
	switch a.Exits.class(r.ExitCode) {
	case classPending:
		return a.Exits.Pending[r.ExitCode], nil
	case classOK:
	default:
		return 0, fmt.Errorf("activate %s: %w", id.UniqueID, a.Exits.failure(c, r))
	}
	s, after, err := d.inspect(ctx, id)
	if err != nil {
		return 0, fmt.Errorf("read back after activation: %w", err)
	}
	settings, err := d.settingsWait(ctx, s, kind)
	if after.Running != before.Stored || err == nil && settings { // settings that cannot be read say nothing about the firmware
		return inventory.ActivateReboot, nil
	}
	return inventory.ActivateNone, nil
}
