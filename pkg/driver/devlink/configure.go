package devlink

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/owntool"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

var _ driver.Configurer = (*Driver)(nil)

// Parameters asks the kernel for the parameters of the adapter. A parameter has a value for each of its modes, and is named NAME/MODE, such
// as enable_roce/driverinit (Documentation/networking/devlink/devlink-params.rst).
func (d *Driver) Parameters(ctx context.Context, id inventory.Identity, names ...string) ([]inventory.Parameter, error) {
	_, all, err := d.parameters(ctx, id)
	if err != nil {
		return nil, err
	}
	return inventory.Asked(all, names...), nil
}

func (d *Driver) parameters(ctx context.Context, id inventory.Identity) (reading, []inventory.Parameter, error) {
	r, err := d.read(ctx, id)
	if err != nil {
		return reading{}, nil, err
	}
	values, err := ask(ctx, &d.asked, r.handle, "parameters", func() ([]param, error) { return d.dial.params(r.handle) })
	switch {
	case err != nil:
		return reading{}, nil, err
	case len(values) == 0:
		return reading{}, nil, fmt.Errorf("the kernel driver %s has no parameters: %w", r.id.Kernel, driver.ErrNotSupported)
	}
	all := make([]inventory.Parameter, len(values))
	for i, v := range values {
		all[i] = v.parameter(r.refusal)
	}
	return r, withTyped(all), nil
}

// CheckConfiguration compares the configuration with the adapter's parameters. The kernel driver may refuse a value nonetheless.
func (d *Driver) CheckConfiguration(ctx context.Context, id inventory.Identity, c driver.Configuration) error {
	r, all, err := d.parameters(ctx, id)
	if err == nil {
		err = c.Check(all)
	}
	if err != nil {
		return fmt.Errorf("check settings of adapter %s: %w", r.named(id), err)
	}
	return nil
}

// Configure has the kernel store the values that it does not have, one after the other.
func (d *Driver) Configure(ctx context.Context, id inventory.Identity, c driver.Configuration) (inventory.Activation, error) {
	r, all, err := d.parameters(ctx, id)
	if err == nil {
		err = c.Check(all)
	}
	needs := inventory.ActivateNone
	for _, s := range own(c.Set, all) {
		if err == nil {
			err = d.set(ctx, r, s)
			needs = max(needs, inventory.FindParameter(all, s.Name).Needs)
		}
	}
	if err != nil {
		return 0, fmt.Errorf("set settings of adapter %s: %w", r.named(id), err)
	}
	return needs, nil
}

// named is how the adapter is called in messages; one that could not be read has only what sysfs says.
func (r reading) named(id inventory.Identity) string {
	if r.handle == (Handle{}) {
		return id.UniqueID
	}
	return r.handle.String()
}

func (d *Driver) set(ctx context.Context, r reading, s inventory.Setting) error {
	c := setCommand(r.handle, s, r.id.UniqueID)
	result, err := d.runner.Run(ctx, c)
	switch {
	case err != nil || result.ExitCode == exitOK:
		return err
	case result.ExitCode == exitRejected, result.ExitCode == exitUnsupported:
		return driver.RejectSettingsf("the kernel driver does not take %s for %s: %s", s.Value, s.Name, owntool.FirstLine(result.Stderr))
	case result.ExitCode == exitBusy:
		return command.Failed(c, result, errors.New("the adapter is busy: try again"))
	}
	return command.Failed(c, result, fmt.Errorf("setting %s failed", s.Name))
}

// reinit lets the driver of an adapter begin anew, if it has values that it reads only then: whether it uses them already nobody says.
func (d *Driver) reinit(ctx context.Context, r reading) error {
	values, err := ask(ctx, &d.asked, r.handle, "parameters", func() ([]param, error) { return d.dial.params(r.handle) })
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(values, func(p param) bool { return p.mode == modeDriverInit }) {
		return nil
	}
	if r.obstacle != "" {
		return fmt.Errorf("the driver of adapter %s was not reloaded, so its parameters are not in force: %s", r.handle, r.obstacle)
	}
	c := reinitCommand(r.handle, r.id.UniqueID)
	result, err := d.runner.Run(ctx, c)
	if err == nil && result.ExitCode != exitOK {
		err = command.Failed(c, result, errors.New("the driver was not reloaded, so its parameters are not in force"))
	}
	return err
}
