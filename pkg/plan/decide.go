package plan

import (
	"fmt"
	"time"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// Wish is the firmware that should run on one device. The zero Wish wants nothing.
type Wish struct {
	// Version that should run; empty when nothing is wished.
	Version inventory.Version
	// Digest of the image; zero while no image for the board is known.
	Digest inventory.Digest
	// ReportOnly says that a difference is only reported (update policy Validate).
	ReportOnly bool
	// AllowDowngrade lets an older version be flashed.
	AllowDowngrade bool
	// RetryAfter forgives failures before that time; zero forgives none.
	RetryAfter time.Time
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
	// device cannot tell.
	Running, Stored inventory.Version
	// Activation is what a newly stored image needs before it runs.
	Activation inventory.Activation
	// Format declares how versions order.
	Format inventory.VersionFormat
	// FailedDigest and FailedAt are the image and the time of the last failed update; zero when there was none.
	FailedDigest inventory.Digest
	FailedAt     time.Time
}

// Outcome says what follows from a wish and the facts.
type Outcome int

// The outcomes.
const (
	// NotWished: nothing is wished for the device.
	NotWished Outcome = iota
	// UpToDate: the device runs the wished version.
	UpToDate
	// Differs: another version runs and that is only to be reported.
	Differs
	// Blocked: another version runs and the update cannot be planned; the Decision says why.
	Blocked
	// DueActivation: the wished version is stored and must only be activated.
	DueActivation
	// DueFlash: the wished version must be written and activated.
	DueFlash
)

// Due reports whether a job is to be made of it.
func (o Outcome) Due() bool { return o == DueActivation || o == DueFlash }

// Reason names why an update is blocked. The values are the condition reasons of the API.
type Reason string

// The reasons.
const (
	// ReasonReadFailed: the device could not be read, so nobody knows what it runs.
	ReasonReadFailed Reason = "ReadFailed"
	// ReasonNotUpdatable: no driver can write the device.
	ReasonNotUpdatable Reason = "NotUpdatable"
	// ReasonImageNotFound: there is no image for the device's board.
	ReasonImageNotFound Reason = "ImageNotFound"
	// ReasonDowngradeForbidden: the wished version is older, or cannot be ordered though the format is declared.
	ReasonDowngradeForbidden Reason = "DowngradeForbidden"
	// ReasonPowerCycleRequired: only a power-cycle would activate the image, which the product cannot do.
	ReasonPowerCycleRequired Reason = "PowerCycleRequired"
	// ReasonUpdateFailed: the same image failed before and nobody asked for a retry.
	ReasonUpdateFailed Reason = "UpdateFailed"
)

// Decision is what to do about one device.
type Decision struct {
	Outcome Outcome
	// Reason and Message say why a Blocked update cannot be planned and what to do; empty otherwise.
	Reason  Reason
	Message string
	// Activation is how disruptive a due update is expected to be.
	Activation inventory.Activation
}

// Decide says whether the update of one device is due, and if not, why. Equality decides whether there is a
// difference; order is only used to refuse downgrades, and only where a version format is declared.
func Decide(w Wish, f Facts) Decision {
	switch {
	case w.Version == "":
		return Decision{Outcome: NotWished}
	case f.Unreadable != "":
		return blocked(ReasonReadFailed, "the device cannot be read: %s", f.Unreadable)
	case f.Driver == "":
		return blocked(ReasonNotUpdatable, "no driver knows the device; exclude it from the rule or add a driver")
	case f.Running == w.Version:
		return Decision{Outcome: UpToDate}
	case w.ReportOnly:
		return Decision{Outcome: Differs}
	case f.ReadOnly != "":
		return blocked(ReasonNotUpdatable, "the device cannot be updated: %s", f.ReadOnly)
	case w.Digest == (inventory.Digest{}):
		return blocked(ReasonImageNotFound, "no image of version %s is known for the device's board; check the source", w.Version)
	}
	if msg := Downgrade(w, f); msg != "" {
		return blocked(ReasonDowngradeForbidden, "%s", msg)
	}
	if f.FailedDigest == w.Digest && !f.FailedAt.Before(w.RetryAfter) {
		return blocked(ReasonUpdateFailed, "the last update to %s failed; set retryRequestedAt on the node's NodeFirmware to try again",
			w.Version)
	}
	if f.Activation == inventory.ActivatePowerCycle {
		return blocked(ReasonPowerCycleRequired, "version %s would need a power-cycle; update the device by hand", w.Version)
	}
	if f.Stored == w.Version {
		return Decision{Outcome: DueActivation, Activation: f.Activation}
	}
	return Decision{Outcome: DueFlash, Activation: f.Activation}
}

// Downgrade says why the wish is refused as a downgrade, or "" when it is not: where a version format is declared, a
// version that is older than the running one or does not follow the format is refused unless the wish allows it.
// Where none is declared nothing is known about order and nothing is refused.
func Downgrade(w Wish, f Facts) string {
	if w.AllowDowngrade || f.Format == inventory.FormatPlain || f.Running == "" {
		return ""
	}
	switch w.Version.Compare(f.Running, f.Format) {
	case inventory.Older:
		return fmt.Sprintf("%s is older than the running %s; set downgrade to Allow to flash it", w.Version, f.Running)
	case inventory.Incomparable:
		return fmt.Sprintf("%s cannot be ordered against the running %s; set downgrade to Allow to flash it", w.Version, f.Running)
	}
	return ""
}

func blocked(r Reason, format string, args ...any) Decision {
	return Decision{Outcome: Blocked, Reason: r, Message: fmt.Sprintf(format, args...)}
}
