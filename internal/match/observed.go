package match

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/desired"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
)

// Facts are what the status of a NodeDevice says about its firmware, in the terms of package plan.
func Facts(o *v1alpha1.NodeDevice) plan.Facts {
	var out plan.Facts
	if c := meta.FindStatusCondition(o.Status.Conditions, v1alpha1.ConditionInspected); c != nil &&
		c.Reason == v1alpha1.ReasonReadFailed {
		out.Unreadable = orDefault(c.Message, c.Reason)
	}
	if f := o.Status.Firmware; f != nil {
		out.Driver, out.ReadOnly = f.Driver, f.ReadOnly
		out.Running, out.Stored = inventory.NormalizeVersion(f.Running), inventory.NormalizeVersion(f.Stored)
		out.Activation = activationOf(f.Activation)
		if f.VersionFormat == v1alpha1.VersionFormatDotted {
			out.Format = inventory.FormatDotted
		}
	}
	if f := o.Status.LastFailure; f != nil {
		out.FailedDigest, out.FailedAt = digestOf(f.Digest), f.Time.Time
	}
	if u := o.Status.Unhealthy; u != nil {
		out.UnhealthySince = u.Since.Time
	}
	return out
}

// Wish is an assigned firmware in the terms of package plan; the zero Wish for nil. Failures before retryAfter are
// forgiven.
func Wish(f *v1alpha1.DesiredFirmware, retryAfter time.Time) plan.Wish {
	return desired.Wish(f, retryAfter)
}

func activationOf(kind v1alpha1.ActivationKind) inventory.Activation {
	for a := inventory.ActivateNone; a <= inventory.ActivatePowerCycle; a++ {
		if a.String() == string(kind) {
			return a
		}
	}
	return inventory.ActivateNone
}

// digestOf is zero for an absent digest; the API server admits no malformed one.
func digestOf(d v1alpha1.Digest) inventory.Digest {
	out, err := inventory.ParseDigest(string(d))
	if err != nil {
		return inventory.Digest{}
	}
	return out
}

// observed is what the daemon says about a device's firmware.
type observed struct {
	plan.Facts
	// updating: a job works on the device now.
	updating bool
}

func observe(o *v1alpha1.NodeDevice) observed {
	c := meta.FindStatusCondition(o.Status.Conditions, v1alpha1.ConditionReconciling)
	return observed{Facts: Facts(o), updating: c != nil && c.Reason == v1alpha1.ReasonUpdating}
}

// equal ignores the words in which a failure to read is told.
func (o observed) equal(other observed) bool {
	same := o.FailedAt.Equal(other.FailedAt) && o.UnhealthySince.Equal(other.UnhealthySince) &&
		(o.Unreadable == "") == (other.Unreadable == "")
	o.FailedAt, o.UnhealthySince, o.Unreadable = other.FailedAt, other.UnhealthySince, other.Unreadable
	return same && o == other
}
