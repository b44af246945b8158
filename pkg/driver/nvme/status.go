package nvme

import (
	"errors"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/nvme/admin"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// activation is what the committed image needs to run, or why it was not committed.
func (a answer) activation() (inventory.Activation, error) {
	switch a.status {
	case admin.Success, admin.NeedsControllerReset:
		return inventory.ActivateDeviceReset, nil
	case admin.NeedsConventionalReset, admin.NeedsSubsystemReset:
		return inventory.ActivateReboot, nil
	}
	return 0, a.refusal()
}

// refusal is the error of an answer that is no success.
func (a answer) refusal() error {
	switch a.status {
	case admin.InvalidImage:
		return driver.Rejectf("the drive does not accept the image: it is damaged or for another model")
	case admin.ActivationProhibited:
		return driver.Rejectf("the drive prohibits this image, as a downgrade or by its security policy")
	case admin.InvalidSlot:
		return a.failed("the drive refuses the slot")
	case admin.MaximumTimeViolation:
		return a.failed("the drive cannot activate this image in the time it declares: power-cycle the node and try again")
	case admin.OverlappingRange:
		return command.Failed(a.command, a.result, errOverlapping)
	}
	return a.failed("the drive failed the command")
}

// errOverlapping means that the drive holds pieces of another image than the one that is being sent.
var errOverlapping = errors.New("the drive holds pieces of another download: another program is updating it, or a download was interrupted; " +
	"end the program, reset the drive or power-cycle the node, and try again")

func (a answer) failed(text string) error {
	return command.Failed(a.command, a.result, errors.New(text))
}
