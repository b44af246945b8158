package mstflint

import (
	"cmp"
	"slices"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// The parameters that the settings of every vendor stand for.
const (
	sriovEnabled = "SRIOV_EN"
	sriovVFs     = "NUM_OF_VFS"
)

// linkTypes are those of the ports; a card has one for each of its ports.
var linkTypes = []string{"LINK_TYPE_P1", "LINK_TYPE_P2"}

// The values of LINK_TYPE, as numbers.
var (
	linkNames   = map[string]string{"1": string(inventory.InfiniBand), "2": string(inventory.Ethernet)}
	linkNumbers = map[string]string{string(inventory.InfiniBand): "1", string(inventory.Ethernet): "2"}
)

// maxVFs is the largest number that the field of a card takes (16 bits); the card itself may take fewer.
const maxVFs = 1<<16 - 1

// standsFor are the parameters that a setting of every vendor may set; none for other names.
func standsFor(name string) []string {
	switch name {
	case inventory.SettingNumVFs:
		return []string{sriovEnabled, sriovVFs}
	case inventory.SettingLinkType:
		return linkTypes
	}
	return nil
}

// withTyped adds the settings of every vendor that the card has parameters for, and orders all by name.
func withTyped(own []inventory.Parameter) []inventory.Parameter {
	out := slices.Clone(own)
	enabled, vfs := inventory.FindParameter(own, sriovEnabled), inventory.FindParameter(own, sriovVFs)
	if enabled != nil && vfs != nil {
		p := combine(inventory.SettingNumVFs, enabled, vfs)
		p.Spelling = inventory.SpelledAsNumber
		p.Domain.Number = &inventory.Interval{Max: maxVFs}
		p.Current, p.Next, p.Default = numVFs(enabled.Current, vfs.Current), numVFs(enabled.Next, vfs.Next), numVFs(enabled.Default, vfs.Default)
		out = append(out, p)
	}
	var ports []*inventory.Parameter
	for _, name := range linkTypes {
		if port := inventory.FindParameter(own, name); port != nil {
			ports = append(ports, port)
		}
	}
	if len(ports) > 0 {
		p := combine(inventory.SettingLinkType, ports...)
		p.Domain.Values = []string{string(inventory.Ethernet), string(inventory.InfiniBand)}
		p.Current = linkType(ports, func(p *inventory.Parameter) inventory.Reading { return p.Current })
		p.Next = linkType(ports, func(p *inventory.Parameter) inventory.Reading { return p.Next })
		p.Default = linkType(ports, func(p *inventory.Parameter) inventory.Reading { return p.Default })
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b inventory.Parameter) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// combine is a setting that stands for parameters: it costs as much as the dearest of them, and is read-only when one of them is.
func combine(name string, parts ...*inventory.Parameter) inventory.Parameter {
	p := inventory.Parameter{Name: name}
	for _, part := range parts {
		p.Sets = append(p.Sets, part.Name)
		p.Needs = max(p.Needs, part.Needs)
		if part.ReadOnly != "" {
			p.ReadOnly = cmp.Or(p.ReadOnly, part.Name+" cannot be set: "+part.ReadOnly)
		}
	}
	return p
}

func numVFs(enabled, vfs inventory.Reading) inventory.Reading {
	switch {
	case !enabled.Known:
	case inventory.SpelledWithCode.Same(enabled.Value, "0"):
		return inventory.Read("0")
	case vfs.Known:
		return inventory.Read(inventory.DecimalOf(vfs.Value))
	}
	return inventory.Reading{}
}

// linkType is the one of all ports; where they differ, those of the ports in order.
func linkType(ports []*inventory.Parameter, of func(*inventory.Parameter) inventory.Reading) inventory.Reading {
	var names []string
	for _, p := range ports {
		r := of(p)
		if !r.Known {
			return r
		}
		names = append(names, cmp.Or(linkNames[inventory.DecimalOf(r.Value)], r.Value))
	}
	if all := slices.Compact(slices.Clone(names)); len(all) == 1 {
		names = all
	}
	return inventory.Read(strings.Join(names, ","))
}

// own replaces the settings of every vendor by the card's own, which the tool takes, and leaves out what the card stores already.
func own(settings []inventory.Setting, all []inventory.Parameter) []inventory.Setting {
	var out []inventory.Setting
	set := func(name, value string) {
		out = append(out, inventory.Setting{Name: name, Value: inventory.DecimalOf(value)})
	}
	for _, s := range settings {
		switch s.Name {
		case inventory.SettingNumVFs:
			if inventory.SpelledAsNumber.Same(s.Value, "0") {
				set(sriovEnabled, "0")
				continue
			}
			set(sriovEnabled, "1")
			set(sriovVFs, s.Value)
		case inventory.SettingLinkType:
			for _, port := range inventory.FindParameter(all, s.Name).Sets {
				set(port, linkNumbers[s.Value])
			}
		default:
			set(s.Name, s.Value)
		}
	}
	return inventory.Differing(out, all)
}
