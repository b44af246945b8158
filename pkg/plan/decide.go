package plan

import (
	"errors"
	"fmt"
	"slices"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// Desired is the firmware that should run on one device. The zero Desired means that nothing is desired.
type Desired struct {
	// Version that should run; empty when none is assigned.
	Version inventory.Version
	// Digest of the image; zero while no image for the board is known.
	Digest inventory.Digest
	// ReportOnly says that a difference is only reported (update policy Validate).
	ReportOnly bool
	// AllowDowngrade lets an older version be flashed.
	AllowDowngrade bool
	// Retry is a person's request to try again what failed; empty when there is none.
	Retry Clearance
	// Path restricts how the version is reached.
	Path Path
}

// Facts is what is known about one device.
type Facts struct {
	// Unreadable says why the device could not be read in the last scan; empty when it was read.
	Unreadable string
	// Driver names the driver of the device; empty when none knows it.
	Driver string
	// ReadOnly says why the driver cannot write the device; empty when it can.
	ReadOnly string
	// Running and Stored are the versions the device runs and will run after activation. Stored is empty where the
	// device does not report it.
	Running, Stored inventory.Version
	// Activation is what a newly stored image needs before it runs.
	Activation inventory.Activation
	// Format declares how versions of the device are ordered.
	Format inventory.VersionFormat
	// FailedDigest is the image of the last failed update; zero when there was none. FailedUnder is the request to retry that
	// was in force then, nil where it is not known.
	FailedDigest inventory.Digest
	FailedUnder  *string
	// Restored says that the image did not fail: a person restored other firmware in its place. Without a FailedDigest no image was known
	// then, and any is kept away.
	Restored bool
	// Unhealthy says that a job left the device unhealthy, and UnhealthyUnder the request to retry that was in force then,
	// nil where it is not known.
	Unhealthy      bool
	UnhealthyUnder *string
}

// Outcome says what a device needs.
type Outcome int

// The outcomes.
const (
	// NothingDesired: no firmware is assigned to the device.
	NothingDesired Outcome = iota
	// UpToDate: the device runs the desired version.
	UpToDate
	// Differs: another version runs, and the difference is only reported.
	Differs
	// Blocked: another version runs, or the device cannot be judged, and no update can be planned; the Decision says why.
	Blocked
	// DueActivation: the version to flash is stored already and must only be activated.
	DueActivation
	// DueFlash: the version to flash must be written and activated.
	DueFlash
)

// Due reports whether the outcome calls for a job.
func (o Outcome) Due() bool { return o == DueActivation || o == DueFlash }

// Reason names why an update is blocked. The values are the condition reasons of the API.
type Reason string

// The reasons.
const (
	// ReasonReadFailed: the device could not be read, so what it runs is not known.
	ReasonReadFailed Reason = "ReadFailed"
	// ReasonNotUpdatable: no driver can write the device.
	ReasonNotUpdatable Reason = "NotUpdatable"
	// ReasonImageNotFound: there is no image for the device's board.
	ReasonImageNotFound Reason = "ImageNotFound"
	// ReasonDowngradeForbidden: the desired version is older, or cannot be ordered though a version format is declared.
	ReasonDowngradeForbidden Reason = "DowngradeForbidden"
	// ReasonPowerCycleRequired: only a power-cycle would activate the image, which the product cannot do.
	ReasonPowerCycleRequired Reason = "PowerCycleRequired"
	// ReasonUpdateFailed: the same image failed before and no request to retry has cleared that.
	ReasonUpdateFailed Reason = "UpdateFailed"
	// ReasonRestored: a person restored other firmware in the place of the image and no request to retry has cleared that.
	ReasonRestored Reason = "Restored"
	// ReasonDeviceUnhealthy: a job left the device unhealthy and no request to retry has cleared that.
	ReasonDeviceUnhealthy Reason = "DeviceUnhealthy"
	// ReasonPathBlocked: the version to flash must not be flashed over the running one, or that cannot be known.
	ReasonPathBlocked Reason = "PathBlocked"
)

// Decision is the verdict of a device: what it needs now.
type Decision struct {
	Outcome Outcome
	// Reason and Message say why a Blocked update cannot be planned and what to do next; empty otherwise.
	Reason  Reason
	Message string
	// Activation is what the image of a due update needs before it runs.
	Activation inventory.Activation
	// Version and Digest are what a due update flashes: the desired version, or a hop on the way to it. Version is that of a failed update too.
	Version inventory.Version
	Digest  inventory.Digest
}

// Decide decides what one device needs. Nothing else does: code that needs the answer later is passed the Decision. Two versions differ if
// they are not equal. Their order matters only for upgrade paths from below a version and, where a version format is declared, for refusing
// downgrades.
func Decide(d Desired, f Facts) Decision {
	switch {
	case d.Version == "":
		return Decision{Outcome: NothingDesired}
	case f.Unreadable != "":
		return blocked(ReasonReadFailed, "the device cannot be read: %s", f.Unreadable)
	case f.Driver == "":
		return blocked(ReasonNotUpdatable, "no driver knows the device; exclude it from the rule or add a driver")
	case f.Running == d.Version:
		return Decision{Outcome: UpToDate}
	case d.ReportOnly:
		return Decision{Outcome: Differs}
	case f.ReadOnly != "":
		return blocked(ReasonNotUpdatable, "the device cannot be updated: %s", f.ReadOnly)
	case f.Unhealthy && !d.Retry.Clears(f.UnhealthyUnder):
		return blocked(ReasonDeviceUnhealthy, "a job left the device unhealthy; repair it, then set spec.requests.retry of the node's NodeFirmware to a new value")
	}
	next, err := d.Path.Next(Image{d.Version, d.Digest}, f.Running, f.Format)
	d.Version, d.Digest = next.Version, next.Digest
	return d.decide(err, f)
}

// decide judges a version that differs from the running one on a device that can be written. Forbidden is why its path does not allow it.
func (d Desired) decide(forbidden error, f Facts) Decision {
	if d.Digest == (inventory.Digest{}) {
		return blocked(ReasonImageNotFound, "no image of version %s is known for the device's board; check the source", d.Version)
	}
	if forbidden != nil {
		return blocked(ReasonPathBlocked, "%v", forbidden)
	}
	if msg := Downgrade(d, f); msg != "" {
		return blocked(ReasonDowngradeForbidden, "%s", msg)
	}
	if f.Restored && f.FailedDigest == (inventory.Digest{}) {
		f.FailedDigest = d.Digest
	}
	if f.FailedDigest == d.Digest && !d.Retry.Clears(f.FailedUnder) {
		out := blocked(ReasonUpdateFailed, "the last update to %s failed; set spec.requests.retry of the node's NodeFirmware to a new value to try again",
			d.Version)
		if f.Restored {
			out = blocked(ReasonRestored, "a person restored %s in place of %s; change what is desired, or set spec.requests.retry of the node's NodeFirmware to a new "+
				"value to flash it", f.Running, d.Version)
		}
		out.Version = d.Version // a hop, perhaps
		return out
	}
	if f.Activation == inventory.ActivatePowerCycle {
		return blocked(ReasonPowerCycleRequired, "version %s would need a power-cycle; update the device by hand", d.Version)
	}
	due := Decision{Outcome: DueFlash, Activation: f.Activation, Version: d.Version, Digest: d.Digest}
	if f.Stored == d.Version {
		due.Outcome = DueActivation
	}
	return due
}

// Downgrade says why the desired version is refused as a downgrade, or "" when it is not. Where a version format is
// declared, a version that is older than the running one or does not follow the format is refused unless AllowDowngrade
// is set. Where none is declared, nothing is known about order and nothing is refused.
func Downgrade(d Desired, f Facts) string {
	if d.AllowDowngrade || f.Format == inventory.FormatPlain || f.Running == "" {
		return ""
	}
	switch d.Version.Compare(f.Running, f.Format) {
	case inventory.Older:
		return fmt.Sprintf("%s is older than the running %s; set downgrade to Allow to flash it", d.Version, f.Running)
	case inventory.Incomparable:
		return fmt.Sprintf("%s cannot be ordered against the running %s; set downgrade to Allow to flash it", d.Version, f.Running)
	}
	return ""
}

func blocked(r Reason, format string, args ...any) Decision {
	return Decision{Outcome: Blocked, Reason: r, Message: fmt.Sprintf(format, args...)}
}

// FactsOf returns the facts about a device that was just inspected. Past failures are not included.
func FactsOf(d inventory.Device) Facts {
	f := Facts{Driver: d.Driver}
	if d.Err != nil {
		f.Unreadable = d.Err.Error()
	}
	if fw := d.Firmware; fw != nil {
		f.ReadOnly, f.Running, f.Stored = fw.ReadOnly, fw.Running, fw.Stored
		f.Activation, f.Format = fw.Activation, fw.Format
	} else if f.Unreadable == "" && f.Driver != "" {
		f.Unreadable = "the driver reported no firmware"
	}
	return f
}

// Path restricts how versions are reached.
type Path []Edge

// Edge restricts how a version is flashed over the versions in From, or over all that are older than Below: after Via, or not at
// all where there is none.
type Edge struct {
	To    inventory.Version
	From  []inventory.Version
	Below inventory.Version
	Via   inventory.Version
	// Digest of the image of Via.
	Digest inventory.Digest
}

// ErrCircle says that the upgrade paths go round in a circle and never reach an image to flash.
var ErrCircle = errors.New("the upgrade paths lead in a circle; correct them")

// Image is a version to be flashed. Without a digest there is no image of it.
type Image struct {
	Version inventory.Version
	Digest  inventory.Digest
}

// Next returns what to flash over the running version now: the target itself, or a hop on the way to it. The error says why nothing may be
// flashed; it is ErrCircle if the edges go round in a circle. An edge that names the running version takes precedence over edges with a
// bound; of these the one with the oldest bound wins. A hop takes precedence over a prohibition, which forbids only the direct update.
func (p Path) Next(to Image, running inventory.Version, format inventory.VersionFormat) (next Image, err error) {
	for range len(p) + 1 {
		var via, forbidden *Edge
		unordered := false
		for i := range p {
			e := &p[i]
			if e.To != to.Version {
				continue
			}
			exact := slices.Contains(e.From, running)
			if e.Below != "" {
				switch running.Compare(e.Below, format) {
				case inventory.Incomparable:
					unordered, forbidden = true, e
					continue
				case inventory.Older:
				default:
					continue
				}
			} else if !exact {
				continue
			}
			switch {
			case e.Via == "":
				if !unordered {
					forbidden = e
				}
			case via == nil, exact && via.Below != "",
				!exact && via.Below != "" && e.Below.Compare(via.Below, format) == inventory.Older:
				via = e
			}
		}
		switch {
		case via != nil && (via.Below == "" || !unordered):
			if via.Via == running {
				return to, fmt.Errorf("the upgrade paths lead to %s via %s, which already runs; correct them", to.Version, running)
			}
			to = Image{via.Via, via.Digest}
		case unordered:
			return to, fmt.Errorf("how %s is flashed depends on whether what runs is below %s, and the running %s cannot be ordered against it",
				to.Version, forbidden.Below, running)
		case forbidden != nil && forbidden.Below != "":
			return to, fmt.Errorf("%s needs at least %s to run, and %s runs; declare a version in between", to.Version, forbidden.Below, running)
		case forbidden != nil:
			return to, fmt.Errorf("%s must not be flashed over the running %s; declare a version in between, or select another version", to.Version, running)
		default:
			return to, nil
		}
	}
	return to, ErrCircle
}
