package plan

import (
	"slices"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// Configuration is what one device is told to be.
type Configuration struct {
	Set []inventory.Setting
	// ResetUnlisted says that all that is not set gets its default.
	ResetUnlisted bool
}

// Change is one setting that is not in force.
type Change struct {
	inventory.Setting
	// Had is the value in force, or the one that is stored where that is not known, or where another one waits for the next activation.
	Had inventory.Reading
	// Needs is what brings the value into force.
	Needs inventory.Activation
}

// ConfigurationDecision says what it takes to bring a configuration into force.
type ConfigurationDecision struct {
	// Changes in the order of the configuration, then of the names that are reset; none where all is in force as far as the device reports.
	Changes []Change
	// Activation is the most disruptive of those that the changes need.
	Activation inventory.Activation
	// Resets are the defaults of what is not set, where that is asked for. Now are the settings that the device can be asked to take.
	Resets, Now []inventory.Setting
	// Later are the names that the device does not know with its running firmware.
	Later []string
	// Refusal says why the device cannot have the configuration; empty where it can, as far as is known.
	Refusal string
}

// DecideConfiguration decides what a device with these parameters, which are all that it has, needs. FirmwareComing says that other firmware
// is flashed before, which may bring a parameter that is not known yet.
func DecideConfiguration(c Configuration, all []inventory.Parameter, firmwareComing bool) ConfigurationDecision {
	var out ConfigurationDecision
	if c.ResetUnlisted {
		out.Resets = inventory.Unlisted(c.Set, all)
	}
	for _, s := range slices.Concat(c.Set, out.Resets) {
		p := inventory.FindParameter(all, s.Name)
		if p == nil {
			out.Later = append(out.Later, s.Name)
		}
		if p != nil || !firmwareComing {
			out.Now = append(out.Now, s)
		}
		if p == nil {
			continue
		}
		needs := p.NeedsFor(s.Value)
		switch standing, had := p.Standing(s.Value); standing {
		case inventory.InForce, inventory.Stored:
			continue
		case inventory.Leaving: // storing it is enough
			needs = inventory.ActivateNone
			fallthrough
		default:
			out.Changes = append(out.Changes, Change{s, had, needs})
			out.Activation = max(out.Activation, needs)
		}
	}
	if err := inventory.CheckSettings(out.Now, all); err != nil {
		out.Refusal = err.Error()
	} else if out.Activation == inventory.ActivatePowerCycle {
		out.Refusal = "it would need a power cycle, which nothing here can do"
	}
	return out
}
