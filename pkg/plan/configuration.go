package plan

import (
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
	// Later are the names that the device does not know with its running firmware.
	Later []string
	// Refusal says why the device cannot have the configuration; empty where it can, as far as is known.
	Refusal string
}

// DecideConfiguration decides what a device with these parameters, which are all that it has, needs. FirmwareComing says that other firmware
// is flashed before, which may bring a parameter that is not known yet.
func DecideConfiguration(c Configuration, all []inventory.Parameter, firmwareComing bool) ConfigurationDecision {
	var out ConfigurationDecision
	want := c.Set
	if c.ResetUnlisted {
		for _, name := range inventory.Unlisted(c.Set, all) {
			want = append(want[:len(want):len(want)], inventory.Setting{Name: name, Value: inventory.FindParameter(all, name).Default.Value})
		}
	}
	var known []inventory.Setting
	for _, s := range want {
		p := inventory.FindParameter(all, s.Name)
		if p == nil {
			out.Later = append(out.Later, s.Name)
			continue
		}
		known = append(known, s)
		switch {
		case p.Runs(s.Value) && (p.Stores(s.Value) || !p.Next.Known), !p.Current.Known && p.Stores(s.Value):
			continue
		case p.Runs(s.Value): // another value waits, and storing this one is enough
			out.Changes = append(out.Changes, Change{s, p.Next, inventory.ActivateNone})
			continue
		}
		had := p.Current
		if !had.Known {
			had = p.Next
		}
		out.Changes = append(out.Changes, Change{s, had, p.NeedsFor(s.Value)})
		out.Activation = max(out.Activation, p.NeedsFor(s.Value))
	}
	if !firmwareComing {
		known = want
	}
	if err := inventory.CheckSettings(known, all); err != nil {
		out.Refusal = err.Error()
	} else if out.Activation == inventory.ActivatePowerCycle {
		out.Refusal = "it would need a power cycle, which nothing here can do"
	}
	return out
}
