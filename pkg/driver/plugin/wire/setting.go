package wire

import (
	"errors"
	"fmt"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver/plugin/v1"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// Bounds of settings: of names and values in bytes, as the API has them, and in elements.
const (
	maxName       = 128
	maxValue      = 512
	maxValues     = 1024
	maxParameters = 4096
)

var spellings = pairs[inventory.Spelling, pluginv1.Spelling]{
	{inventory.SpelledExactly, pluginv1.Spelling_SPELLING_EXACT},
	{inventory.SpelledAsNumber, pluginv1.Spelling_SPELLING_NUMBER},
	{inventory.SpelledWithCode, pluginv1.Spelling_SPELLING_CODE},
}

// SettingsFrom translates settings from messages.
func SettingsFrom(all []*pluginv1.Setting) ([]inventory.Setting, error) {
	var t texts
	var out []inventory.Setting
	for _, m := range all {
		out = append(out, inventory.Setting{Name: t.take("name", m.GetName(), maxName), Value: t.take("value", m.GetValue(), maxValue)})
	}
	if err := t.err(); err != nil {
		return nil, fmt.Errorf("settings: %w", err)
	}
	return out, nil
}

// SettingsTo translates settings into messages.
func SettingsTo(all []inventory.Setting) []*pluginv1.Setting {
	var out []*pluginv1.Setting
	for _, s := range all {
		out = append(out, &pluginv1.Setting{Name: s.Name, Value: s.Value})
	}
	return out
}

// ParametersFrom translates the parameters of a device from messages. They are in order of their names, and each has another one.
func ParametersFrom(all []*pluginv1.Parameter) ([]inventory.Parameter, error) {
	if len(all) > maxParameters {
		return nil, fmt.Errorf("%d parameters, the limit is %d", len(all), maxParameters)
	}
	var out []inventory.Parameter
	last := ""
	for _, m := range all {
		p, err := parameterFrom(m)
		if err == nil && p.Name <= last {
			err = errors.New("its name is not after the one before")
		}
		if err != nil {
			return nil, fmt.Errorf("parameter %.200q: %w", m.GetName(), err)
		}
		last = p.Name
		out = append(out, p)
	}
	return out, nil
}

func parameterFrom(m *pluginv1.Parameter) (inventory.Parameter, error) {
	var t texts
	var errs []error
	reading := func(field string, value *string) inventory.Reading {
		if value == nil {
			return inventory.Reading{}
		}
		return inventory.Read(t.take(field, *value, maxValue))
	}
	list := func(field string, all []string, limit int) []string {
		if len(all) > maxValues {
			errs = append(errs, fmt.Errorf("%s has %d values, the limit is %d", field, len(all), maxValues))
			return nil
		}
		for _, s := range all {
			t.take(field, s, limit)
		}
		return all
	}
	interval := func(m *pluginv1.Interval) *inventory.Interval {
		if m == nil {
			return nil
		}
		return &inventory.Interval{Min: m.GetMin(), Max: m.GetMax(), Step: m.GetStep()}
	}
	p := inventory.Parameter{
		Name: t.take("name", m.GetName(), maxName), Sets: list("sets", m.GetSets(), maxName),
		Current: reading("current", m.Current), Next: reading("next", m.Next), Default: reading("default", m.Default), Ready: reading("ready", m.Ready),
		ReadOnly: t.take("read_only", m.GetReadOnly(), maxMessage),
		Domain: inventory.Domain{
			Values: list("values", m.GetValues(), maxValue), Number: interval(m.GetNumber()), Length: interval(m.GetLength()),
		},
		Spelling: keep(&errs, spellings.from, m.GetSpelling()), Needs: keep(&errs, activations.from, m.GetNeeds()), Volatile: m.GetVolatile(),
		Disturbs: true, // a plugin cannot say that it does not
	}
	if p.Name == "" {
		errs = append(errs, errors.New("it has no name"))
	}
	return p, errors.Join(append(errs, t.err())...)
}

// ParametersTo translates the parameters of a device into messages.
func ParametersTo(all []inventory.Parameter) ([]*pluginv1.Parameter, error) {
	var errs []error
	reading := func(r inventory.Reading) *string {
		if !r.Known {
			return nil
		}
		return &r.Value
	}
	interval := func(i *inventory.Interval) *pluginv1.Interval {
		if i == nil {
			return nil
		}
		return &pluginv1.Interval{Min: i.Min, Max: i.Max, Step: i.Step}
	}
	var out []*pluginv1.Parameter
	for _, p := range all {
		out = append(out, &pluginv1.Parameter{
			Name: p.Name, Sets: p.Sets, Current: reading(p.Current), Next: reading(p.Next), Default: reading(p.Default), Ready: reading(p.Ready),
			ReadOnly: p.ReadOnly, Values: p.Domain.Values, Number: interval(p.Domain.Number), Length: interval(p.Domain.Length),
			Spelling: keep(&errs, spellings.to, p.Spelling), Needs: keep(&errs, activations.to, p.Needs), Volatile: p.Volatile,
		})
	}
	return out, errors.Join(errs...)
}
