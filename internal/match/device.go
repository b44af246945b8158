package match

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/desired"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/text"
)

// Device holds the facts about one device that rules are matched against. The strings are as the device reports them;
// comparisons normalise them.
type Device struct {
	Class v1alpha1.DeviceClass
	// Vendor is a name; VendorID and DeviceID are PCI ids as four hexadecimal digits.
	Vendor, VendorID, DeviceID, Model, BoardID, SerialNumber string
	// PCIAddresses of all functions of the device, as domain:bus:device.function.
	PCIAddresses []string

	spelled *spelling
}

// spelling is how selectors compare the facts about a device. The index spells them once, since every rule and image asks for them.
type spelling struct {
	vendors, models, boards, serials, buses []string
	// model is the key of the model, by which images are quarantined.
	model string
}

func (d Device) spelling() *spelling {
	if d.spelled != nil {
		return d.spelled
	}
	return &spelling{
		vendors: normalizedIDs(text.Slug(d.VendorID), text.Slug(d.Vendor)), models: normalizedIDs(d.DeviceID, d.Model),
		boards: normalizedIDs(d.BoardID), serials: normalizedIDs(d.SerialNumber), buses: normalizedIDs(d.PCIAddresses...),
		model: v1alpha1.ModelKey(d.VendorID, d.DeviceID, d.Vendor, d.Model),
	}
}

func normalizedIDs(values ...string) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = inventory.NormalizeID(v)
	}
	return out
}

// DeviceOf takes the facts from the status of a NodeDevice.
func DeviceOf(d *v1alpha1.NodeDevice) Device {
	s := &d.Status
	out := Device{Class: s.Class, Vendor: s.Vendor, Model: s.Model, BoardID: s.BoardID, SerialNumber: s.SerialNumber}
	out.VendorID, out.DeviceID = s.PCIIDs()
	if s.PCIAddress != "" {
		out.PCIAddresses = append(out.PCIAddresses, s.PCIAddress)
	}
	for _, p := range s.Ports {
		if p.PCIAddress != "" && !slices.Contains(out.PCIAddresses, p.PCIAddress) {
			out.PCIAddresses = append(out.PCIAddresses, p.PCIAddress)
		}
	}
	return out
}

// DeviceFrom takes the facts from a device that was inspected on this machine, for use without a cluster.
func DeviceFrom(id inventory.Identity) Device {
	out := Device{
		Class: v1alpha1.DeviceClass(id.Class), Vendor: id.Vendor, VendorID: id.VendorID, DeviceID: id.DeviceID,
		Model: id.Model, BoardID: id.BoardID, SerialNumber: id.SerialNumber,
	}
	for _, a := range id.PCI {
		out.PCIAddresses = append(out.PCIAddresses, a.String())
	}
	return out
}

func (d Device) equal(o Device) bool {
	return d.Class == o.Class && d.Vendor == o.Vendor && d.VendorID == o.VendorID && d.DeviceID == o.DeviceID &&
		d.Model == o.Model && d.BoardID == o.BoardID && d.SerialNumber == o.SerialNumber &&
		slices.Equal(d.PCIAddresses, o.PCIAddresses)
}

// Facts are what the status of a NodeDevice says about its firmware, in the terms of package plan, as it was when the
// device was last read: the daemon keeps the status of a device that it cannot read. Whether it can be read now is what
// Unread reports.
func Facts(o *v1alpha1.NodeDevice) plan.Facts {
	var out plan.Facts
	if f := o.Status.Firmware; f != nil {
		out.Driver = f.Driver
		if f.Access == v1alpha1.AccessReadOnly {
			out.ReadOnly = slices.Concat(f.Notes, []string{"it is read-only"})[0]
		}
		out.Running, out.Stored = inventory.NormalizeVersion(f.Running), inventory.NormalizeVersion(f.Stored)
		out.Activation = Activation(f.Activation)
		if f.VersionFormat == v1alpha1.VersionFormatDotted {
			out.Format = inventory.FormatDotted
		}
	}
	switch f := o.Status.Failure; {
	case f == nil:
	case o.Status.IsUnhealthy():
		out.Unhealthy, out.UnhealthyUnder = true, &f.Request
	default:
		out.FailedDigest, out.FailedUnder, out.Restored = desired.Digest(f.Digest), &f.Request, f.Reason == v1alpha1.ReasonRestored
	}
	return out
}

// Unread reports whether the last scan could not read the device, so that facts may be missing or out of date.
func Unread(o *v1alpha1.NodeDevice) bool {
	c := meta.FindStatusCondition(o.Status.Conditions, v1alpha1.ConditionInspected)
	return c != nil && c.Reason == v1alpha1.ReasonReadFailed
}

// Activation is an activation of the API in the terms of package inventory; none where it is absent.
func Activation(kind v1alpha1.ActivationKind) inventory.Activation {
	for a := inventory.ActivateNone; a <= inventory.ActivatePowerCycle; a++ {
		if a.String() == string(kind) {
			return a
		}
	}
	return inventory.ActivateNone
}

// observed is what the daemon reports about a device's firmware.
type observed struct {
	// Facts as they were last read.
	plan.Facts
	unread bool
	// updating: a job works on the device now.
	updating bool
	// settings is how far the device has those that are desired; nil where that is not known.
	settings *v1alpha1.ObservedConfiguration
}

func observe(o *v1alpha1.NodeDevice) observed {
	c := meta.FindStatusCondition(o.Status.Conditions, v1alpha1.ConditionReconciling)
	return observed{
		Facts: Facts(o), unread: Unread(o), updating: c != nil && c.Reason == v1alpha1.ReasonProgressing, settings: o.Status.Configuration,
	}
}

func (o observed) equal(other observed) bool {
	same := ptr.Equal(o.FailedUnder, other.FailedUnder) && ptr.Equal(o.UnhealthyUnder, other.UnhealthyUnder) &&
		equality.Semantic.DeepEqual(o.settings, other.settings)
	o.FailedUnder, o.UnhealthyUnder, o.settings = other.FailedUnder, other.UnhealthyUnder, other.settings
	return same && o == other
}

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
