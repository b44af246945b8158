package mstflint

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// Parameters reads the NV parameters of the card, and the settings of every vendor that stand for some of them.
func (d *Driver) Parameters(ctx context.Context, id inventory.Identity, names ...string) ([]inventory.Parameter, error) {
	card, err := address0(id)
	if err != nil {
		return nil, err
	}
	all, err := d.parameters(ctx, id, card, names)
	if err != nil {
		return nil, fmt.Errorf("read settings of card %s: %w", card, err)
	}
	return inventory.Asked(all, names...), nil
}

// parameters reads all, or at least those of the names and those that they stand for.
func (d *Driver) parameters(
	ctx context.Context, id inventory.Identity, card inventory.PCIAddress, names []string,
) ([]inventory.Parameter, error) {
	rows, err := d.rows(ctx, card, names)
	if err != nil {
		return nil, err
	}
	l, err := d.levels(ctx, id, card)
	if err != nil {
		return nil, err
	}
	var all []inventory.Parameter
	for _, r := range rows {
		all = append(all, r.parameter(l.loads()))
	}
	return withTyped(all), nil
}

// loads is the activation that settings need: a patch of the running firmware loads none.
func (l levels) loads() inventory.Activation {
	if l.pciReset {
		return inventory.ActivateDeviceReset
	}
	return l.restart()
}

// rows reads the table of the card. The tool refuses a query with a name that the card does not have: it is asked again without that one.
func (d *Driver) rows(ctx context.Context, card inventory.PCIAddress, names []string) ([]nvRow, error) {
	asked := askedFor(names)
	for len(names) == 0 || len(asked) > 0 {
		c := queryConfig(card, asked...)
		r, err := d.runConfig(ctx, c)
		if err != nil {
			return nil, err
		}
		out := output(r)
		switch name := unknownParameter(out); {
		case r.ExitCode == 0, len(names) == 0 && strings.Contains(out, partlyRead):
			rows, err := parseConfig(string(r.Stdout))
			if err != nil {
				return nil, failure(c, command.Result{Stdout: r.Stdout}, err)
			}
			return rows, nil
		case slices.Contains(asked, name):
			asked = slices.DeleteFunc(asked, func(n string) bool { return n == name })
		case hasNoSettings(out):
			return nil, fmt.Errorf("%s: %w", firstLine(r), driver.ErrNotSupported)
		default:
			return nil, failure(c, r, errors.New("query of the settings failed"))
		}
	}
	return nil, nil
}

// runConfig runs mstconfig, unless the kernel is locked down; see query.
func (d *Driver) runConfig(ctx context.Context, c command.Command) (command.Result, error) {
	if err := d.Reaches(inventory.Identity{}); err != nil {
		return command.Result{}, err
	}
	return d.runner.Run(ctx, c)
}

// partlyRead is what the tool says after a table in which parameters are missing because the card did not answer about them.
const partlyRead = "Failed to query some of the TLVs"

// askedFor are the card's own parameters behind the names, without those that none can have.
func askedFor(names []string) []string {
	var out []string
	for _, name := range names {
		behind := standsFor(name)
		if isParameter.MatchString(name) {
			behind = []string{name}
		}
		for _, own := range behind {
			if !slices.Contains(out, own) {
				out = append(out, own)
			}
		}
	}
	return out
}

var (
	unknownName  = regexp.MustCompile(`(?:Device doesn't support|Unknown Parameter:?) (\S+)`)
	unknownIndex = regexp.MustCompile(`Index (\d+) of the parameter (\S+) is out of range`)
)

// unknownParameter is the name that the tool or the card does not know; empty when it says nothing of the kind.
func unknownParameter(out string) string {
	if m := unknownIndex.FindStringSubmatch(out); m != nil {
		return m[2] + "[" + m[1] + "]"
	}
	if m := unknownName.FindStringSubmatch(out); m != nil {
		return m[1]
	}
	return ""
}

// hasNoSettings reports whether the tool says that the card keeps none.
func hasNoSettings(out string) bool {
	return strings.Contains(out, "doesn't support any configuration changes") || strings.Contains(out, "Cannot access NV register")
}

// CheckConfiguration compares the configuration with the card's parameters, and has the tool judge the values.
func (d *Driver) CheckConfiguration(ctx context.Context, id inventory.Identity, c driver.Configuration) error {
	card, err := address0(id)
	if err != nil {
		return err
	}
	all, err := d.resolve(ctx, id, card, c)
	if err != nil {
		return fmt.Errorf("check settings of card %s: %w", card, err)
	}
	todo := own(c.Set, all)
	if len(todo) == 0 {
		return nil
	}
	try := tryConfig(card, todo)
	r, err := d.runConfig(ctx, try)
	switch {
	case err != nil:
		return fmt.Errorf("check settings of card %s: %w", card, err)
	case strings.Contains(output(r), "Apply new Configuration?"):
		return nil // the tool takes them, and waits for an answer that nobody gives
	}
	return fmt.Errorf("check settings of card %s: %w", card, refusal(try, r, "the tool did not say whether it takes them"))
}

// resolve reads the parameters that the configuration is about, and checks it against them. Where it names one that the card does not have, all
// are read, of which the nearest are named.
func (d *Driver) resolve(
	ctx context.Context, id inventory.Identity, card inventory.PCIAddress, c driver.Configuration,
) (all []inventory.Parameter, err error) {
	names := c.Names()
	if len(names) == 0 {
		return nil, nil
	}
	if all, err = d.parameters(ctx, id, card, names); err != nil {
		return nil, err
	}
	if slices.ContainsFunc(names, func(name string) bool { return inventory.FindParameter(all, name) == nil }) {
		whole, err := d.parameters(ctx, id, card, nil)
		if err != nil {
			return nil, err
		}
		for _, p := range whole {
			if inventory.FindParameter(all, p.Name) == nil {
				all = append(all, p)
			}
		}
	}
	return all, c.Check(all)
}

// Configure stores the values in the card, which loads them with its next reset or with the next boot.
func (d *Driver) Configure(ctx context.Context, id inventory.Identity, c driver.Configuration) (inventory.Activation, error) {
	card, err := address0(id)
	if err != nil {
		return 0, err
	}
	all, err := d.resolve(ctx, id, card, c)
	if err != nil {
		return 0, fmt.Errorf("set up card %s: %w", card, err)
	}
	needs := inventory.NeededFor(c.Set, all)
	todo := own(c.Set, all)
	if len(todo) == 0 {
		return needs, nil
	}
	q, err := d.query(ctx, card)
	if err != nil {
		return 0, fmt.Errorf("inspect card %s: %w", card, err)
	}
	lock, err := unique(q, id)
	if err != nil {
		return 0, fmt.Errorf("set up card %s: %w", card, err)
	}
	set := setConfig(card, todo, lock)
	r, err := d.runConfig(ctx, set)
	switch {
	case err != nil:
		return 0, fmt.Errorf("set up card %s: %w", card, err)
	case r.ExitCode != 0:
		return 0, fmt.Errorf("set up card %s: %w", card, refusal(set, r, "some of the values may be stored"))
	case needs != inventory.ActivateNone && strings.Contains(output(r), "power cycle"):
		return inventory.ActivatePowerCycle, nil // the card could not be told to load them with a warm restart
	}
	return needs, nil
}

// refusals are what the tool says about values, as opposed to having failed itself.
var refusals = []string{
	"Cannot set the value", "Operation is not supported", "Operation not supported", "doesn't support", "Unknown Parameter",
	"is out of range", "maximum allowed", "minimum allowed", "Illegal constraint",
}

// refusal is the error of a run that failed: a *RejectedError when the tool or the card does not take a value. The tool stores one group of
// parameters (a TLV) after another and takes none back: what the card refuses in one leaves those before it stored (mstflint,
// GenericCommander::setCfg).
func refusal(c command.Command, r command.Result, otherwise string) error {
	out := output(r)
	if slices.ContainsFunc(refusals, func(says string) bool { return strings.Contains(out, says) }) {
		return driver.RejectSettingsf("mstconfig says: %s", firstLine(r))
	}
	return failure(c, r, errors.New(otherwise))
}

// settingsWait reports whether the card stores settings that a reset loads. A card without settings, or on a machine without the tool, has
// none that this driver stored.
func (d *Driver) settingsWait(ctx context.Context, card inventory.PCIAddress) (bool, error) {
	rows, err := d.rows(ctx, card, nil)
	if command.Unusable(err) || errors.Is(err, driver.ErrNotSupported) {
		return false, nil
	}
	return slices.ContainsFunc(rows, nvRow.waits), err
}
