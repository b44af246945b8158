package job

import (
	"context"
	"fmt"
	"time"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/node/health"
	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// retryFactor stretches the interval at which a preflight that could not be done is tried again.
const retryFactor = 5

// preflight checks every update before the node is disturbed, and takes the baseline of its health.
func (x *execution) preflight(ctx context.Context, i int) time.Duration {
	ret := &step.Returned{}
	for _, u := range x.job.Updates {
		if failure, again := x.check(ctx, u); failure != nil {
			failure.Step, failure.Device = plan.Preflight, u.Device
			ret = &step.Returned{Failure: failure, Again: again}
			break
		}
	}
	if ret.Failure == nil && x.job.Baseline == nil {
		if err := x.takeBaseline(ctx); err != nil {
			ret = failed(x.job.Record.Steps[i], step.ReadFailed, err.Error())
			ret.Again = true
		}
	}
	if wait := x.returned(i, ret); wait > 0 || !ret.Again {
		return wait
	}
	x.wait(ret.Failure.Message)
	return retryFactor * x.cfg.Poll
}

func (x *execution) takeBaseline(ctx context.Context) error {
	devices, err := x.cfg.Host.Scan(ctx)
	if err != nil {
		return fmt.Errorf("scan devices before the job: %w", err)
	}
	b := health.Take(devices)
	next := x.job
	next.Baseline = &b
	return x.save(next)
}

// check says why an update must not be made; again is true when that may pass.
func (x *execution) check(ctx context.Context, u journal.Update) (failure *step.Failure, again bool) {
	d, drv, failure := x.device(ctx, u)
	if failure != nil {
		return failure, failure.Reason == step.ReadFailed
	}
	fw := d.Firmware
	version := inventory.Version(u.Version)
	if fw.Running == version && !fw.Pending() {
		return nil, false
	}
	wish := plan.Wish{Version: version, AllowDowngrade: u.Downgrade == v1alpha1.DowngradeAllow}
	switch message := plan.Downgrade(wish, plan.FactsOf(d)); {
	case fw.ReadOnly != "":
		return &step.Failure{Reason: step.NotUpdatable, Message: fmt.Sprintf("%s cannot be updated: %s", u.Device, fw.ReadOnly)}, false
	case message != "":
		return &step.Failure{Reason: step.DowngradeForbidden, Message: fmt.Sprintf("%s: %s", u.Device, message)}, false
	case fw.Activation == inventory.ActivatePowerCycle:
		return &step.Failure{Reason: step.PowerCycleRequired,
			Message: fmt.Sprintf("%s would run %s only after a power-cycle; update it by hand", u.Device, version)}, false
	case fw.Stored == version:
		return nil, false
	}
	img, err := x.image(ctx, u)
	if err == nil {
		err = drv.Check(ctx, d.Identity, img)
	}
	if err == nil {
		return nil, false
	}
	reason := imageReason(err)
	return &step.Failure{Reason: reason, Message: fmt.Sprintf("%s: %v", u.Device, err)}, reason != step.ImageRejected
}
