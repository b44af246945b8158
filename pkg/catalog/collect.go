package catalog

import (
	"context"
	"slices"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

const (
	// maxKnownIssues bounds the vulnerabilities that are kept of one component while a provider is read.
	maxKnownIssues = 1024
	// maxFixed and maxAffected bound the versions that are kept of one vulnerability.
	maxFixed, maxAffected = 8, 16
)

// Offer is what one provider offers for one component.
type Offer struct {
	// First holds the first versions in the provider's order.
	First []Release
	// Newest are the versions that are kept when versions are ordered, newest first. It is meaningless if Order is contradicted.
	Newest []Release
	// Order is what the provider says about the format of all its versions, not only of those that are kept.
	Order Order
	// Issues by id.
	Issues []Issue
	// IssuesLeftOut counts vulnerabilities beyond the bound.
	IssuesLeftOut int
}

// Issue is a known vulnerability by the issue tags of providers.
type Issue struct {
	ID string
	// FixedIn are versions that fix it, the older ones first where they follow the format Dotted.
	FixedIn []string
	// Has are versions that a provider says have it.
	Has []string
}

// Collected is what one provider offers.
type Collected struct {
	// Offers has one entry for each component of the query.
	Offers []Offer
}

// Collect asks one provider and keeps the given number of versions of each component. Memory depends on that number and on the
// components alone.
func Collect(ctx context.Context, p Provider, q Query, keep int) (Collected, error) {
	collectors := make([]collector, len(q.Components))
	out := Collected{Offers: make([]Offer, len(q.Components))}
	err := p.Discover(ctx, q, func(component int, r Release) error {
		collectors[component].add(r, keep)
		return nil
	})
	if err != nil {
		return Collected{}, err
	}
	for i := range collectors {
		out.Offers[i] = collectors[i].offer()
	}
	return out, nil
}

// Versions returns the versions that are kept, when versions of the component are ordered or not.
func (o Offer) Versions(ordered bool) []Release {
	if ordered {
		return o.Newest
	}
	return o.First
}

// Order is what providers say about the format of the versions of a component.
type Order struct {
	// Declared says that they follow the format Dotted.
	Declared bool
	// Contradicted says that a provider declares another format, or that a version does not follow Dotted.
	Contradicted bool
}

// Add adds what another provider says.
func (o *Order) Add(other Order) {
	o.Declared, o.Contradicted = o.Declared || other.Declared, o.Contradicted || other.Contradicted
}

// Holds reports whether versions can be ordered: a provider declares Dotted, or no provider declares anything and the device's driver
// declares Dotted; and nothing contradicts it.
func (o Order) Holds(driverDeclares inventory.VersionFormat) bool {
	return !o.Contradicted && (o.Declared || driverDeclares == inventory.FormatDotted)
}

func (o *Order) note(r Release) {
	if r.Format != nil {
		o.Add(Order{Declared: *r.Format == inventory.FormatDotted, Contradicted: *r.Format != inventory.FormatDotted})
	}
	o.Add(Order{Contradicted: !isDotted(r.Version)})
}

// collector keeps both the newest and the first versions, because a later release, or another provider, may declare that versions
// are not ordered.
type collector struct {
	newest, first []Release
	order         Order
	issues        map[string]*Issue
	known         []string
	leftOut       int
}

func (c *collector) add(r Release, keep int) {
	c.order.note(r)
	for _, id := range r.Fixes {
		if i := c.issue(id); i != nil {
			i.FixedIn = addVersion(i.FixedIn, r.Version, maxFixed, inventory.Older)
		}
	}
	for _, id := range r.Has {
		if i := c.issue(id); i != nil {
			i.Has = addVersion(i.Has, r.Version, maxAffected, inventory.Newer)
		}
	}
	r.Fixes, r.Has = nil, nil
	if len(c.first) < keep && !has(c.first, r.Version) {
		c.first = append(c.first, r)
	}
	if c.order.Contradicted || has(c.newest, r.Version) {
		return
	}
	at, _ := slices.BinarySearchFunc(c.newest, r.Version, func(have Release, version string) int { return newestFirst(have.Version, version) })
	if at < keep {
		c.newest = slices.Insert(c.newest, at, r)
		c.newest = c.newest[:min(len(c.newest), keep)]
	}
}

func (c *collector) issue(id string) *Issue {
	if i := c.issues[id]; i != nil {
		return i
	}
	if len(c.issues) == maxKnownIssues {
		c.leftOut++
		return nil
	}
	if c.issues == nil {
		c.issues = map[string]*Issue{}
	}
	i := &Issue{ID: id}
	c.issues[id], c.known = i, append(c.known, id)
	return i
}

func (c *collector) offer() Offer {
	out := Offer{First: c.first, Newest: c.newest, Order: c.order, IssuesLeftOut: c.leftOut}
	for _, id := range c.known {
		out.Issues = append(out.Issues, *c.issues[id])
	}
	return out
}

// addVersion adds a version to a list that keeps those which stand first: the older ones, or the newer ones. Versions that are not
// ordered stay in the order in which they came.
func addVersion(list []string, version string, bound int, first inventory.Order) []string {
	if slices.Contains(list, version) {
		return list
	}
	at := slices.IndexFunc(list, func(v string) bool {
		return inventory.Version(version).Compare(inventory.Version(v), inventory.FormatDotted) == first
	})
	if at < 0 {
		at = len(list)
	}
	list = slices.Insert(list, at, version)
	return list[:min(len(list), bound)]
}

func has(list []Release, version string) bool {
	return slices.ContainsFunc(list, func(r Release) bool { return r.Version == version })
}

// isDotted reports whether a version follows the format Dotted.
func isDotted(v string) bool {
	return inventory.Version(v).Compare(inventory.Version(v+".0"), inventory.FormatDotted) == inventory.Same
}

func newestFirst(a, b string) int {
	switch inventory.Version(a).Compare(inventory.Version(b), inventory.FormatDotted) {
	case inventory.Newer:
		return -1
	case inventory.Older:
		return 1
	}
	return 0
}

// Sort puts versions that are ordered in their order, newest first.
func Sort(versions []Release) {
	slices.SortStableFunc(versions, func(a, b Release) int { return newestFirst(a.Version, b.Version) })
}
