package drivertest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// Give gives the device parameters. A Next that is not known is Current.
func (s *Simulated) Give(uniqueID string, all ...inventory.Parameter) {
	s.change(uniqueID, func(d *device) { d.parameters = sorted(append(d.parameters, all...)) })
}

// Bring gives the device parameters that only the firmware of the version knows. They keep their values while other firmware runs.
func (s *Simulated) Bring(uniqueID string, v inventory.Version, all ...inventory.Parameter) {
	s.change(uniqueID, func(d *device) {
		if d.brought == nil {
			d.brought = map[inventory.Version][]inventory.Parameter{}
		}
		d.brought[v] = sorted(append(d.brought[v], all...))
	})
}

func sorted(all []inventory.Parameter) []inventory.Parameter {
	for i := range all {
		if !all[i].Next.Known {
			all[i].Next = all[i].Current
		}
	}
	slices.SortFunc(all, func(a, b inventory.Parameter) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// Unplugs takes the links of the device down while the setting is in force.
func (s *Simulated) Unplugs(uniqueID string, by inventory.Setting) {
	s.change(uniqueID, func(d *device) { d.unplugs = by })
}

// Costs changes what it costs to bring a value of the parameter into force.
func (s *Simulated) Costs(uniqueID, name string, needs inventory.Activation) {
	s.change(uniqueID, func(d *device) { d.parameter(name).Needs = needs })
}

// Parameter is what the device really has under the name, whatever its faults; the zero value when its firmware knows none.
func (s *Simulated) Parameter(uniqueID, name string) inventory.Parameter {
	var out inventory.Parameter
	s.change(uniqueID, func(d *device) {
		if p := d.parameter(name); p != nil {
			out = *p
		}
	})
	return out
}

// Tell makes the device store a value, as somebody with a vendor's tool would.
func (s *Simulated) Tell(uniqueID, name, value string) {
	s.change(uniqueID, func(d *device) { d.tell([]inventory.Setting{{Name: name, Value: value}}) })
}

// Parameters reads those of the device's running firmware.
func (s *Simulated) Parameters(_ context.Context, id inventory.Identity, names ...string) ([]inventory.Parameter, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, err := s.configurable(id)
	if err != nil {
		return nil, err
	}
	return inventory.Asked(d.known(), names...), nil
}

// CheckConfiguration compares the configuration with the device's parameters.
func (s *Simulated) CheckConfiguration(_ context.Context, id inventory.Identity, c driver.Configuration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, err := s.configurable(id)
	if err == nil {
		err = d.takes(c)
	}
	return err
}

// takes returns why the device does not take the configuration now.
func (d *device) takes(c driver.Configuration) error {
	if err := c.Check(d.known()); err != nil {
		return err
	}
	if d.faults[InUse] && len(inventory.Differing(c.Set, d.known())) > 0 {
		return &driver.RejectedError{Of: "settings", Reason: "InUse: a container has it", InUse: true}
	}
	return nil
}

// Configure stores the values in the device. Those that need no activation are in force at once.
func (s *Simulated) Configure(ctx context.Context, id inventory.Identity, c driver.Configuration) (inventory.Activation, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, err := s.configurable(id)
	if err != nil {
		return 0, err
	}
	if err := d.takes(c); err != nil {
		return 0, err
	}
	todo, needs := inventory.Differing(c.Set, d.known()), inventory.NeededFor(c.Set, d.known())
	switch {
	case d.busy || d.faults[BusyWrite]:
		return 0, toolError("configure", d, command.ErrBusy)
	case len(todo) == 0:
		return needs, nil
	}
	op := Operation{OpConfigure, d.id.UniqueID}
	s.operations = append(s.operations, op)
	switch {
	case d.faults[FailWrite]:
		return 0, toolError("configure", d, errors.New(cmp.Or(d.failure, "the device refused the value")))
	case d.faults[LieWrite]:
		return needs, nil
	case d.faults[HalfConfigure]:
		d.tell(todo[:1])
		return 0, &command.Error{Argv: []string{"simulated-tool", "configure", d.id.UniqueID}, ExitCode: -1, Err: command.ErrLost}
	case d.faults[HangWrite]:
		err = s.hang(ctx, d, "configure", func() { d.tell(todo) })
	default:
		err = s.carryOut(ctx, Change{Operation: op, Settings: todo, Apply: func() { d.tell(todo) }})
	}
	if err != nil {
		return 0, err
	}
	return needs, nil
}

// configurable opens a device that has parameters.
func (s *Simulated) configurable(id inventory.Identity) (*device, error) {
	d, err := s.open(id)
	switch {
	case err != nil:
		return nil, err
	case d.faults[Unreadable] || d.faults[NoSettings]:
		return nil, toolError("query", d, errSilent)
	case len(d.parameters) == 0 && len(d.brought) == 0:
		return nil, fmt.Errorf("read parameters of %s: %w", d.id.UniqueID, driver.ErrNotSupported)
	}
	return d, nil
}

// known are the parameters that the running firmware knows, in order of their names.
func (d *device) known() []inventory.Parameter {
	return sorted(slices.Concat(d.parameters, d.brought[d.firmware.Running]))
}

func (d *device) parameter(name string) *inventory.Parameter {
	for _, all := range [][]inventory.Parameter{d.parameters, d.brought[d.firmware.Running]} {
		if p := inventory.FindParameter(all, name); p != nil {
			return p
		}
	}
	return nil
}

// each calls f for all parameters, of any firmware.
func (d *device) each(f func(*inventory.Parameter)) {
	for i := range d.parameters {
		f(&d.parameters[i])
	}
	for _, all := range d.brought {
		for i := range all {
			f(&all[i])
		}
	}
}

// tell stores values.
func (d *device) tell(settings []inventory.Setting) {
	for _, s := range settings {
		p := d.parameter(s.Name)
		p.Next = inventory.Read(s.Value)
		if p.Needs == inventory.ActivateNone {
			p.Current = p.Next
		}
	}
}

// enforce puts the stored values into force for which the activation is enough.
func (d *device) enforce(upTo inventory.Activation) {
	d.each(func(p *inventory.Parameter) {
		if p.Needs <= upTo {
			p.Current = p.Next
		}
	})
}

// boot is what a boot or a power-cycle does to the parameters.
func (d *device) boot(upTo inventory.Activation) {
	d.each(func(p *inventory.Parameter) {
		if p.Volatile {
			p.Next = p.Default
		}
	})
	d.enforce(upTo)
}

// forget gives all parameters their defaults at once.
func (d *device) forget() {
	d.each(func(p *inventory.Parameter) {
		if p.Default.Known {
			p.Current, p.Next = p.Default, p.Default
		}
	})
}

// waits is the activation that stored values need.
func (d *device) waits() inventory.Activation {
	needs := inventory.ActivateNone
	for _, p := range d.known() {
		if p.Pending() {
			needs = max(needs, p.Needs)
		}
	}
	return needs
}
