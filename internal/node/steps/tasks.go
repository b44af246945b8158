package steps

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/node/engine"
	"github.com/nodefirmware/node-firmware-operator/internal/node/erase"
	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// Machine reads the devices of this machine.
type Machine interface {
	// Find reads one device again.
	Find(ctx context.Context, class inventory.Class, uniqueID string) (device inventory.Device, found bool, err error)
	// Scan reads all devices again. It fails when a class cannot be listed completely.
	Scan(ctx context.Context) ([]inventory.Device, error)
}

// Tasks runs steps on this machine.
type Tasks struct {
	Machine Machine
	Drivers driver.Set
	// Root is the directory with the machine's /sys.
	Root string
	// Scratch is a directory for images that are read back; it is created when needed.
	Scratch string
	// Applied returns the firmware a job last installed on a device, by unique id; nil when none did.
	Applied func(uniqueID string) (*journal.Applied, error)
	// Eraser erases drives.
	Eraser erase.Eraser
}

// Run runs one step, of the machine or of the given device. The request is zero for a step that was not requested by
// name. Repeating Run is harmless. It returns nil while a write to the device that an earlier attempt left behind still
// runs.
func (t Tasks) Run(ctx context.Context, s step.Step, request journal.RequestedStep, device journal.Update) (ret *step.Returned, underway *engine.Underway) {
	var err error
	switch s.Kind {
	case plan.VerifyInventory:
		ret, err = t.verifyInventory(ctx, request.Expected)
	case plan.VerifyFirmware:
		ret, err = t.verifyFirmware(ctx, request, device)
	case plan.ResetBIOSSettings:
		ret, err = t.resetBIOSSettings()
	case plan.Erase:
		ret, underway, err = t.erase(ctx, s, device)
	default:
		ret, err = t.runDriverStep(ctx, s, device)
	}
	if err != nil {
		return &step.Returned{Failure: &step.Failure{Reason: step.StepFailed, Message: err.Error(), Step: s.Kind, Device: s.Device}}, nil
	}
	return ret, underway
}

// Check implements engine.Tasks.
func (t Tasks) Check(ctx context.Context, s step.Step, device journal.Update) *step.Failure {
	if s.Kind != plan.Erase {
		return nil
	}
	d, err := t.drive(ctx, s, device)
	if err == nil {
		err = t.Eraser.Check(ctx, d)
	} else {
		err = fmt.Errorf("nothing was erased: %w", err)
	}
	if err != nil {
		return &step.Failure{Reason: step.StepFailed, Message: fmt.Sprintf("%s: %v", s.Device, err)}
	}
	return nil
}

func (t Tasks) drive(ctx context.Context, s step.Step, u journal.Update) (erase.Drive, error) {
	d, drv, err := t.find(ctx, u)
	return erase.Drive{Device: d, Driver: drv, Arguments: s.Arguments}, err
}

// erase does the next part of the erasure of a drive.
func (t Tasks) erase(ctx context.Context, s step.Step, u journal.Update) (*step.Returned, *engine.Underway, error) {
	if s.Lasting && s.Data == nil {
		return nil, nil, errors.New("the drive is NOT proven erased: it was told to erase itself, and what was kept of that is lost; request the step again")
	}
	d, err := t.drive(ctx, s, u)
	switch {
	case err != nil && s.Data != nil: // it may be erasing itself
		return nil, &engine.Underway{Percent: -1, Message: "the drive is NOT proven erased: " + err.Error(), Gone: errors.Is(err, errGone)}, nil
	case err != nil:
		return nil, nil, fmt.Errorf("nothing was erased: %w", err)
	}
	r, err := t.Eraser.Round(ctx, d, s.Attempt, s.Data)
	switch {
	case r == nil || err != nil:
		return nil, nil, err
	case r.Percent != nil:
		return nil, &engine.Underway{Percent: *r.Percent, Message: r.Message}, nil
	}
	return &step.Returned{Data: r.Data, Again: r.Again, Lasting: r.Begun, Message: r.Message}, nil, nil
}

// find reads the device a step works on, and returns the driver that read it.
func (t Tasks) find(ctx context.Context, u journal.Update) (inventory.Device, driver.Driver, error) {
	d, found, err := t.Machine.Find(ctx, u.Class, u.UniqueID)
	switch {
	case err != nil:
		return d, nil, fmt.Errorf("find %s: %w", u.Device, err)
	case !found:
		return d, nil, fmt.Errorf("no device with the unique id %s is on this node; %w", u.UniqueID, errGone)
	case d.Err != nil:
		return d, nil, d.Err
	}
	drv, err := t.Drivers.Of(d)
	return d, drv, err
}

var errGone = errors.New("was it replaced?")

// NewCatalog returns the steps of this product and of the drivers, with the given priorities by key.
func NewCatalog(drivers driver.Set, priorities map[string]int32) (plan.Catalog, error) {
	var extra []plan.Definition
	var errs []error
	for _, d := range drivers.All() {
		stepper, ok := d.(driver.Stepper)
		if !ok {
			continue
		}
		name, own := d.Name(), stepper.Steps()
		if len(own) > 0 && reserved(name) {
			errs = append(errs, fmt.Errorf("driver %s has the name of another interface and cannot provide steps", name))
		}
		for _, s := range own {
			extra = append(extra, plan.Definition{
				Kind: plan.Kind(s.Name), Interface: name, Priority: s.Priority, Changes: s.Changes, Interruptible: !s.Changes, Deadline: s.Deadline,
			})
		}
	}
	c, err := plan.NewCatalog(priorities, extra...)
	if err = errors.Join(append(errs, err)...); err != nil {
		return plan.Catalog{}, fmt.Errorf("load steps: %w", err)
	}
	return c, nil
}

// reserved reports whether the interface is used by steps that no driver provides.
func reserved(name string) bool {
	return strings.EqualFold(name, plan.HostInterface) || slices.ContainsFunc(inventory.Classes(), func(c inventory.Class) bool {
		return strings.EqualFold(name, string(c))
	})
}

// Enabled lists the enabled steps in the form of a node's status.
func Enabled(c plan.Catalog) []v1alpha1.EnabledStep {
	var out []v1alpha1.EnabledStep
	for _, d := range c.Enabled() {
		out = append(out, v1alpha1.EnabledStep{Name: string(d.Kind), Interface: d.Interface, Priority: d.Priority})
	}
	return out
}

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
	return stepper.RunStep(ctx, driver.StepCall{Identity: id, Name: string(s.Kind), Data: s.Data})
}
