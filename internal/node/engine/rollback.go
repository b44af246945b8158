package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/nodefirmware/node-firmware-operator/internal/node/archive"
	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// archive makes sure that what the device runs can be restored, in the way its driver declares, and that there still is room for the
// copies of images afterwards.
func (x *execution) archive(ctx context.Context, s step.Step) *step.Returned {
	ret := x.archiveRunning(ctx, s)
	if ret.Failure == nil {
		if err := x.room(); err != nil {
			return again(failed(s, step.StorageFailed, err.Error()))
		}
	}
	return ret
}

func (x *execution) archiveRunning(ctx context.Context, s step.Step) *step.Returned {
	u := x.update(s.Device)
	d, drv, failure := x.device(ctx, u)
	if failure != nil {
		ret := failed(s, failure.Reason, failure.Message)
		ret.Again = failure.Reason == step.ReadFailed
		return ret
	}
	view, err := x.cfg.Journal.View()
	if err != nil {
		return again(failed(s, step.ArchiveFailed, err.Error()))
	}
	ret := &step.Returned{From: d.Firmware.Running, Rollback: d.Firmware.Rollback, RollbackMessage: d.Firmware.RollbackMessage}
	known := view.Devices[u.UniqueID]
	switch doubtful := unjudged(known, d.Firmware.Running); {
	case x.job.Backup:
		return x.backup(ctx, s, d, drv, ret, doubtful)
	case doubtful:
		return x.earlier(s, d, known)
	}
	switch d.Firmware.Rollback {
	case inventory.RollbackReadBack:
		return x.readBack(ctx, s, d, drv, ret)
	case inventory.RollbackSlot:
		return slotted(d, drv, ret)
	case inventory.RollbackImage:
		return x.atHand(ctx, s, d, drv, u, ret)
	}
	ret.Rollback = inventory.RollbackNone
	ret.RollbackMessage = cmp.Or(ret.RollbackMessage, "the driver declares no way to restore it")
	return ret
}

// backup reads what the device runs into the archive. A device that nothing can read is only named, unless it was to be backed up in any case.
func (x *execution) backup(ctx context.Context, s step.Step, d inventory.Device, drv driver.Driver, ret *step.Returned, doubtful bool) *step.Returned {
	switch {
	case doubtful:
		return failed(s, step.ArchiveFailed, fmt.Sprintf("an earlier job left %s in it, which no health check has found good: it is not backed up, "+
			"because it must not be restored later", d.Firmware.Running))
	case ret.Rollback == inventory.RollbackReadBack:
		ret = x.readBack(ctx, s, d, drv, ret)
	default:
		ret = none(ret, "%s", cmp.Or(ret.RollbackMessage, "the driver "+drv.Name()+" cannot read its image"))
	}
	if ret.Failure == nil && ret.Rollback == inventory.RollbackNone && x.job.Record.RollbackRequired {
		return failed(s, step.RollbackUnavailable, "its firmware was not backed up: "+ret.RollbackMessage)
	}
	return ret
}

// archived is the image that an update takes from the archive. One of other hardware is refused, and one that is damaged or evidence.
func (x *execution) archived(u journal.Update, d inventory.Device) (driver.Image, error) {
	img, m, err := x.cfg.Archive.Restorable(u.Archived)
	switch {
	case err != nil:
		return img, driver.Rejectf("%v", err)
	case m.UniqueID != u.UniqueID || m.Class != d.Class || m.Digest != u.Digest || inventory.NormalizeID(m.BoardID) != inventory.NormalizeID(d.BoardID):
		return img, driver.Rejectf("%s of the archive is of %s %s, board %q, with the digest %s; the device is %s %s, board %q, and %s is to be restored",
			u.Archived, m.Class, m.UniqueID, m.BoardID, m.Digest, d.Class, d.UniqueID, d.BoardID, u.Digest)
	}
	return img, nil
}

func again(ret *step.Returned) *step.Returned {
	ret.Again = true
	return ret
}

// none returns that what runs cannot be restored, and why.
func none(ret *step.Returned, format string, args ...any) *step.Returned {
	ret.Rollback, ret.RollbackMessage = inventory.RollbackNone, fmt.Sprintf(format, args...)
	return ret
}

// unjudged reports whether what runs is not what a health gate judged healthy last: the firmware with which an earlier job
// left the device unhealthy, or of which a job began to write that never came to its gate.
func unjudged(known journal.Device, running inventory.Version) bool {
	return known.LastGood != "" && known.LastGood != string(running) ||
		known.Unhealthy != nil && known.LastFailure != nil && known.LastFailure.Version == string(running)
}

// earlier handles a device that runs firmware which is not known to be good: the version that the earlier job would have
// restored stays the one to restore.
func (x *execution) earlier(s step.Step, d inventory.Device, known journal.Device) *step.Returned {
	ret := &step.Returned{From: inventory.Version(known.LastGood)}
	why := fmt.Sprintf("%s was never judged healthy", d.Firmware.Running)
	if known.Unhealthy != nil {
		why = fmt.Sprintf("job %s left the device unhealthy", known.Unhealthy.Job)
	}
	if known.LastGood == "" {
		return none(ret, "%s and no previous firmware is archived", why)
	}
	// Of two slots, the write takes the one that does not run, which is where the good version is.
	if d.Firmware.Rollback == inventory.RollbackSlot && holds(d.Firmware.Slots, ret.From) && len(d.Firmware.Slots) > 2 {
		ret.Rollback = inventory.RollbackSlot
		return ret
	}
	if _, m, err := x.cfg.Archive.Image(d.UniqueID, ret.From); err == nil {
		ret.Rollback = m.Rollback
		return ret
	} else if !errors.Is(err, archive.ErrNone) {
		return failed(s, step.ArchiveFailed, err.Error())
	}
	return none(ret, "%s and the previous firmware %s is not kept anywhere", why, ret.From)
}

// readBack archives the image that runs, and asks the driver whether it would take it again.
func (x *execution) readBack(ctx context.Context, s step.Step, d inventory.Device, drv driver.Driver, ret *step.Returned) *step.Returned {
	archiver, ok := drv.(driver.Archiver)
	if !ok {
		return none(ret, "the driver %s cannot read images", drv.Name())
	}
	fill := func(ctx context.Context, path string) error { return archiver.Archive(ctx, d.Identity, path) }
	err := x.keep(ctx, d, ret, fill)
	if errors.Is(err, driver.ErrNotSupported) { // it stores another image than it runs, such as one that was never activated
		return x.kept(s, d, ret, err)
	}
	if err != nil {
		return failed(s, step.ArchiveFailed, fmt.Sprintf("archive what runs: %v; nothing was written", err))
	}
	img, _, err := x.cfg.Archive.Image(d.UniqueID, ret.From)
	if err == nil {
		err = drv.Check(ctx, d.Identity, img)
	}
	if err != nil {
		return failed(s, step.ArchiveFailed, fmt.Sprintf("verify the archived image: %v; nothing was written", err))
	}
	x.toCopy(img)
	return ret
}

// kept handles a device whose image cannot be read now: an image of the same version that an earlier job archived serves as
// well.
func (x *execution) kept(s step.Step, d inventory.Device, ret *step.Returned, why error) *step.Returned {
	switch _, _, err := x.cfg.Archive.Image(d.UniqueID, ret.From); {
	case err == nil:
		return ret
	case errors.Is(err, archive.ErrNone):
		return none(ret, "%v", why)
	default:
		return failed(s, step.ArchiveFailed, fmt.Sprintf("look for an archived image: %v; nothing was written", err))
	}
}

// slotted looks for the running version in the slots of the device.
func slotted(d inventory.Device, drv driver.Driver, ret *step.Returned) *step.Returned {
	if _, ok := drv.(driver.Reverter); !ok {
		return none(ret, "the driver %s cannot go back to a slot", drv.Name())
	}
	if !holds(d.Firmware.Slots, ret.From) {
		return none(ret, "no slot holds the running %s", ret.From)
	}
	return ret
}

func holds(slots []inventory.Slot, v inventory.Version) bool {
	return slices.ContainsFunc(slots, func(s inventory.Slot) bool { return s.Version == v })
}

// atHand archives the image of the running version that a source provides.
func (x *execution) atHand(ctx context.Context, s step.Step, d inventory.Device, drv driver.Driver, u journal.Update,
	ret *step.Returned) *step.Returned {
	if u.RollbackDigest == "" || u.FromVersion != string(ret.From) {
		return none(ret, "no FirmwareSource holds an image of the running %s that may be used: this node did not flash it, and no source named for the device describes it", ret.From)
	}
	digest, err := inventory.ParseDigest(u.RollbackDigest)
	if err != nil {
		return none(ret, "%v", err)
	}
	path, size, err := x.cfg.Images.Fetch(ctx, digest)
	img := driver.Image{Path: path, Size: size, Version: ret.From, Digest: digest}
	if err == nil {
		err = img.Judge(drv.Check(ctx, d.Identity, img))
	}
	if rejected := (*driver.RejectedError)(nil); errors.As(err, &rejected) {
		return none(ret, "the image of the running %s does not fit: %v", ret.From, err)
	}
	if err != nil {
		return again(failed(s, step.ArchiveFailed, fmt.Sprintf("get the image of the running %s: %v", ret.From, err)))
	}
	if err := x.keep(ctx, d, ret, func(_ context.Context, to string) error { return copyFile(to, path) }); err != nil {
		return failed(s, step.ArchiveFailed, fmt.Sprintf("archive the running firmware: %v; nothing was written", err))
	}
	return ret
}

func (x *execution) keep(ctx context.Context, d inventory.Device, ret *step.Returned, fill func(context.Context, string) error) error {
	m, err := x.manifest(d, ret.From, ret.Rollback)
	if err != nil {
		return err
	}
	if m.Settings, err = x.settingsToKeep(ctx, d); err != nil {
		return err
	}
	return x.cfg.Archive.Keep(ctx, m, fill)
}

func (x *execution) manifest(d inventory.Device, v inventory.Version, kind inventory.Rollback) (archive.Manifest, error) {
	bootID, err := x.cfg.BootID()
	if err != nil {
		return archive.Manifest{}, fmt.Errorf("read boot id: %w", err)
	}
	return archive.Manifest{
		UniqueID: d.UniqueID, Class: d.Class, Model: d.Model, BoardID: d.BoardID, Version: v, BootID: bootID, Rollback: kind,
		Job: x.job.Name, Time: x.cfg.Now().UTC(), Spares: x.update(x.deviceOf(d.UniqueID)).Archived,
	}, nil
}

func copyFile(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return fmt.Errorf("open image: %w", err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("create copy of image: %w", err)
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// restore writes what ran before the job. It returns nil when the write goes on and this process does not follow it.
func (x *execution) restore(ctx context.Context, s step.Step) *step.Returned {
	u := x.update(s.Device)
	back := x.target(s.Device)
	d, drv, failure := x.device(ctx, u)
	if failure != nil {
		return failed(s, failure.Reason, failure.Message)
	}
	if reverter, ok := drv.(driver.Reverter); ok && back.Rollback == inventory.RollbackSlot {
		needs, err := reverter.Revert(ctx, d.Identity, back.From)
		return x.wrote(s, needs, err)
	}
	img, m, err := x.cfg.Archive.Image(u.UniqueID, back.From)
	switch {
	case err != nil:
		return failed(s, step.RollbackUnavailable, err.Error())
	case inventory.NormalizeID(m.BoardID) != inventory.NormalizeID(d.BoardID):
		return failed(s, step.RollbackUnavailable, fmt.Sprintf("the archived image is of board %s, the device is %s", m.BoardID, d.BoardID))
	}
	if s.Attempt == 1 { // reading the evidence may be what interrupted the attempt before
		x.evidence(ctx, d, drv)
	}
	if err := img.Judge(drv.Check(ctx, d.Identity, img)); err != nil {
		return failed(s, imageReason(err), err.Error())
	}
	needs, err := drv.Write(ctx, d.Identity, img, x.progress)
	return x.wrote(s, needs, img.Judge(err))
}

// evidence archives the firmware at fault, where it can be read, so that a person can look for the cause. An error is logged
// and does not stop the rollback.
func (x *execution) evidence(ctx context.Context, d inventory.Device, drv driver.Driver) {
	archiver, ok := drv.(driver.Archiver)
	if !ok || d.Firmware.Rollback != inventory.RollbackReadBack {
		return
	}
	m, err := x.manifest(d, d.Firmware.Running, inventory.RollbackReadBack)
	if err == nil {
		m.Unhealthy = true
		err = x.cfg.Archive.Keep(ctx, m, func(ctx context.Context, path string) error { return archiver.Archive(ctx, d.Identity, path) })
	}
	if err != nil {
		x.logger().Warn("Firmware at fault could not be kept as evidence", "job", x.job.Name, "device", d.UniqueID, "err", err)
	}
}

// wrote is what a write returned; nil while the write goes on and this process does not follow it.
func (x *execution) wrote(s step.Step, needs inventory.Activation, err error) *step.Returned {
	if x.unknown(s, err) {
		return nil
	}
	if err != nil {
		return failed(s, writeReason(err), err.Error())
	}
	return &step.Returned{Needs: needs}
}

// unknown reports whether the outcome of a write is not known, because it goes on and this process does not follow it, or
// because its end was not seen. The device is then read.
func (x *execution) unknown(s step.Step, err error) bool {
	switch {
	case errors.Is(err, command.ErrStillRunning), errors.Is(err, command.ErrBusy):
		x.logger().Error("A write goes on that this process does not follow; it is never killed", "job", x.job.Name, "step", s.Kind,
			"device", s.Device, "err", err)
		return true
	case errors.Is(err, command.ErrLost):
		x.logger().Warn("The outcome of a write is unknown; the device is read to find out what it stores", "job", x.job.Name, "step", s.Kind,
			"device", s.Device, "err", err)
		return true
	}
	return false
}

// target is the device in the record of the job.
func (x *execution) target(device string) step.Update {
	for _, u := range x.job.Record.Updates {
		if u.Device == device {
			return u
		}
	}
	return step.Update{}
}
