package wire

import (
	"fmt"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/plugin/v1"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// pairs is a translation of an enum. Values that are not in it are errors in both directions.
type pairs[Ours, Theirs comparable] []pair[Ours, Theirs]

type pair[Ours, Theirs comparable] struct {
	ours   Ours
	theirs Theirs
}

func (p pairs[Ours, Theirs]) from(value Theirs) (Ours, error) {
	for _, one := range p {
		if one.theirs == value {
			return one.ours, nil
		}
	}
	var none Ours
	return none, fmt.Errorf("%T has the unknown value %v", value, value)
}

func (p pairs[Ours, Theirs]) to(value Ours) (Theirs, error) {
	for _, one := range p {
		if one.ours == value {
			return one.theirs, nil
		}
	}
	var none Theirs
	return none, fmt.Errorf("%T has the value %v, which the protocol does not know", value, value)
}

var classes = pairs[inventory.Class, pluginv1.Class]{
	{inventory.NIC, pluginv1.Class_CLASS_NIC},
	{inventory.Disk, pluginv1.Class_CLASS_DISK},
	{inventory.BIOS, pluginv1.Class_CLASS_BIOS},
	{inventory.StorageController, pluginv1.Class_CLASS_STORAGE_CONTROLLER},
}

var supports = pairs[driver.Support, pluginv1.Support]{
	{driver.SupportGeneric, pluginv1.Support_SUPPORT_GENERIC},
	{driver.SupportMainline, pluginv1.Support_SUPPORT_MAINLINE},
	{driver.SupportVendor, pluginv1.Support_SUPPORT_VENDOR},
}

var activations = pairs[inventory.Activation, pluginv1.Activation]{
	{inventory.ActivateNone, pluginv1.Activation_ACTIVATION_NONE},
	{inventory.ActivateDeviceReset, pluginv1.Activation_ACTIVATION_DEVICE_RESET},
	{inventory.ActivateDriverReload, pluginv1.Activation_ACTIVATION_DRIVER_RELOAD},
	{inventory.ActivateReboot, pluginv1.Activation_ACTIVATION_REBOOT},
	{inventory.ActivatePowerCycle, pluginv1.Activation_ACTIVATION_POWER_CYCLE},
}

var rollbacks = pairs[inventory.Rollback, pluginv1.Rollback]{
	{inventory.RollbackNone, pluginv1.Rollback_ROLLBACK_NONE},
	{inventory.RollbackReadBack, pluginv1.Rollback_ROLLBACK_READ_BACK},
	{inventory.RollbackSlot, pluginv1.Rollback_ROLLBACK_SLOT},
	{inventory.RollbackImage, pluginv1.Rollback_ROLLBACK_IMAGE},
}

var formats = pairs[inventory.VersionFormat, pluginv1.VersionFormat]{
	{inventory.FormatPlain, pluginv1.VersionFormat_VERSION_FORMAT_PLAIN},
	{inventory.FormatDotted, pluginv1.VersionFormat_VERSION_FORMAT_DOTTED},
}

var slotStates = pairs[inventory.SlotState, pluginv1.SlotState]{
	{inventory.SlotActive, pluginv1.SlotState_SLOT_STATE_ACTIVE},
	{inventory.SlotPending, pluginv1.SlotState_SLOT_STATE_PENDING},
	{inventory.SlotReadOnly, pluginv1.SlotState_SLOT_STATE_READ_ONLY},
	{inventory.SlotIdle, pluginv1.SlotState_SLOT_STATE_IDLE},
}

// ActivationFrom translates a kind of activation from a message.
func ActivationFrom(a pluginv1.Activation) (inventory.Activation, error) { return activations.from(a) }

// ActivationTo translates a kind of activation into a message.
func ActivationTo(a inventory.Activation) (pluginv1.Activation, error) { return activations.to(a) }
