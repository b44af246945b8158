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
	// maxPowerOnHours is more than a century.
	maxPowerOnHours = 1_000_000
)

// Component is one kind of device of a machine model, as the devices report it.
type Component struct {
	// Class is NIC, StorageController, Disk or BIOS.
	Class string
	// Vendor and Model are the names that the device reports.
	Vendor, Model string
	// VendorID and DeviceID are the PCI ids as four hexadecimal digits; empty for devices that are not on the PCI bus.
	VendorID, DeviceID string
	// SubsystemID is the PCI vendor and device id of the board around the chip, such as "15b3:0016"; empty where it is not known.
	SubsystemID string
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
	// Version, spelled as a device that runs it does where the provider is known to spell it otherwise, and as the provider does elsewhere.
	Version string
	// Spelling that the provider declares for it.
	Spelling Spelling
	// Doubt says why it is not known whether the release is for the component; empty when it is.
	Doubt string
	// Needs are conditions on the version that runs before the update.
	Needs []Need
	// URL and Digest of the file; zero when the provider does not say.
	URL    string
	Digest inventory.Digest
	// Source is the FirmwareSource that holds it; only from Sources.
	Source string
	// Fixes and Has are ids of vulnerabilities that this version fixes, and that it has, by the issue tags of the provider.
	Fixes, Has []string
	// PowerOnHours are the hours of power after which a device fails that has the vulnerability, by the ids of those that have such a limit.
	PowerOnHours map[string]int64
	// IssuesLeftOut counts those of one release that are not in the lists, because they are too many or their ids are none.
	IssuesLeftOut int
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
	r.Fixes, r.Has = r.cleanIDs(r.Fixes), r.cleanIDs(r.Has)
	var limits map[string]int64
	for id, hours := range r.PowerOnHours {
		if id = strings.TrimSpace(id); slices.Contains(r.Fixes, id) || slices.Contains(r.Has, id) {
			if limits == nil {
				limits = map[string]int64{}
			}
			limits[id] = Sooner(limits[id], hours)
		}
	}
	r.PowerOnHours = limits
	return true
}

// cleanIDs keeps each id once. A list that is there and empty says something, and stays one.
func (r *Release) cleanIDs(ids []string) []string {
	if ids == nil {
		return nil
	}
	out := []string{}
	seen := make(map[string]bool, min(len(ids), maxIssues))
	for _, id := range ids {
		id = strings.TrimSpace(id)
		switch {
		case seen[id]:
		case id == "", len(id) > maxIssueID, !printable(id), len(out) == maxIssues:
			r.IssuesLeftOut++
		default:
			seen[id] = true
			out = append(out, id)
		}
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

// Place compares a running version with the newest one that is offered. If one of the two cannot be read, the position is Unknown.
func Place(running, newest string, spelled Spelling) Position {
	if running == "" || newest == "" || !spelled.reads(running) {
		return Unknown
	}
	switch spelled.Compare(running, newest) {
	case inventory.Older:
		return Behind
	case inventory.Newer:
		return Ahead
	case inventory.Same:
		return Newest
	}
	return Unknown
}

// Affects says whether a running version has the vulnerability, and whether that is known: a provider lists it as having or fixing it, or it
// can be read and is older than every version that fixes it, or not older than any. A version between two that both fix it may be from a
// fixed or an unfixed branch, and what only versions in doubt fix may be a vulnerability of other devices. Nothing is concluded from the
// absence in a list that was cut.
func (i Issue) Affects(running string, spelled Spelling) (affected, known bool) {
	switch {
	case running == "":
		return false, false
	case i.listsFix(running), slices.ContainsFunc(i.FixedIn, func(v string) bool { return spelled.Compare(running, v) == inventory.Same }):
		return false, true
	case slices.Contains(i.Has, running):
		return true, true
	case i.MoreFixes:
		return false, false
	case every(i.FixedIn, running, spelled, inventory.Older):
		return true, true
	}
	fixes := i.FixedIn
	if len(i.FixedIn)+len(i.FixedInText)+len(i.Has) == 0 {
		fixes = i.InDoubt
	}
	return false, !i.mayHave(running, spelled) && every(fixes, running, spelled, inventory.Same, inventory.Newer)
}

// mayHave reports whether a version may be one that is listed as having the vulnerability and was left out: those are older than the others.
func (i Issue) mayHave(version string, spelled Spelling) bool {
	return i.MoreHave && !every(i.Has, version, spelled, inventory.Newer)
}

// FixedBy reports whether a version is known to fix the vulnerability: a provider says so, or it is newer than every version that fixes it
// and can be read. One that a provider lists as having it does not.
func (i Issue) FixedBy(version string, spelled Spelling) bool {
	if version == "" || slices.Contains(i.Has, version) {
		return false
	}
	return i.listsFix(version) || !i.MoreFixes && !i.mayHave(version, spelled) && every(i.FixedIn, version, spelled, inventory.Newer)
}

// listsFix reports whether a provider says that a version fixes the vulnerability.
func (i Issue) listsFix(version string) bool {
	return slices.Contains(i.FixedIn, version) || slices.Contains(i.FixedInText, version)
}

// every reports whether a version stands so to every one that fixes a vulnerability and can be read, of which there is one.
func every(fixes []string, version string, spelled Spelling, want ...inventory.Order) bool {
	fixes = slices.DeleteFunc(slices.Clone(fixes), func(v string) bool { return !spelled.reads(v) })
	return len(fixes) > 0 && !slices.ContainsFunc(fixes, func(v string) bool { return !slices.Contains(want, spelled.Compare(version, v)) })
}

// NearestFix is the first of some versions, which are those that a running one can be updated to with the nearest one first, that is known to
// fix all vulnerabilities; empty for none.
func NearestFix(issues []Issue, reachable []Release, spelled Spelling) string {
	for _, r := range reachable {
		if !slices.ContainsFunc(issues, func(i Issue) bool { return !i.FixedBy(r.Version, spelled) }) {
			return r.Version
		}
	}
	return ""
}
