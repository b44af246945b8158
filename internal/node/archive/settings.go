package archive

import (
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// Setting is one setting of a device, as its tool spells it.
type Setting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// maxSettings bounds the settings of one entry together, in bytes of JSON: all of them fit into one argument of a tool, which has at most 128 KiB
// (MAX_ARG_STRLEN of Linux).
const (
	maxSettings  = 96 << 10
	settingFrame = len(`{"name":"","value":""},`)
)

// SettingsOf are what a device with these parameters, which are all that it has, stores of its own: without what a boot takes and what nobody
// can change. Of those that are in had, the values there are taken. None are returned when they are too many to be kept.
func SettingsOf(all []inventory.Parameter, had ...inventory.Setting) []Setting {
	instead := map[string]string{}
	for _, s := range had {
		instead[s.Name] = s.Value
	}
	var out []Setting
	size := 0
	for _, p := range all {
		if len(p.Sets) > 0 || p.ReadOnly != "" || p.Volatile || !p.Next.Known {
			continue
		}
		s := Setting{p.Name, p.Next.Value}
		if value, ok := instead[p.Name]; ok {
			s.Value = value
		}
		if size += settingFrame + len(s.Name) + len(s.Value); size > maxSettings {
			return nil
		}
		out = append(out, s)
	}
	return out
}

// SettingsFor are the archived settings that a device with these parameters takes. FirmwareComing says that the archived firmware does not run
// yet, which may know others: those are among the result too. Left are the names of the rest.
func (m Manifest) SettingsFor(all []inventory.Parameter, firmwareComing bool) (out []inventory.Setting, left []string) {
	for _, kept := range m.Settings {
		s := inventory.Setting(kept)
		isKnown := inventory.FindParameter(all, s.Name) != nil
		if isKnown && inventory.CheckSettings([]inventory.Setting{s}, all) == nil || !isKnown && firmwareComing {
			out = append(out, s)
		} else {
			left = append(left, s.Name)
		}
	}
	return out, left
}
