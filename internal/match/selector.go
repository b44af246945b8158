package match

import (
	"slices"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// Selector is a compiled DeviceSelector. Every list that is set must match, and a list matches when one entry does.
type Selector struct {
	class                          v1alpha1.DeviceClass
	vendors                        set // slugs
	models, boards, serials, buses set // normalised
}

// set holds spellings of values that are comparable; a nil set matches everything.
type set map[string]struct{}

// NewSelector compiles a selector.
func NewSelector(s v1alpha1.DeviceSelector) *Selector {
	out := &Selector{
		class: s.Class, models: newSet(s.Models...), boards: newSet(s.BoardIDs...),
		serials: newSet(s.SerialNumbers...), buses: newSet(s.PCIAddresses...),
	}
	if vendor, every := inventory.Vendor(s.Vendor); !every {
		out.vendors = newSet(vendor)
	}
	return out
}

// single reports whether the selector names single devices.
func (s *Selector) single() bool { return s.serials != nil || s.buses != nil }

// Matches reports whether the selector chooses the device. A fact that the device does not report matches no list.
func (s *Selector) Matches(d Device) bool {
	if s.class != d.Class {
		return false
	}
	is := d.spelling()
	return s.vendors.has(is.vendors) && s.models.has(is.models) && s.boards.has(is.boards) && s.serials.has(is.serials) && s.buses.has(is.buses)
}

// MayMatch is Matches for a device that cannot be read now: a fact that is not known may have any value.
func (s *Selector) MayMatch(d Device) bool {
	if s.class != d.Class {
		return false
	}
	is := d.spelling()
	return s.vendors.mayHave(is.vendors) && s.models.mayHave(is.models) && s.boards.mayHave(is.boards) && s.serials.mayHave(is.serials) &&
		s.buses.mayHave(is.buses)
}

// names reports whether the selector names the device by its serial number or PCI address.
func (s *Selector) names(d Device) bool {
	is := d.spelling()
	return s.class == d.Class && (s.serials != nil && s.serials.has(is.serials) || s.buses != nil && s.buses.has(is.buses))
}

func newSet(values ...string) set {
	if len(values) == 0 {
		return nil
	}
	out := make(set, len(values))
	for _, v := range values {
		out[inventory.NormalizeID(v)] = struct{}{}
	}
	return out
}

// has reports whether one of the values, which are normalised, is in the set. One that is empty is not known.
func (s set) has(values []string) bool {
	return s == nil || slices.ContainsFunc(values, func(v string) bool {
		_, ok := s[v]
		return ok && v != ""
	})
}

func (s set) mayHave(values []string) bool {
	return len(values) == 0 || slices.Contains(values, "") || s.has(values)
}
