package match

import (
	"slices"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// Assigned is what the operator writes into the spec of a device: the firmware that should run, and the objects that it comes
// from.
type Assigned struct {
	v1alpha1.DesiredFirmware
	Origin []v1alpha1.Origin
}

// AssignedTo is what the spec of a device says; nil where nothing is assigned.
func AssignedTo(d *v1alpha1.NodeDevice) *Assigned {
	if d.Spec.Firmware == nil {
		return nil
	}
	return &Assigned{DesiredFirmware: *d.Spec.Firmware, Origin: d.Spec.Origin}
}

// takes reports whether the image is the desired one or one on the way to it.
func (a *Assigned) takes(image v1alpha1.Digest) bool {
	return a.Digest == image || slices.ContainsFunc(a.Path, func(s v1alpha1.UpgradeStep) bool { return s.Digest == image })
}

// Desired is the firmware that should run; nil where nothing is assigned.
func (a *Assigned) Desired() *v1alpha1.DesiredFirmware {
	if a == nil {
		return nil
	}
	return &a.DesiredFirmware
}

// by is the rule or pin that assigned the firmware; the zero Party where nothing is assigned.
func (a *Assigned) by() Party {
	if a == nil {
		return Party{}
	}
	o := v1alpha1.AssignedBy(a.Origin)
	if o == nil {
		return Party{}
	}
	return Party{o.Kind, o.Name, o.Rule}
}

// source is the name of the source of the image; empty where there is none.
func (a *Assigned) source() string {
	if a == nil {
		return ""
	}
	o := v1alpha1.ImageFrom(a.Origin)
	if o == nil {
		return ""
	}
	return o.Name
}

// isOf reports whether the spec of a device says exactly the same.
func (a *Assigned) isOf(o *v1alpha1.NodeDevice) bool {
	if a == nil || o.Spec.Firmware == nil {
		return a == nil && o.Spec.Firmware == nil
	}
	return sameFirmware(a.DesiredFirmware, *o.Spec.Firmware) && slices.Equal(a.Origin, o.Spec.Origin)
}

// sameAssignment reports whether both mean the same. The generations of the origins do not count: they are those in which the
// content was first so.
func sameAssignment(a, b *Assigned) bool {
	return sameFirmware(a.DesiredFirmware, b.DesiredFirmware) && slices.EqualFunc(a.Origin, b.Origin, sameOrigin)
}

func sameFirmware(a, b v1alpha1.DesiredFirmware) bool {
	return a.Version == b.Version && a.Digest == b.Digest && a.Policy == b.Policy && a.Downgrade == b.Downgrade && equalPath(a.Path, b.Path)
}

func sameOrigin(a, b v1alpha1.Origin) bool {
	a.Generation, b.Generation = 0, 0
	return a == b
}
