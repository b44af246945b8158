package catalog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// Bounds of what is kept of a release. A version or id that is too long is left out, because truncating it would make it a different one;
// other texts that are too long are dropped.
const (
	maxVersion = 64
	maxIssueID = 64
	maxURL     = 1024
	maxIssues  = 256
)

// Component is one kind of device of a machine model, as the devices report it.
type Component struct {
	// Class is NIC, StorageController, Disk or BIOS.
	Class string
	// Vendor and Model are the names that the device reports.
	Vendor, Model string
	// VendorID and DeviceID are the PCI ids as four hexadecimal digits; empty for devices that are not on the PCI bus.
	VendorID, DeviceID string
	// BoardID is what the board checks an image against.
	BoardID string
	// Format is what the driver of the devices declares about their versions. It counts where a provider declares nothing.
	Format inventory.VersionFormat
}

// Query asks for the versions of the components of one machine model.
type Query struct {
	// Vendor and Model of the machine, from DMI.
	Vendor, Model string
	Components    []Component
}

// Release is one version that a provider offers for one component.
type Release struct {
	// Version, spelled as the provider does.
	Version string
	// Format is the format that the provider declares for its versions; nil when it declares none.
	Format *inventory.VersionFormat
	// URL and Digest of the file; zero when the provider does not say.
	URL    string
	Digest inventory.Digest
	// Source is the FirmwareSource that holds it; only from Sources.
	Source string
	// Fixes and Has are ids of vulnerabilities that this version fixes, and that it has, by the issue tags of the provider.
	Fixes, Has []string
}

// Emit receives what a provider offers: the index of the component in the query, and the release. The receiver owns the release. If Emit
// returns an error, the discovery ends.
type Emit func(component int, r Release) error

// Provider tells which versions it offers. Discover calls emit for each, in the provider's own order, and fails with an *Error.
// What was emitted before an error must not be used.
type Provider interface {
	Discover(ctx context.Context, q Query, emit Emit) error
}

// Reason says what is wrong with a provider's answer. The values are those of the API.
type Reason string

// The reasons.
const (
	// DownloadFailed: it could not be fetched or read.
	DownloadFailed Reason = "DownloadFailed"
	// SignatureInvalid: it is not signed by whom the catalog trusts.
	SignatureInvalid Reason = "SignatureInvalid"
	// Replayed: it was signed earlier than metadata that has already been used.
	Replayed Reason = "Replayed"
	// InvalidCatalog: it is not in the format of its type, exceeds a limit, or has a type that cannot be queried.
	InvalidCatalog Reason = "InvalidCatalog"
	// TimedOut: it did not end in time.
	TimedOut Reason = "TimedOut"
)

// Error is why a provider's answer cannot be used.
type Error struct {
	Reason Reason
	Err    error
}

func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// ReasonOf classifies an error of a provider.
func ReasonOf(err error) Reason {
	var e *Error
	switch {
	case errors.As(err, &e):
		return e.Reason
	case errors.Is(err, context.DeadlineExceeded):
		return TimedOut
	}
	return DownloadFailed
}

func fault(r Reason, format string, args ...any) error {
	return &Error{Reason: r, Err: fmt.Errorf(format, args...)}
}

// clean bounds the texts of a release. It reports false when there is no version that could be kept.
func (r *Release) clean() bool {
	r.Version = strings.TrimSpace(r.Version)
	if r.Version == "" || len(r.Version) > maxVersion || !printable(r.Version) {
		return false
	}
	if len(r.URL) > maxURL || !printable(r.URL) {
		r.URL = ""
	}
	r.Fixes, r.Has = cleanIDs(r.Fixes), cleanIDs(r.Has)
	return true
}

// cleanIDs keeps each id once.
func cleanIDs(ids []string) []string {
	var out []string
	seen := make(map[string]bool, len(ids))
	for _, id := range ids {
		id = strings.TrimSpace(id)
		if id == "" || len(id) > maxIssueID || !printable(id) || seen[id] || len(out) == maxIssues {
			continue
		}
		seen[id] = true
		out = append(out, id)
	}
	return out
}

// printable reports whether a text holds nothing but ASCII without control characters, which a terminal might act on.
func printable(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
}

// Position is where a running version stands among those that are offered.
type Position string

// The positions, as in the API.
const (
	Newest  Position = "Newest"
	Behind  Position = "Behind"
	Ahead   Position = "Ahead"
	Unknown Position = "Unknown"
)

// Place compares a running version with the newest one that is offered. If versions are not ordered, or one of the two does not follow the
// format, the position is Unknown.
func Place(running, newest string, dotted bool) Position {
	if running == "" || newest == "" || !dotted {
		return Unknown
	}
	switch inventory.Version(running).Compare(inventory.Version(newest), inventory.FormatDotted) {
	case inventory.Older:
		return Behind
	case inventory.Newer:
		return Ahead
	case inventory.Same:
		return Newest
	}
	return Unknown
}

// Affects reports whether a running version is known to have the vulnerability: a provider lists it as having it, or versions are ordered
// and it is older than every version that fixes it. A version between two that both fix it may be from a fixed or an unfixed branch, so it
// counts as neither affected nor fixed.
func (i Issue) Affects(running string, dotted bool) bool {
	if running == "" || slices.Contains(i.FixedIn, running) {
		return false
	}
	if slices.Contains(i.Has, running) {
		return true
	}
	return dotted && len(i.FixedIn) > 0 && !slices.ContainsFunc(i.FixedIn, func(v string) bool {
		return inventory.Version(running).Compare(inventory.Version(v), inventory.FormatDotted) != inventory.Older
	})
}

// FixedBy reports whether a version is known to fix the vulnerability: a provider says so, or versions are ordered and it is newer than
// every version that fixes it. One that a provider lists as having it does not.
func (i Issue) FixedBy(version string, dotted bool) bool {
	if version == "" || slices.Contains(i.Has, version) {
		return false
	}
	return slices.Contains(i.FixedIn, version) || dotted && len(i.FixedIn) > 0 && !slices.ContainsFunc(i.FixedIn, func(v string) bool {
		return inventory.Version(version).Compare(inventory.Version(v), inventory.FormatDotted) != inventory.Newer
	})
}

// NearestFix is the nearest version newer than a running one that fixes all the vulnerabilities, of those that are offered and those that fix
// one, and of these the ones that can be reached from it; empty for none. Versions must be ordered.
func NearestFix(running string, issues []Issue, offered []Release, isReached func(version string) bool) string {
	var candidates []string
	for _, r := range offered {
		candidates = append(candidates, r.Version)
	}
	for _, i := range issues {
		candidates = append(candidates, i.FixedIn...)
	}
	nearest := ""
	for _, v := range candidates {
		if newestFirst(v, running) < 0 && (nearest == "" || newestFirst(nearest, v) < 0) &&
			!slices.ContainsFunc(issues, func(i Issue) bool { return !i.FixedBy(v, true) }) && isReached(v) {
			nearest = v
		}
	}
	return nearest
}
