package driver

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// Configurer is a Driver that reads and changes settings of its devices too. Its methods return an error that wraps ErrNotSupported for
// a device that has none.
//
// Who changes settings keeps what Parameters said of them before, and undoes the change with inventory.Undo.
type Configurer interface {
	// Parameters reads parameters from the device itself, in order of their names: all, or those of the names and those that they set. A
	// name that the device does not know is left out of the result. It writes nothing.
	Parameters(ctx context.Context, id inventory.Identity, names ...string) ([]inventory.Parameter, error)
	// CheckConfiguration verifies that the device takes the configuration, as it is now. It returns a *RejectedError that names all that
	// is wrong when it does not, and another error when that could not be found out. It writes nothing. Some devices say only while they
	// are written that they do not take a value: Configure then returns the *RejectedError.
	CheckConfiguration(ctx context.Context, id inventory.Identity, c Configuration) error
	// Configure stores the values and returns the activation that is needed before all of them are in force: the most disruptive of
	// those that are not, and ActivateNone when all are. Of a device that does not report what is in force, those count that this call
	// wrote. What the device stores already is not written. The caller performs the activation as after a write, with Activate for
	// DeviceReset and DriverReload, and verifies success by reading the parameters. After an error some of the values may be stored.
	// Calling it again is harmless, also after it was cut off in the middle.
	//
	// Its writing commands take the same lock as those of Updater, and are never killed: the error of one that outlives its context
	// wraps command.ErrStillRunning, and of one that finds another running, command.ErrBusy.
	Configure(ctx context.Context, id inventory.Identity, c Configuration) (inventory.Activation, error)
}

// Configuration is what a device is told to be.
type Configuration struct {
	// Set has the default of a parameter that is to be reset, as inventory.Unlisted returns it.
	Set []inventory.Setting
}

// Names are those of the settings, in their order.
func (c Configuration) Names() []string {
	names := make([]string, len(c.Set))
	for i, s := range c.Set {
		names[i] = s.Name
	}
	return names
}

// MaybeConfigurer is a Configurer of which only the installation knows whether it has settings, such as a driver that is declared in a file.
type MaybeConfigurer interface {
	Configurer
	// Configures reports whether it has. Where it has not, its devices have the settings that others have of them.
	Configures() bool
}

// Supplement is a Driver of settings that the kernel has of a device, whichever driver reads and writes its firmware, if any does.
type Supplement interface {
	// Supplement returns what reads and changes all settings of a device: its own with those that the kernel has. Own is what the driver
	// of the device offers, and nil where that has no settings or there is none; it is returned as it is, also when nil, for a device that
	// the kernel has no settings of. It does no I/O: methods of the result that find none return an error that wraps ErrNotSupported.
	Supplement(id inventory.Identity, own Configurer) Configurer
}

// Configurer returns what reads and changes the settings of an inspected device, or an error that wraps ErrNotSupported when nothing does. It is
// to be called with the identity of that device.
func (s Set) Configurer(d inventory.Device) (Configurer, error) {
	c, why := s.own(d)
	if why != nil && !errors.Is(why, ErrNotSupported) {
		return nil, why
	}
	for _, drv := range s.All() {
		if more, ok := drv.(Supplement); ok {
			c = more.Supplement(d.Identity, c)
		}
	}
	if c == nil {
		return nil, why
	}
	return c, nil
}

// own is what the device's driver offers.
func (s Set) own(d inventory.Device) (Configurer, error) {
	drv, err := s.For(d.Identity)
	if err == nil && drv == nil {
		return nil, fmt.Errorf("no driver knows the device: %w", ErrNotSupported)
	}
	if err == nil {
		drv, err = s.Of(d)
	}
	if err != nil {
		return nil, err
	}
	c, ok := drv.(Configurer)
	if maybe, open := drv.(MaybeConfigurer); !ok || open && !maybe.Configures() {
		return nil, fmt.Errorf("driver %s reads and changes no settings: %w", drv.Name(), ErrNotSupported)
	}
	return c, nil
}

// SettingsOnly is the part of a Driver that is about firmware, for one that has to do with settings alone.
type SettingsOnly struct{}

// Support is SupportNone for every device.
func (SettingsOnly) Support(inventory.Identity) Support { return SupportNone }

var errSettingsOnly = fmt.Errorf("the driver has to do with settings alone: %w", ErrNotSupported)

// Inspect returns ErrNotSupported.
func (SettingsOnly) Inspect(_ context.Context, id inventory.Identity) (inventory.Identity, inventory.Firmware, error) {
	return id, inventory.Firmware{}, errSettingsOnly
}

// Check returns ErrNotSupported.
func (SettingsOnly) Check(context.Context, inventory.Identity, Image) error { return errSettingsOnly }

// Write returns ErrNotSupported.
func (SettingsOnly) Write(context.Context, inventory.Identity, Image, Progress) (inventory.Activation, error) {
	return 0, errSettingsOnly
}

// Activate returns ErrNotSupported.
func (SettingsOnly) Activate(context.Context, inventory.Identity, inventory.Activation) (inventory.Activation, error) {
	return 0, errSettingsOnly
}

// Check returns a *RejectedError that names all that is wrong when a device with these parameters, which are all that it has, does not take the
// configuration.
func (c Configuration) Check(all []inventory.Parameter) error {
	if err := inventory.CheckSettings(c.Set, all); err != nil {
		return rejectSettings(err)
	}
	return nil
}

// rejectSettings returns a *RejectedError about settings.
func rejectSettings(why error) error {
	return &RejectedError{Of: "settings", Reason: strings.ReplaceAll(why.Error(), "\n", "; ")}
}

// RejectSettingsf returns a *RejectedError about settings, for what a device says only while they are written.
func RejectSettingsf(format string, args ...any) error {
	return rejectSettings(fmt.Errorf(format, args...))
}
