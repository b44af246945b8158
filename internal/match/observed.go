package match

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/desired"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
)

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
		out.Activation = activationOf(f.Activation)
		if f.VersionFormat == v1alpha1.VersionFormatDotted {
			out.Format = inventory.FormatDotted
		}
	}
	switch f := o.Status.Failure; {
	case f == nil:
	case o.Status.IsUnhealthy():
		out.Unhealthy, out.UnhealthyUnder = true, &f.Request
	default:
		out.FailedDigest, out.FailedUnder = desired.Digest(f.Digest), &f.Request
	}
	return out
}

// Unread reports whether the last scan could not read the device, so that facts may be missing or out of date.
func Unread(o *v1alpha1.NodeDevice) bool {
	c := meta.FindStatusCondition(o.Status.Conditions, v1alpha1.ConditionInspected)
	return c != nil && c.Reason == v1alpha1.ReasonReadFailed
}

func activationOf(kind v1alpha1.ActivationKind) inventory.Activation {
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
}

func observe(o *v1alpha1.NodeDevice) observed {
	c := meta.FindStatusCondition(o.Status.Conditions, v1alpha1.ConditionReconciling)
	return observed{Facts: Facts(o), unread: Unread(o), updating: c != nil && c.Reason == v1alpha1.ReasonProgressing}
}

func (o observed) equal(other observed) bool {
	same := ptr.Equal(o.FailedUnder, other.FailedUnder) && ptr.Equal(o.UnhealthyUnder, other.UnhealthyUnder)
	o.FailedUnder, o.UnhealthyUnder = other.FailedUnder, other.UnhealthyUnder
	return same && o == other
}
