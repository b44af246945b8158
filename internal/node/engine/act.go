package engine

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"syscall"
	"time"

	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/signature"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// act runs the step, which is journalled as running, and journals what it returned. It returns how long to wait
// before the next round.
func (x *execution) act(ctx context.Context, i int) time.Duration {
	s := x.job.Record.Steps[i]
	switch s.Kind {
	case plan.Preflight:
		return x.returnedOrAgain(i, x.interruptibly(ctx, s, x.preflight))
	case plan.Maintenance:
		return x.ask("take the node out of service", x.cfg.Maintenance.Schedule(ctx))
	case plan.Archive:
		return x.returnedOrAgain(i, x.interruptibly(ctx, s, x.archive))
	case plan.Flash:
		return x.returned(i, x.outliving(ctx, s, x.flash))
	case plan.Restore:
		return x.returned(i, x.outliving(ctx, s, x.restore))
	case plan.Configure:
		return x.returnedOrAgain(i, x.outliving(ctx, s, x.configure))
	case plan.Activate:
		return x.returned(i, x.outliving(ctx, s, x.activate))
	case plan.Reboot:
		return x.rebooting(i, x.reboot(ctx, s))
	case plan.Release:
		return x.ask("return the node to service", x.cfg.Maintenance.Release(ctx))
	case plan.Verify, plan.Health:
		return 0 // they only read, and every round reads
	}
	ret, underway := x.task(ctx, s)
	if underway == nil {
		delete(x.drives, i)
		return x.returnedOrAgain(i, ret)
	}
	return x.follow(ctx, i, *underway)
}

// interruptibly does a step that a cancellation ends at once, though it waits for a tool, a plugin or an image. It returns nil then:
// what was read so far is not complete.
func (x *execution) interruptibly(ctx context.Context, s step.Step, do func(context.Context, step.Step) *step.Returned) *step.Returned {
	if !s.Interruptible {
		return do(ctx, s)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	x.onCancel(cancel)
	defer x.onCancel(nil)
	ret := do(ctx, s)
	if ctx.Err() != nil {
		return nil
	}
	return ret
}

// returnedOrAgain journals what an attempt returned. Where the attempt could not be made, it waits so that it is made
// again.
func (x *execution) returnedOrAgain(i int, ret *step.Returned) time.Duration {
	if wait := x.returned(i, ret); wait > 0 || ret == nil || !ret.Again || ret.Failure == nil {
		return wait
	}
	x.wait(ret.Failure.Message)
	return retryFactor * x.cfg.Poll
}

// rebooting journals what the request for a reboot returned. A host that refuses is asked again; the wait for it begins with the first
// refusal, whatever it says later.
func (x *execution) rebooting(i int, ret *step.Returned) time.Duration {
	was := x.job.Record.Steps[i].Returned
	if refused := ret != nil && ret.Failure != nil; !refused || was == nil || was.Failure == nil {
		if wait := x.returned(i, ret); wait > 0 || !refused {
			return wait
		}
	}
	x.wait("the host refuses to reboot, and is asked again: " + ret.Failure.Message)
	return retryFactor * x.cfg.Poll
}

// ask handles the result of a request to the API server. Requests are repeated until the state of the maintenance shows
// that they were carried out.
func (x *execution) ask(what string, err error) time.Duration {
	if err != nil {
		return x.logAndRetry(fmt.Errorf("%s: %w", what, err))
	}
	return 0
}

// returned journals what an attempt returned. Where that is not known, or cannot be journalled, the attempt counts as
// interrupted and the hardware decides.
func (x *execution) returned(i int, ret *step.Returned) time.Duration {
	if ret != nil && reflect.DeepEqual(x.job.Record.Steps[i].Returned, ret) {
		return 0 // it still waits for the same
	}
	x.since = x.cfg.Elapsed()
	if ret == nil {
		x.interrupted = true
		return x.cfg.Poll
	}
	next := x.job
	next.Record = step.Report(x.job.Record, i, *ret)
	if err := x.save(next); err != nil {
		x.interrupted = true
		return x.logAndRetry(err)
	}
	return 0
}

// outliving does a step that writes and may go on for a while after the end of the context. It returns nil also when it failed
// because that time was over: the error says nothing about the device then.
func (x *execution) outliving(ctx context.Context, s step.Step, do func(context.Context, step.Step) *step.Returned) *step.Returned {
	ctx, cancel := x.outlive(ctx)
	defer cancel()
	x.begins(x.update(s.Device).UniqueID)
	ret := do(ctx, s)
	x.exposed() // a tool may have shown no progress
	x.writing = ""
	if ctx.Err() != nil && ret != nil && ret.Failure != nil {
		return nil
	}
	return ret
}

// flash writes the image. It returns nil when the write goes on and this process does not follow it.
func (x *execution) flash(ctx context.Context, s step.Step) *step.Returned {
	u := x.update(s.Device)
	d, drv, failure := x.device(ctx, u)
	if failure != nil {
		return failed(s, failure.Reason, failure.Message)
	}
	img, err := x.image(ctx, u, d)
	if err == nil {
		err = img.Verify()
	}
	if err != nil {
		return failed(s, imageReason(err), err.Error())
	}
	// A plugin may have changed while the image was fetched, or another driver reaches the device now.
	if checked := x.target(s.Device); checked.Driver != "" && checked.Driver != drv.Name() {
		x.replaced = checked.Driver
		return nil // nothing was written: the next round begins with the first step
	} else if checked.DriverVersion != "" && checked.DriverVersion != drv.Version() {
		return nil
	}
	x.guard(ctx)
	if x.job.ProtectionRequired {
		ctx = command.RequireProtection(ctx)
	}
	needs, err := drv.Write(ctx, d.Identity, img, x.progress)
	return x.wrote(s, needs, img.Judge(err))
}

// activate makes the stored image run, as far as the device can without a reboot. It returns nil when the activation goes on
// and this process does not follow it.
func (x *execution) activate(ctx context.Context, s step.Step) *step.Returned {
	d, drv, failure := x.device(ctx, x.update(s.Device))
	if failure != nil {
		return failed(s, step.ActivationFailed, failure.Message)
	}
	needs, reason, err := driver.StillNeeded(x.activateDevice(ctx, d, drv, x.target(s.Device).Needs))
	if x.unknown(s, err) {
		return nil
	}
	if err != nil {
		return failed(s, step.ActivationFailed, err.Error())
	}
	return &step.Returned{Needs: needs, Message: reason}
}

func (x *execution) reboot(ctx context.Context, s step.Step) *step.Returned {
	if s.Returned == nil { // and not asked again because the host refused
		x.refused = false
	}
	x.guard(ctx)
	if err := x.cfg.Rebooter.Reboot(ctx); err != nil {
		if ctx.Err() != nil {
			return nil // the reboot itself may be what ends this process
		}
		return failed(step.Step{Step: plan.Step{Kind: plan.Reboot}}, step.RebootFailed, err.Error())
	}
	return &step.Returned{}
}

// outlive makes the context of a write: it ends Grace later than the context of the process, and with it where Grace is zero.
func (x *execution) outlive(ctx context.Context) (context.Context, context.CancelFunc) {
	if x.cfg.Grace == 0 {
		return context.WithCancel(ctx)
	}
	wctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		time.AfterFunc(x.cfg.Grace, func() { cancel(context.Cause(ctx)) })
	})
	return wctx, func() { stop(); cancel(nil) }
}

func (x *execution) progress(percent int) {
	x.progressed(percent, x.cfg.Elapsed())
}

// progressed reports how far the running step is, since when.
func (x *execution) progressed(percent int, since time.Duration) {
	p := int32(min(max(percent, 0), 100)) //nolint:gosec // bounded
	if x.percent != nil && *x.percent == p {
		return
	}
	x.percent, x.moved = &p, since
	x.overdue, _ = x.late(x.cfg.Elapsed())
	x.exposed()
	x.publish(false)
}

// device finds the hardware of an update and the driver that writes it.
func (x *execution) device(ctx context.Context, u journal.Update) (inventory.Device, driver.Driver, *step.Failure) {
	fail := func(r step.Reason, format string, args ...any) (inventory.Device, driver.Driver, *step.Failure) {
		return inventory.Device{}, nil, &step.Failure{Reason: r, Message: fmt.Sprintf(format, args...), Device: u.Device}
	}
	if u.Class == "" {
		return fail(step.HardwareChanged, "%s: it had no NodeDevice when the job started; nothing was written, and it is planned again once it has one",
			u.Device)
	}
	d, found, err := x.cfg.Host.Find(ctx, u.Class, u.UniqueID)
	switch {
	case err != nil:
		return fail(step.ReadFailed, "%s: %v", u.Device, err)
	case !found:
		return fail(step.HardwareChanged, "%s: this host has no device with the id %s; a replacement is not written, but planned as a new device",
			u.Device, u.UniqueID)
	case d.Err != nil:
		return fail(step.ReadFailed, "%s: %v", u.Device, d.Err)
	}
	drv, err := x.cfg.Drivers.Of(d)
	if err != nil {
		return fail(step.NotUpdatable, "%s: %v", u.Device, err)
	}
	return d, drv, nil
}

// image is the verified image of an update, from a source or from the archive.
func (x *execution) image(ctx context.Context, u journal.Update, d inventory.Device) (driver.Image, error) {
	if u.Archived != "" {
		return x.archived(u, d)
	}
	digest, err := inventory.ParseDigest(u.Digest)
	if err != nil {
		return driver.Image{}, driver.Rejectf("%v", err)
	}
	path, size, err := x.cfg.Images.Fetch(ctx, digest)
	if err != nil {
		return driver.Image{}, fmt.Errorf("fetch image %s for %s: %w", digest, u.Device, err)
	}
	return driver.Image{Path: path, Size: size, Version: inventory.Version(u.Version), Digest: digest}, nil
}

func failed(s step.Step, r step.Reason, message string) *step.Returned {
	return &step.Returned{Failure: &step.Failure{Reason: r, Message: message, Step: s.Kind, Device: s.Device}}
}

func imageReason(err error) step.Reason {
	if unsigned := (*signature.Error)(nil); errors.As(err, &unsigned) {
		return step.Reason(unsigned.Reason)
	}
	if rejected := (*driver.RejectedError)(nil); errors.As(err, &rejected) {
		return step.ImageRejected
	}
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return step.StorageFailed
	}
	return step.ImageUnavailable
}

func writeReason(err error) step.Reason {
	if rejected := (*driver.RejectedError)(nil); errors.As(err, &rejected) {
		return step.ImageRejected
	}
	if errors.Is(err, command.ErrUnprotected) {
		return step.WriteUnprotected
	}
	if errors.Is(err, command.ErrImage) { // nothing was written, and the next attempt fetches what changed
		return imageReason(err)
	}
	return step.WriteFailed
}
