package fwupd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// Driver reads the host's tables and runs fwupdtool.
type Driver struct {
	runner patient
	host   fs.FS
	// dir is where the driver keeps a file for fwupdtool; see Keep.
	dir string
	// room returns how many bytes are left in the file system at a path; nil where that cannot be asked.
	room func(path string) (uint64, error)
	// looking has room for one look at the automounts, and patience is how long it is waited for.
	looking  chan struct{}
	patience time.Duration
}

// patience is well within the time that a host gives the reading of a device.
const patience = 10 * time.Second

var _ driver.Driver = (*Driver)(nil)

// New returns the driver. The file system is the host's, from its root.
func New(runner command.Runner, host fs.FS) *Driver {
	return &Driver{runner: newPatient(runner), host: host, room: roomBelow(host), looking: make(chan struct{}, 1), patience: patience}
}

// WaitBy sets how the driver waits for another fwupdtool; by default it waits in real time.
func (d *Driver) WaitBy(p Pause) *Driver {
	d.runner.pause = p
	return d
}

// Name is "fwupd".
func (*Driver) Name() string { return "fwupd" }

// Version is the version of this driver, not of fwupd.
func (*Driver) Version() string { return "3" }

// Support is SupportMainline for system firmware: UEFI capsules are a standard, and a tool of the machine's vendor
// would support it better.
func (*Driver) Support(id inventory.Identity) driver.Support {
	if id.Class != inventory.BIOS {
		return driver.SupportNone
	}
	return driver.SupportMainline
}

// Inspect reads the running version from the DMI tables, the board id and the outcome of the last update from the ESRT,
// and the staged version from fwupd's history. Whether the firmware can be updated is decided from the tables, the variables of the
// firmware and the mounts, before any tool is asked; ReadOnly has the reason when it cannot.
func (d *Driver) Inspect(ctx context.Context, id inventory.Identity) (inventory.Identity, inventory.Firmware, error) {
	running, err := readVersion(d.host)
	if err != nil {
		return id, inventory.Firmware{}, err
	}
	fw := inventory.Firmware{
		Running:    running,
		Stored:     running,
		Activation: inventory.ActivateReboot,
		Format:     formatOf(running),
	}
	bios, err := readResource(d.host)
	if e, ok := errors.AsType[*notReady](err); ok {
		fw.ReadOnly = e.Error()
		fw.RollbackMessage = fw.ReadOnly
		return id, fw, nil
	}
	if err != nil {
		return id, inventory.Firmware{}, err
	}
	id.BoardID = bios.GUID
	fw.LastAttempt = bios.lastAttempt()
	fw.Rollback, fw.RollbackMessage = bios.rollback(running)
	_, unready := d.ready(0)
	staged, err := d.staged(ctx, bios, running)
	switch {
	case command.Unusable(err):
		unready = cmp.Or(unready, notReadyf(NoTool, "%s", unusable(err)))
	case errors.Is(err, errNoLock):
		unready = cmp.Or(unready, notReadyf(NoLock, "%v", errNoLock))
	case err != nil:
		return id, inventory.Firmware{}, err
	case staged != "":
		fw.Stored = staged
	}
	if unready != nil {
		if _, ok := errors.AsType[*notReady](unready); !ok {
			return id, inventory.Firmware{}, unready
		}
		fw.ReadOnly = unready.Error()
		fw.Rollback, fw.RollbackMessage = inventory.RollbackNone, fw.ReadOnly
	}
	return id, fw, nil
}

// Check verifies that the archive is complete, has firmware of the desired version for exactly this machine's GUID, is
// not older than the lowest version the firmware accepts, and that the machine spells versions as the archive does: if
// a vendor numbers archives differently from the DMI tables, the result of an update cannot be verified.
func (d *Driver) Check(ctx context.Context, _ inventory.Identity, img driver.Image) error {
	if err := img.Verify(); err != nil {
		return err
	}
	bios, err := readResource(d.host)
	if err != nil {
		return refusal(err)
	}
	esp, err := d.ready(img.Size)
	if err != nil {
		return refusal(err)
	}
	running, err := readVersion(d.host)
	if err != nil {
		return err
	}
	c, err := d.told(img.HeldFor(getDetails(img.Path, capsulePlugin)), esp.Path, bios, running)
	if err != nil {
		return err
	}
	components, err := details(ctx, d.runner, c)
	if err != nil {
		return err
	}
	if err := checkFit(components, []string{bios.GUID}, img); err != nil {
		return err
	}
	if formatOf(running) != formatOf(img.Version) {
		return driver.Rejectf("the machine reports its firmware as %q, so it could not be verified that %s runs after the update: use the vendor's own tool",
			running, img.Version)
	}
	dev, err := d.device(ctx, esp.Path, bios, running)
	if err != nil {
		return err
	}
	if tooOld(img.Version, inventory.Version(dev.VersionLowest)) {
		return driver.Rejectf("version %s is below %s, the lowest version the firmware accepts: no tool can override that", img.Version, dev.VersionLowest)
	}
	return nil
}

func details(ctx context.Context, runner command.Runner, c command.Command) ([]component, error) {
	r, err := runner.Run(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("read archive: %w", err)
	}
	if e := reported(r); r.ExitCode != 0 && e != nil && e.is(codeInvalidData) {
		return nil, fmt.Errorf("read archive: %w", driver.Rejectf("fwupd rejects the archive: %s", e.Message))
	}
	if r.ExitCode != 0 {
		return nil, fmt.Errorf("read archive: %w", refused(c, r))
	}
	components, err := parseDetails(string(r.Stdout))
	if err != nil {
		return nil, fmt.Errorf("read archive: %w", command.Failed(c, r, err))
	}
	return components, nil
}

// checkFit looks for firmware of the desired version for hardware with one of the GUIDs.
func checkFit(components []component, guids []string, img driver.Image) error {
	var ids []string
	for _, c := range components {
		fits := func(guid string) bool {
			return slices.ContainsFunc(guids, func(g string) bool { return strings.EqualFold(g, guid) })
		}
		if !slices.ContainsFunc(c.GUIDs, fits) {
			ids = append(ids, c.GUIDs...)
			continue
		}
		if c.Version != img.Version {
			return driver.Rejectf("%s holds version %s, not %s: correct the version or the image", img.Path, c.Version, img.Version)
		}
		return nil
	}
	return driver.Rejectf("%s is for %s, the device is %s: name an image for that GUID", img.Path, strings.Join(ids, ", "),
		strings.Join(guids, ", "))
}

// tooOld compares only versions of the same format: fwupd reports the lowest version as a bare number if it does not
// know the vendor's format.
func tooOld(v, lowest inventory.Version) bool {
	return strings.Count(string(v), ".") == strings.Count(string(lowest), ".") &&
		v.Compare(lowest, inventory.FormatDotted) == inventory.Older
}

// Write stages the capsule: the firmware installs it during the next boot. A capsule staged before is replaced.
func (d *Driver) Write(ctx context.Context, id inventory.Identity, img driver.Image, progress driver.Progress) (inventory.Activation, error) {
	bios, err := readResource(d.host)
	if e, ok := errors.AsType[*notReady](err); ok {
		return 0, errors.Join(e, driver.ErrNotSupported)
	}
	if err != nil {
		return 0, err
	}
	if activation, holds, err := d.holds(ctx, bios, img.Version); err != nil || holds {
		return activation, err
	}
	esp, err := d.ready(img.Size)
	if err != nil {
		return 0, refusal(err)
	}
	running, err := readVersion(d.host)
	if err != nil {
		return 0, err
	}
	dev, err := d.device(ctx, esp.Path, bios, running)
	if err != nil {
		return 0, err
	}
	c := install(img.Path, dev.ID, capsulePlugin, id.UniqueID)
	if dev.takesForOlder(img.Version) || !isNewer(img.Version, running) {
		c = installOlder(img.Path, dev.ID, capsulePlugin, id.UniqueID)
	}
	if c, err = d.told(img.HeldFor(c), esp.Path, bios, running); err != nil {
		return 0, err
	}
	r, err := d.runner.Run(ctx, c)
	if err != nil {
		return 0, fmt.Errorf("stage system firmware: %w", err)
	}
	if r.ExitCode == 0 {
		if progress != nil {
			progress(100)
		}
		return inventory.ActivateReboot, nil
	}
	// fwupd 2.1 installs an archive twice where it is told the device, and refuses the second time. What waits for the reboot tells.
	if reported(r) != nil {
		if activation, holds, err := d.holds(ctx, bios, img.Version); err != nil || holds {
			return activation, err
		}
	}
	return 0, fmt.Errorf("stage system firmware: %w", refused(c, r))
}

// Activate returns ErrNotSupported: only a boot activates system firmware.
func (*Driver) Activate(_ context.Context, _ inventory.Identity, kind inventory.Activation) (inventory.Activation, error) {
	return 0, fmt.Errorf("activate system firmware by %s: %w", kind, driver.ErrNotSupported)
}

// holds reports whether the machine already runs or has staged the version, and what that needs to run.
func (d *Driver) holds(ctx context.Context, bios resource, v inventory.Version) (activation inventory.Activation, holds bool, err error) {
	running, err := readVersion(d.host)
	if err != nil {
		return 0, false, err
	}
	staged, err := d.staged(ctx, bios, running)
	if err != nil {
		return 0, false, err
	}
	switch {
	case staged == v && staged != running:
		return inventory.ActivateReboot, true, nil
	case running == v && (staged == "" || staged == running):
		return inventory.ActivateNone, true, nil
	}
	return 0, false, nil
}

// staged is the version fwupd staged for the GUID that waits for a reboot; empty when there is none.
func (d *Driver) staged(ctx context.Context, bios resource, running inventory.Version) (inventory.Version, error) {
	c, err := d.told(getHistory(), "", bios, running)
	if err != nil {
		return "", err
	}
	devices, err := list(ctx, d.runner, c)
	if err != nil {
		return "", fmt.Errorf("read history of updates: %w", err)
	}
	dev, _ := forGUID(devices, bios.GUID)
	return inventory.NormalizeVersion(dev.staged()), nil
}

// device is fwupd's device for the system firmware. It is an error that fwupd does not update it, or would not do so by a capsule on
// disk.
func (d *Driver) device(ctx context.Context, esp string, bios resource, running inventory.Version) (fwupdDevice, error) {
	c, err := d.told(getDevices(capsulePlugin), esp, bios, running)
	if err != nil {
		return fwupdDevice{}, err
	}
	devices, err := list(ctx, d.runner, c)
	if err != nil {
		return fwupdDevice{}, fmt.Errorf("list fwupd's devices: %w", err)
	}
	dev, ok := forGUID(devices, bios.GUID)
	if !ok {
		return fwupdDevice{}, fmt.Errorf("find system firmware: fwupd has no device with GUID %s: check that its UEFI plugin works on this machine", bios.GUID)
	}
	if err := dev.hindered(); err != nil {
		return fwupdDevice{}, err
	}
	if dev.takesOtherWay() {
		return fwupdDevice{}, driver.Rejectf("fwupd does not trust this firmware with capsules on disk, so nothing was written: use the vendor's own tool (fwupd: %q)",
			dev.Summary)
	}
	return dev, nil
}

func list(ctx context.Context, runner command.Runner, c command.Command) ([]fwupdDevice, error) {
	r, err := runner.Run(ctx, c)
	if err != nil {
		return nil, err
	}
	devices, err := parseDevices(r.Stdout)
	if e := reported(r); err != nil && e != nil {
		err = e
	}
	var e *fwupdError
	switch {
	case errors.As(err, &e) && e.is(codeNothingToDo):
		return nil, nil
	case err != nil:
		return nil, command.Failed(c, r, err)
	case r.ExitCode != 0:
		return nil, command.Failed(c, r, errors.New("query failed"))
	}
	return devices, nil
}
