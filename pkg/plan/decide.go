package plan

import (
	"fmt"
	"slices"
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
	// Path restricts how the version is reached.
	Path
	// Hops are the versions to flash first; the first one that leads on from the running version is taken.
	Hops []Hop
}

// Path restricts over which versions one may be flashed.
type Path struct {
	// BlockedFrom are the running versions over which it must not be.
	BlockedFrom []inventory.Version
	// Minimum is the oldest one over which it may be; empty for any.
	Minimum inventory.Version
}

// Hop is a version on the way to the wished one.
type Hop struct {
	// From are the running versions from which it is taken.
	From    []inventory.Version
	Version inventory.Version
	Digest  inventory.Digest
	Path
}

// next is what to flash now over the running version: the wish itself, or a hop on the way to it.
func (w Wish) next(running inventory.Version) Wish {
	for _, h := range w.Hops {
		if slices.Contains(h.From, running) {
			w.Version, w.Digest, w.Path = h.Version, h.Digest, h.Path
			return w
		}
	}
	return w
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
	// UnhealthySince is when a job left the device unhealthy; zero when none did.
	UnhealthySince time.Time
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
	// ReasonDeviceUnhealthy: a job left the device unhealthy and nobody has forgiven that.
	ReasonDeviceUnhealthy Reason = "DeviceUnhealthy"
	// ReasonEdgeBlocked: the version must not be flashed over the running one.
	ReasonEdgeBlocked Reason = "EdgeBlocked"
	// ReasonBelowMinimumVersion: the running version is older than the version needs, or cannot be ordered.
	ReasonBelowMinimumVersion Reason = "BelowMinimumVersion"
)

// Decision is what to do about one device.
type Decision struct {
	Outcome Outcome
	// Reason and Message say why a Blocked update cannot be planned and what to do; empty otherwise.
	Reason  Reason
	Message string
	// Activation is how disruptive a due update is expected to be.
	Activation inventory.Activation
	// Version and Digest are what a due update flashes: the wished version, or one on the way to it.
	Version inventory.Version
	Digest  inventory.Digest
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
	case !f.UnhealthySince.IsZero() && !f.UnhealthySince.Before(w.RetryAfter):
		return blocked(ReasonDeviceUnhealthy, "a job left the device unhealthy; mend it, then set retryRequestedAt on the node's NodeFirmware")
	}
	return w.next(f.Running).decide(f)
}

// decide is for a wish that differs from what runs and can be flashed.
func (w Wish) decide(f Facts) Decision {
	switch {
	case w.Digest == (inventory.Digest{}):
		return blocked(ReasonImageNotFound, "no image of version %s is known for the device's board; check the source", w.Version)
	}
	if reason, message := w.forbidden(w, f); reason != "" {
		return blocked(reason, "%s", message)
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
	due := Decision{Outcome: DueFlash, Activation: f.Activation, Version: w.Version, Digest: w.Digest}
	if f.Stored == w.Version {
		due.Outcome = DueActivation
	}
	return due
}

// forbidden says why the path does not lead over the running version, or "" when it does.
func (p Path) forbidden(w Wish, f Facts) (Reason, string) {
	if slices.Contains(p.BlockedFrom, f.Running) {
		return ReasonEdgeBlocked, fmt.Sprintf("%s must not be flashed over the running %s; declare a hop in between, or wish for another version",
			w.Version, f.Running)
	}
	if p.Minimum == "" {
		return "", ""
	}
	switch f.Running.Compare(p.Minimum, f.Format) {
	case inventory.Older:
		return ReasonBelowMinimumVersion, fmt.Sprintf("%s needs at least %s to run, and %s runs; declare a hop in between", w.Version, p.Minimum, f.Running)
	case inventory.Incomparable:
		return ReasonBelowMinimumVersion, fmt.Sprintf("%s needs at least %s to run, and the running %s cannot be ordered against it", w.Version, p.Minimum, f.Running)
	}
	return "", ""
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
