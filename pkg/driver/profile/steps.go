package profile

import (
	"context"
	"fmt"
	"slices"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// Steps lists the profile's.
func (d *Driver) Steps() []driver.Step {
	var out []driver.Step
	for _, s := range d.p.Steps {
		out = append(out, s.Step)
	}
	return out
}

// RunStep runs the step's command on the device. A command that changes the device runs as a write does. Nothing is kept
// between calls: a command that was interrupted runs again.
func (d *Driver) RunStep(ctx context.Context, id inventory.Identity, name string, _ []byte) (driver.StepResult, error) {
	i := slices.IndexFunc(d.p.Steps, func(s Step) bool { return s.Name == name })
	if i < 0 {
		return driver.StepResult{}, fmt.Errorf("run step %s: %w", name, driver.ErrNotSupported)
	}
	result, err := d.runStep(ctx, id, d.p.Steps[i])
	if err != nil {
		return driver.StepResult{}, fmt.Errorf("run step %s on %s: %w", name, id.UniqueID, err)
	}
	return result, nil
}

func (d *Driver) runStep(ctx context.Context, id inventory.Identity, s Step) (driver.StepResult, error) {
	on, _, err := d.inspect(ctx, id)
	if err != nil {
		return driver.StepResult{}, err
	}
	var c command.Command
	if s.Changes {
		c = command.Command{Kind: command.Write, Lock: on.id.UniqueID}
	}
	values, outcome, err := d.run(ctx, s.Query, on, c)
	if err != nil {
		return driver.StepResult{}, err
	}
	if using(s.templates(), isNumber) != "" {
		now, err := d.renumber(ctx, on)
		switch {
		case err != nil:
			return driver.StepResult{}, fmt.Errorf("the tool reports success: read back: %w", err)
		case now.number != on.number:
			return driver.StepResult{}, fmt.Errorf("the tool ran on number %s, and the device has number %s now: find out which device it ran on",
				on.number, now.number)
		}
	}
	result := driver.StepResult{Reboot: outcome == classPending, Message: "the tool reports success"}
	if outcome == classAlready {
		result.Message = "the tool reports that nothing was left to do"
	}
	if value, ok := values[fieldResult]; ok {
		result.Message = fmt.Sprintf("the tool reports %q", value)
	}
	return result, nil
}
