package match

import (
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
	return s.class == d.Class &&
		s.vendors.has(d.vendors()...) &&
		s.models.has(d.DeviceID, d.Model) &&
		s.boards.has(d.BoardID) &&
		s.serials.has(d.SerialNumber) &&
		s.buses.has(d.PCIAddresses...)
}

// MayMatch is Matches for a device that cannot be read now: a fact that is not known may have any value.
func (s *Selector) MayMatch(d Device) bool {
	return s.class == d.Class &&
		s.vendors.mayHave(d.vendors()...) &&
		s.models.mayHave(d.DeviceID, d.Model) &&
		s.boards.mayHave(d.BoardID) &&
		s.serials.mayHave(d.SerialNumber) &&
		s.buses.mayHave(d.PCIAddresses...)
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

func (s set) has(values ...string) bool {
	if s == nil {
		return true
	}
	for _, v := range values {
		if n := inventory.NormalizeID(v); n != "" {
			if _, ok := s[n]; ok {
				return true
			}
		}
	}
	return false
}

func (s set) mayHave(values ...string) bool {
	if len(values) == 0 {
		return true
	}
	for _, v := range values {
		if inventory.NormalizeID(v) == "" {
			return true
		}
	}
	return s.has(values...)
}
