package devlink

import (
	"cmp"
	"slices"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// The parameters that the firmware of an adapter keeps of its virtual functions (devlink-params.rst); mlx5_core has both from Linux 7.0 on.
const (
	sriovEnabled = "enable_sriov/permanent"
	sriovVFs     = "total_vfs/permanent"
)

// withTyped adds the settings of every vendor that the adapter has parameters for, and orders all by name.
func withTyped(all []inventory.Parameter) []inventory.Parameter {
	enabled, vfs := inventory.FindParameter(all, sriovEnabled), inventory.FindParameter(all, sriovVFs)
	if enabled == nil || vfs == nil {
		return all
	}
	out := append(slices.Clone(all), inventory.Parameter{
		Name: inventory.SettingNumVFs, Sets: []string{sriovEnabled, sriovVFs},
		Current: numVFs(enabled.Current, vfs.Current), Next: numVFs(enabled.Next, vfs.Next), Default: numVFs(enabled.Default, vfs.Default),
		ReadOnly: cmp.Or(enabled.ReadOnly, vfs.ReadOnly), Domain: vfs.Domain, Spelling: vfs.Spelling, Needs: max(enabled.Needs, vfs.Needs),
	})
	slices.SortFunc(out, func(a, b inventory.Parameter) int { return strings.Compare(a.Name, b.Name) })
	return out
}

func numVFs(enabled, vfs inventory.Reading) inventory.Reading {
	switch {
	case !enabled.Known:
	case enabled.Value != "true":
		return inventory.Read("0")
	case vfs.Known:
		return vfs
	}
	return inventory.Reading{}
}

// own replaces the settings of every vendor by the adapter's own, and leaves out what it stores already.
func own(settings []inventory.Setting, all []inventory.Parameter) []inventory.Setting {
	var out []inventory.Setting
	for _, s := range settings {
		switch {
		case s.Name != inventory.SettingNumVFs:
			out = append(out, s)
		case inventory.SpelledAsNumber.Same(s.Value, "0"):
			out = append(out, inventory.Setting{Name: sriovEnabled, Value: "false"})
		default:
			out = append(out, inventory.Setting{Name: sriovEnabled, Value: "true"}, inventory.Setting{Name: sriovVFs, Value: s.Value})
		}
	}
	return inventory.Differing(out, all)
}
