package catalog

import (
	"slices"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

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
