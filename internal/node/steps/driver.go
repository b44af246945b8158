package steps

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// maxData bounds the data a driver's step may keep, in bytes: the journal rewrites it with every change of the job.
const maxData = 4 << 10

// runDriverStep runs a step that the driver of the device provides, from where it stopped.
func (t Tasks) runDriverStep(ctx context.Context, s step.Step, u journal.Update) (*step.Returned, error) {
	d, drv, err := t.find(ctx, u)
	if err != nil {
		return nil, err
	}
	stepper, err := stepperOf(drv, s.Kind)
	if err != nil {
		return nil, err
	}
	result, err := call(ctx, stepper, d.Identity, s)
	switch {
	case errors.Is(err, command.ErrStillRunning), errors.Is(err, command.ErrBusy):
		return nil, nil // the state of the step is not known before the write has ended
	case err != nil:
		return nil, err
	case len(result.Data) > maxData:
		return nil, fmt.Errorf("the driver returned %d bytes of data for the step, the limit is %d; report this to the author of the driver",
			len(result.Data), maxData)
	}
	return &step.Returned{Data: result.Data, Again: result.Again, Reboot: result.Reboot, Message: result.Message}, nil
}

// stepperOf is the driver of the device, if it brings the step.
func stepperOf(drv driver.Driver, kind plan.Kind) (driver.Stepper, error) {
	stepper, ok := drv.(driver.Stepper)
	if !ok || !slices.ContainsFunc(stepper.Steps(), func(s driver.Step) bool { return s.Name == string(kind) }) {
		return nil, fmt.Errorf("the driver of the device does not know the step %s; did the daemon's version change?", kind)
	}
	return stepper, nil
}

// call recovers from a panic of the driver: the step fails, and the daemon keeps running.
func call(ctx context.Context, stepper driver.Stepper, id inventory.Identity, s step.Step) (result driver.StepResult, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the driver panicked: %v; report this to the author of the driver", p)
		}
	}()
	return stepper.RunStep(ctx, id, string(s.Kind), s.Data)
}
