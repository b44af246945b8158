package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"syscall"

	"github.com/nodefirmware/node-firmware-operator/internal/node/health"
	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// retryFactor times Poll is the interval at which an attempt that could not be made is tried again.
const retryFactor = 5

// preflight checks every update before the node is disturbed, and takes the baseline of its health.
func (x *execution) preflight(ctx context.Context, s step.Step) *step.Returned {
	if x.cfg.Volatile != "" && !x.job.Record.Wrote() {
		return failed(s, step.JobRejected, x.cfg.Volatile)
	}
	ret := &step.Returned{}
	x.arrays, x.replaced, x.copies, x.reboots, x.measured, x.attended, x.prepared = map[string]string{}, "", nil, false, nil, false, map[string]prepared{}
	for _, u := range x.job.Updates {
		drv, failure, again := x.check(ctx, u)
		if failure != nil {
			failure.Step, failure.Device = plan.Preflight, u.Device
			ret = &step.Returned{Failure: failure, Again: again}
			break
		}
		if ret.Drivers == nil {
			ret.Drivers = map[string]step.Driver{}
		}
		ret.Drivers[u.Device] = step.Driver{Name: drv.Name(), Version: drv.Version()}
	}
	if ret.Failure == nil {
		ret.Failure = x.unfit(ctx)
	}
	if ret.Failure == nil {
		if err := x.room(); err != nil {
			return again(failed(s, step.StorageFailed, err.Error()))
		}
	}
	if ret.Failure == nil {
		if failure, again := x.locked(ctx, ret); failure != nil {
			failure.Step = plan.Preflight
			return &step.Returned{Failure: failure, Again: again}
		}
	}
	if ret.Failure == nil && x.reboots && !x.job.Record.Wrote() {
		if err := x.cfg.Rebooter.CanReboot(ctx); err != nil {
			return again(failed(s, step.UnhealthyBefore, fmt.Sprintf("nothing was changed, because the host cannot be rebooted: %v", err)))
		}
	}
	if ret.Failure == nil {
		noUndo, err := x.keepBefore()
		if err != nil {
			return again(failed(s, step.ReadFailed, err.Error()))
		}
		ret.NoUndo = noUndo
	}
	if ret.Failure == nil && (x.job.Baseline == nil || x.job.Record.Inherited && !x.job.Record.Wrote()) {
		if reason, err := x.takeBaseline(ctx); err != nil {
			ret = again(failed(s, reason, err.Error()))
		}
	}
	return ret
}

// unfit is why a step of the job that is not part of every update must not be begun; nil when each may be.
func (x *execution) unfit(ctx context.Context) *step.Failure {
	for _, s := range x.job.Record.Steps {
		if !s.Task || !s.Changes || s.Attempt > 0 || x.cfg.Tasks == nil {
			continue
		}
		if failure := x.cfg.Tasks.Check(ctx, s, x.update(s.Device)); failure != nil {
			failure.Step, failure.Device = plan.Preflight, s.Device
			return failure
		}
	}
	return nil
}

// takeBaseline records what the host has. A complaint that exists already could not be told from one of the new firmware afterwards,
// so the job waits until there is none. A job that goes on with the baseline of the one that held the node adds what is wrong now.
func (x *execution) takeBaseline(ctx context.Context) (step.Reason, error) {
	// What is wrong on a node that an earlier job holds, or to which a person has firmware restored, is what the job is to mend.
	mends := x.job.Record.Inherited || x.job.Restores()
	wrong, err := x.cfg.Health.Before(ctx)
	switch {
	case mends:
	case err != nil:
		return step.ReadFailed, fmt.Errorf("check the health of the node before the job: %w", err)
	case len(wrong) > 0:
		return step.UnhealthyBefore, fmt.Errorf("the node was unhealthy before the job, so nothing was changed: %s", wrong[0].Message)
	}
	devices, err := x.cfg.Host.Scan(ctx)
	if err != nil {
		return step.ReadFailed, fmt.Errorf("scan devices before the job: %w", err)
	}
	for _, d := range devices {
		if d.Err != nil && x.deviceOf(d.UniqueID) != "" {
			return step.ReadFailed, fmt.Errorf("%s cannot be read, so its health before the job is not known: %w", x.deviceOf(d.UniqueID), d.Err)
		}
	}
	var b health.Baseline
	if was := x.job.Baseline; was != nil {
		b = *was
		b.Before, b.Arrays = nil, slices.Clone(was.Arrays)
	} else {
		b = x.cfg.Health.Take(ctx, devices)
		b.Expect(x.job.Expected, devices)
	}
	if mends {
		for _, c := range append(wrong, b.Compare(devices)...) {
			b.Before = append(b.Before, c.Subject)
		}
	}
	b.Kexec = x.kexec()
	switch kernel := x.kernel(); { // the boot before the first job on a held node is what the next ones are compared with as well
	case b.Boot == step.BootTime{}:
		b.Kernel, b.Boot = kernel, x.bootTime(ctx)
	case kernel != b.Kernel:
		b.Kernel, b.Boot.System = kernel, 0
	}
	if b.Attended = b.Attended || x.attended; b.Attended {
		b.Boot.System = 0
	}
	for i := range b.Arrays {
		b.Arrays[i].Drive = x.update(x.arrays[b.Arrays[i].Name]).UniqueID
	}
	if x.job.Baseline != nil && reflect.DeepEqual(*x.job.Baseline, b) {
		return "", nil
	}
	next := x.job
	next.Baseline = &b
	return step.ReadFailed, x.save(next)
}

// check returns the driver that makes an update, or why the update must not be made; again is true when the cause may be
// temporary.
func (x *execution) check(ctx context.Context, u journal.Update) (drv driver.Driver, failure *step.Failure, again bool) {
	d, drv, failure := x.device(ctx, u)
	if failure != nil {
		gone := failure.Reason == step.HardwareChanged && x.job.Record.Touched(u.Device) // what the job wrote may be why
		return nil, failure, failure.Reason == step.ReadFailed || gone
	}
	if len(x.job.Requested) > 0 {
		return drv, nil, false
	}
	if failure, err := x.history(u); u.Archived == "" && (failure != nil || err != nil) { // a restore is the way out of what failed before
		if err != nil {
			failure = &step.Failure{Reason: step.ReadFailed, Message: err.Error()}
		}
		return nil, failure, err != nil
	}
	if u.Version != "" {
		failure, again = x.fits(ctx, u, d, drv)
	}
	if failure == nil && u.Configures() {
		failure, again = x.fitsSettings(ctx, u, d)
		if failure != nil && u.ArchivedSettings && d.Firmware.Running != inventory.Version(u.Version) && !x.job.Record.Touched(u.Device) {
			x.logger().Warn("The firmware is restored without its settings", "job", x.job.Name, "device", u.Device, "reason", failure.Reason, "message", failure.Message)
			x.prepared[u.Device], failure, again = prepared{keepsDeclared: true}, nil, false
		}
	}
	return drv, failure, again
}

// MaxWrites bounds how often one image is written to one device, over all jobs, until a person requests a retry.
const MaxWrites = 3

// history returns why an update must not be made because of what happened to the device before; nil when nothing forbids it.
func (x *execution) history(u journal.Update) (*step.Failure, error) {
	view, err := x.cfg.Journal.View()
	if err != nil {
		return nil, err
	}
	const nextStep = "; repair it, then set spec.requests.retry of the node's NodeFirmware to a new value"
	known := view.Devices[u.UniqueID]
	cleared := x.job.Clearance().Clears
	restored := func(what string, last *journal.Failure) *step.Failure { // the job was planned before the restore: nothing failed
		return &step.Failure{Reason: step.JobRejected, Message: fmt.Sprintf("%s: a person restored other %s in its place in job %s; to have it again, "+
			"set spec.requests.retry of the node's NodeFirmware to a new value", u.Device, what, last.Job)}
	}
	if last := known.SettingsFailure; last != nil && u.Configuration != "" && last.Digest == u.Configuration && !cleared(last.Retry) &&
		(known.Unhealthy == nil || cleared(known.Unhealthy.Retry)) {
		if last.Reason == string(plan.ReasonRestored) {
			return restored("settings", last), nil
		}
		return &step.Failure{Reason: step.Quarantined, Settings: true,
			Message: fmt.Sprintf("%s: these settings failed on it in job %s: %s%s", u.Device, last.Job, last.Message, nextStep)}, nil
	}
	switch bad, last, tries := known.Unhealthy, known.LastFailure, known.Attempts; {
	case bad != nil && !cleared(bad.Retry):
		return &step.Failure{Reason: step.DeviceUnhealthy,
			Message: fmt.Sprintf("%s: job %s left it unhealthy: %s%s", u.Device, bad.Job, bad.Message, nextStep)}, nil
	case u.Digest == "":
	case last != nil && last.Reason == string(plan.ReasonRestored) && (last.Digest == u.Digest || last.Digest == "" && last.Version == u.Version) &&
		!cleared(last.Retry):
		return restored("firmware", last), nil
	case last != nil && last.Digest == u.Digest && !cleared(last.Retry):
		return &step.Failure{Reason: step.Quarantined,
			Message: fmt.Sprintf("%s: this image failed on it in job %s: %s%s", u.Device, last.Job, last.Message, nextStep)}, nil
	case tries != nil && tries.Digest == u.Digest && tries.Writes-tries.Cleared >= MaxWrites && !cleared(tries.Retry):
		return &step.Failure{Reason: step.AttemptsExhausted,
			Message: fmt.Sprintf("%s: this image was written to it %d times without success%s", u.Device, tries.Writes, nextStep)}, nil
	}
	return nil, nil
}

// switchedOff returns why the steps of this host do not allow the update; nil when they do.
func (x *execution) switchedOff(u journal.Update) *step.Failure {
	switch {
	case !x.cfg.Catalog.Runs(plan.Flash, u.Class):
		return &step.Failure{Reason: step.NotUpdatable,
			Message: fmt.Sprintf("%s: flashing devices of class %s is switched off on this node by the priority of its step", u.Device, u.Class)}
	case x.job.Record.RollbackRequired && !x.cfg.Catalog.Runs(plan.Archive, u.Class):
		return &step.Failure{Reason: step.RollbackUnavailable,
			Message: fmt.Sprintf("%s: archiving devices of class %s is switched off on this node, and the rollout policy requires that it can be rolled back",
				u.Device, u.Class)}
	}
	return nil
}

// refusals are the reasons of package plan as a job reports them. A read that failed is found out before.
var refusals = map[plan.Reason]step.Reason{
	plan.ReasonNotUpdatable:       step.NotUpdatable,
	plan.ReasonImageNotFound:      step.ImageRejected,
	plan.ReasonDowngradeForbidden: step.DowngradeForbidden,
	plan.ReasonPowerCycleRequired: step.PowerCycleRequired,
}

// fits returns why the image must not be written to the device, nil when it may; again is true when the cause may be
// temporary.
func (x *execution) fits(ctx context.Context, u journal.Update, d inventory.Device, drv driver.Driver) (failure *step.Failure, again bool) {
	fw, begun := d.Firmware, x.job.Record.Touched(u.Device)
	needs := x.needs(u, d)
	if needs.Outcome == plan.UpToDate {
		return nil, false
	}
	x.reboots = x.reboots || fw.Activation == inventory.ActivateReboot
	x.measured = append(x.measured, u.Class.Measured()...)
	if failure := x.switchedOff(u); failure != nil {
		return failure, false
	}
	if failure, again := x.mayDisturb(ctx, u, d); failure != nil {
		return failure, again
	}
	refused := &step.Failure{Reason: refusals[needs.Reason], Message: fmt.Sprintf("%s: %s", u.Device, needs.Message)}
	switch {
	case needs.Outcome == plan.Blocked && needs.Reason != plan.ReasonPowerCycleRequired:
		return refused, false
	case !begun && u.FromVersion != "" && string(fw.Running) != u.FromVersion && string(fw.Running) != u.Version:
		return &step.Failure{Reason: step.HardwareChanged,
			Message: fmt.Sprintf("%s runs %s now, and the job was planned when it ran %s; nothing was written, and it is planned again",
				u.Device, fw.Running, u.FromVersion)}, false
	case needs.Outcome == plan.Blocked:
		return refused, false
	case needs.Outcome == plan.DueActivation:
		return nil, false
	}
	img, err := x.image(ctx, u, d)
	if err == nil {
		err = img.Judge(drv.Check(ctx, d.Identity, img))
	}
	if err == nil {
		x.toCopy(img)
		return nil, false
	}
	reason := imageReason(err)
	return &step.Failure{Reason: reason, Message: fmt.Sprintf("%s: %v", u.Device, err)}, !errors.As(err, new(*driver.RejectedError))
}

// mayDisturb returns why the device must not be written to at all, nil when it may be; again is true when the cause may be temporary.
func (x *execution) mayDisturb(ctx context.Context, u journal.Update, d inventory.Device) (failure *step.Failure, again bool) {
	if failure := x.unprotected(ctx, u); failure != nil {
		return failure, false
	}
	return x.disturbs(ctx, u, d)
}

// needs decides what the device needs to run the version of the update.
func (x *execution) needs(u journal.Update, d inventory.Device) plan.Decision {
	digest, err := inventory.ParseDigest(u.Digest)
	if err != nil {
		digest = inventory.Digest{} // no image is known then
	}
	facts := plan.FactsOf(d)
	if string(facts.Running) == u.Version && d.Firmware.Pending() {
		facts.Running = "" // what is stored replaces it at the next activation
	}
	return plan.Decide(plan.Desired{
		Version: inventory.Version(u.Version), Digest: digest,
		// What runs after the first write may be what this job wrote: reading that back is for later.
		AllowDowngrade: u.AllowDowngrade || x.job.Record.Touched(u.Device),
	}, facts)
}

// keptFree is what stays free on a file system beside a copy, in bytes: the journal needs room, and a node that is full evicts pods.
const keptFree = 64 << 20

// toCopy remembers that a tool of this job gets a copy of the image, where that is made on disk. Tools run one after the other, so only the
// largest copy in a directory counts. Whether a driver lets a tool read a copy is not known: one that does not needs the room for nothing.
func (x *execution) toCopy(img driver.Image) {
	if img.Size <= cmp.Or(x.cfg.MaxInMemory, command.MaxInMemory) {
		return
	}
	if x.copies == nil {
		x.copies = map[string]int64{}
	}
	dir := filepath.Dir(img.Path)
	x.copies[dir] = max(x.copies[dir], img.Size)
}

// room returns an error that wraps syscall.ENOSPC when a file system has no room for a copy of an image. One that does not say what it has
// left is copied to: the copy will tell.
func (x *execution) room() error {
	if x.cfg.Free == nil {
		return nil
	}
	for dir, size := range x.copies {
		if free, err := x.cfg.Free(dir); err == nil && free < size+keptFree {
			const mebibyte = 1 << 20
			return fmt.Errorf("the file system of %s is full: %d MiB are left and %d MiB are needed, of which %d MiB are for a copy of the image that its "+
				"tool reads and %d MiB stay free for the node; nothing was written; make room there: %w", dir, free/mebibyte,
				(size+keptFree+mebibyte-1)/mebibyte, (size+mebibyte-1)/mebibyte, keptFree/mebibyte, syscall.ENOSPC)
		}
	}
	return nil
}
