package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/host"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// Settings are those of the devices of this machine, for printing.
type Settings struct {
	Devices []DeviceSettings `json:"devices"`

	wide bool
}

// DeviceSettings are the settings of one device.
type DeviceSettings struct {
	Class      string   `json:"class"`
	UniqueID   string   `json:"uniqueID,omitempty"`
	Model      string   `json:"model,omitempty"`
	PCIAddress string   `json:"pciAddress,omitempty"`
	Names      []string `json:"names,omitempty"`
	Driver     string   `json:"driver,omitempty"`
	// Parameters in order of their names.
	Parameters []Parameter `json:"parameters,omitempty"`
	// Problem says why the settings cannot be read.
	Problem string `json:"problem,omitempty"`
}

// Parameter is one setting. A value that is not known is absent.
type Parameter struct {
	Name    string  `json:"name"`
	Current *string `json:"current,omitempty"`
	Next    *string `json:"next,omitempty"`
	Default *string `json:"default,omitempty"`
	// Activation is what it costs to bring a changed value into force.
	Activation string `json:"activation"`
	// Takes says which values it takes, as far as that is known.
	Takes string `json:"takes,omitempty"`
	// ReadOnly says why it cannot be changed.
	ReadOnly string `json:"readOnly,omitempty"`
	// Sets are the device's own parameters that this one stands for.
	Sets []string `json:"sets,omitempty"`
}

// ErrNoDevice says that no device of the machine is the one that was asked for.
var ErrNoDevice = errors.New("no device of this machine has that unique id, PCI address or name; discover lists them")

// ReadSettings reads the settings of the devices, or of the one of the unique id, PCI address or name. A device whose settings cannot be read
// is listed with the reason; it is an error where no other was asked for, or where a read failed that another try may repeat.
func ReadSettings(ctx context.Context, found host.Inventory, drivers driver.Set, device string) (Settings, error) {
	out := Settings{Devices: []DeviceSettings{}}
	devices := slices.Clone(found.Devices)
	if device != "" {
		devices = slices.DeleteFunc(devices, func(d inventory.Device) bool { return !isCalled(d, device) })
		if len(devices) == 0 {
			return out, fmt.Errorf("find device %q: %w", device, ErrNoDevice)
		}
	}
	slices.SortStableFunc(devices, byPlace)
	var failed []error
	for _, d := range devices {
		of := describe(d)
		read := DeviceSettings{
			Class: of.Class, UniqueID: of.UniqueID, Model: of.Model, PCIAddress: of.PCIAddress, Names: of.Names, Driver: of.Driver,
		}
		all, err := parametersOf(ctx, d, drivers)
		if err != nil {
			read.Problem = strings.Join(strings.Fields(strings.TrimSuffix(err.Error(), ": "+driver.ErrNotSupported.Error())), " ")
			if device != "" || !errors.Is(err, driver.ErrNotSupported) {
				failed = append(failed, fmt.Errorf("%s %s: %s", of.Class, of.UniqueID, read.Problem))
			}
		}
		for _, p := range all {
			read.Parameters = append(read.Parameters, describeParameter(p))
		}
		out.Devices = append(out.Devices, read)
	}
	return out, errors.Join(failed...)
}

// isCalled reports whether somebody means the device by the text.
func isCalled(d inventory.Device, text string) bool {
	same := func(s string) bool { return s != "" && strings.EqualFold(s, text) }
	return same(d.UniqueID) || slices.ContainsFunc(names(d), same) ||
		slices.ContainsFunc(d.PCI, func(a inventory.PCIAddress) bool { return same(a.String()) })
}

func parametersOf(ctx context.Context, d inventory.Device, drivers driver.Set) ([]inventory.Parameter, error) {
	if d.Err != nil {
		return nil, d.Err
	}
	c, err := drivers.Configurer(d)
	if err != nil {
		return nil, err
	}
	return c.Parameters(ctx, d.Identity)
}

func describeParameter(p inventory.Parameter) Parameter {
	return Parameter{
		Name: p.Name, Current: known(p.Current), Next: known(p.Next), Default: known(p.Default),
		Activation: p.Needs.String(), Takes: p.Domain.String(), ReadOnly: p.ReadOnly, Sets: p.Sets,
	}
}

func known(r inventory.Reading) *string {
	if !r.Known {
		return nil
	}
	return &r.Value
}

// Wide prints what a table has no room for.
func (s Settings) Wide() Settings {
	s.wide = true
	return s
}

func (s Settings) table(w io.Writer) error {
	header := []string{"DEVICE", "NAME", "CURRENT", "NEXT", "DEFAULT", "COST"}
	if s.wide {
		header = append(header, "TAKES", "NOTE")
	}
	cell := func(value *string) string {
		switch {
		case value == nil:
			return "unknown"
		case *value == "":
			return `""`
		}
		return *value
	}
	var rows [][]string
	var without []string
	for _, d := range s.Devices {
		name := d.PCIAddress
		if len(d.Names) > 0 {
			name = d.Names[0]
		}
		if name == "" {
			name = d.Class
		}
		if d.Problem != "" {
			without = append(without, fmt.Sprintf("No settings of %s %s (%s): %s", d.Class, name, d.UniqueID, d.Problem))
		}
		for _, p := range d.Parameters {
			row := []string{name, p.Name, cell(p.Current), cell(p.Next), cell(p.Default), p.Activation}
			if s.wide {
				note := p.ReadOnly
				if len(p.Sets) > 0 {
					note = strings.TrimPrefix(note+"; ", "; ") + "sets " + strings.Join(p.Sets, ", ")
				}
				row = append(row, p.Takes, note)
			}
			rows = append(rows, row)
		}
	}
	if len(rows) > 0 {
		if err := columns(w, header, rows); err != nil {
			return err
		}
	}
	for i, line := range without {
		if i == 0 && len(rows) > 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintln(w, line)
	}
	return nil
}
