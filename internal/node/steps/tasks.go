package steps

import (
	"context"
	"fmt"

	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
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
}

// Run runs one step, of the machine or of the given device. The request is zero for a step that was not requested by
// name. Repeating Run is harmless. It returns nil while a write to the device that an earlier attempt left behind still
// runs.
func (t Tasks) Run(ctx context.Context, s step.Step, request journal.RequestedStep, device journal.Update) *step.Returned {
	var ret *step.Returned
	var err error
	switch s.Kind {
	case plan.VerifyInventory:
		ret, err = t.verifyInventory(ctx, request.Expected)
	case plan.VerifyFirmware:
		ret, err = t.verifyFirmware(ctx, request, device)
	case plan.ResetBIOSSettings:
		ret, err = t.resetBIOSSettings()
	default:
		ret, err = t.runDriverStep(ctx, s, device)
	}
	if err != nil {
		return &step.Returned{Failure: &step.Failure{Reason: step.StepFailed, Message: err.Error(), Step: s.Kind, Device: s.Device}}
	}
	return ret
}

// find reads the device a step works on, and returns the driver that read it.
func (t Tasks) find(ctx context.Context, u journal.Update) (inventory.Device, driver.Driver, error) {
	d, found, err := t.Machine.Find(ctx, u.Class, u.UniqueID)
	switch {
	case err != nil:
		return d, nil, fmt.Errorf("find %s: %w", u.Device, err)
	case !found:
		return d, nil, fmt.Errorf("no device with the unique id %s is on this node; was it replaced?", u.UniqueID)
	case d.Err != nil:
		return d, nil, d.Err
	}
	drv, err := t.Drivers.Of(d)
	return d, drv, err
}
