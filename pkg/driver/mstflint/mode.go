package mstflint

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// A BlueField is an adapter with processors of its own. In DPU mode they control the adapter, in NIC mode the host does. The
// settings that choose the mode come into force with a reset.
const (
	cpuModel      = "INTERNAL_CPU_MODEL"
	offloadEngine = "INTERNAL_CPU_OFFLOAD_ENGINE"
)

// The values of both settings end with their numbers, which stay the same where a version of the tool spells their names otherwise.
const (
	zero = "(0)"
	one  = "(1)"
)

// isBlueField reports whether a card is one, of any generation: their network functions have the device ids a2d2, a2d6, a2dc and
// following (https://pci-ids.ucw.cz).
func isBlueField(id inventory.Identity) bool { return strings.HasPrefix(id.DeviceID, "a2d") }

// value is a setting of a card: now, and after the next reset.
type value struct{ current, next string }

// isKnown reports whether both values are known: a card with another one may be controlled by its own processors.
func (v value) isKnown() bool {
	return !slices.ContainsFunc([]string{v.current, v.next}, func(s string) bool { return !strings.HasSuffix(s, zero) && !strings.HasSuffix(s, one) })
}

// mode are the settings that choose the mode of a BlueField.
type mode struct{ model, offload value }

// dpu reports whether the card's own processors control the adapter: EMBEDDED_CPU(1), and its offload engine ENABLED(0).
func (m mode) dpu() bool {
	return strings.HasSuffix(m.model.current, one) && strings.HasSuffix(m.offload.current, zero)
}

// change names a setting that comes into force with the next reset; empty when none does.
func (m mode) change() string {
	for _, s := range []struct {
		name string
		value
	}{{cpuModel, m.model}, {offloadEngine, m.offload}} {
		if s.current != s.next {
			return fmt.Sprintf("%s from %s to %s", s.name, s.current, s.next)
		}
	}
	return ""
}

// parseMode reads what mstconfig prints of both settings.
func parseMode(out string) (mode, error) {
	rows, err := parseConfig(out)
	if err != nil {
		return mode{}, err
	}
	var m mode
	for _, r := range rows {
		v := value{r.current.Value, r.next.Value}
		if (r.name == cpuModel || r.name == offloadEngine) && !v.isKnown() {
			return mode{}, fmt.Errorf("parse mstconfig query: %s is %s, and %s after the next reset, which is not known here", r.name, r.current, r.next)
		}
		switch r.name {
		case cpuModel:
			m.model = v
		case offloadEngine:
			m.offload = v
		}
	}
	if m.model == (value{}) || m.offload == (value{}) {
		return mode{}, errors.New("parse mstconfig query: the settings of the mode are not listed: this version of the tool is not supported")
	}
	return m, nil
}

// modeRefusal says why a BlueField is not updated from this host; empty for one that may be, and for other cards.
func (d *Driver) modeRefusal(ctx context.Context, id inventory.Identity, card inventory.PCIAddress) string {
	if !isBlueField(id) {
		return ""
	}
	m, err := d.mode(ctx, card)
	switch {
	case err != nil:
		return fmt.Sprintf("the card is a BlueField and its mode cannot be read: %v; in DPU mode it must not be updated from here", err)
	case m.dpu():
		return "the card is a BlueField in DPU mode: its own processors control the adapter; update it from there, " +
			"or change it to NIC mode (" + offloadEngine + "=1)"
	case m.change() != "":
		return fmt.Sprintf("the card is a BlueField whose mode changes at the next reset (%s): reboot the node for that first, or set it back",
			m.change())
	}
	return ""
}

func (d *Driver) mode(ctx context.Context, card inventory.PCIAddress) (mode, error) {
	c := queryConfig(card, cpuModel, offloadEngine)
	r, err := d.runner.Run(ctx, c)
	if err != nil {
		return mode{}, fmt.Errorf("query settings: %w", err)
	}
	if r.ExitCode != 0 {
		return mode{}, failure(c, r, errors.New("query of the settings failed"))
	}
	m, err := parseMode(string(r.Stdout))
	if err != nil {
		return mode{}, failure(c, command.Result{Stdout: r.Stdout}, err)
	}
	return m, nil
}
