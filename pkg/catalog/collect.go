package catalog

import (
	"context"
	"slices"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

const (
	// maxKnownIssues bounds the vulnerabilities that are kept of one component while a provider is read.
	maxKnownIssues = 1024
	// maxFixed and maxAffected bound the versions that are kept in a list of one vulnerability.
	maxFixed, maxAffected = 8, 16
	// maxFixing bounds the releases of one component that are kept because they fix a vulnerability.
	maxFixing = 64
)

// Offer is what one provider offers for one component.
type Offer struct {
	// First holds the first versions in the provider's order.
	First []Release
	// Decimal and Hexadecimal are the versions that are kept when versions of the component are spelled so, newest first.
	Decimal, Hexadecimal []Release
	// Declared is how the provider says that versions are spelled; Undeclared where it says nothing, or that they are text.
	Declared Spelling
	// Doubtful are the newest releases in each spelling of which it is not known whether they are for the component, and Doubts counts all of
	// them. They are in no other list.
	Doubtful []Release
	Doubts   int
	// Fixing are the newest releases that fix an issue, besides those in the other lists.
	Fixing []Release
	// Tells says that the provider tells the issues of the component: it names one, or says that a release fixes or has none.
	Tells bool
	// Issues by id.
	Issues []Issue
	// IssuesLeftOut counts vulnerabilities beyond the bounds, or with ids that are none, as often as they are named.
	IssuesLeftOut int
}

// Issue is a known vulnerability by the issue tags of providers.
type Issue struct {
	ID string
	// PowerOnHours is after how many hours of power a device that has it fails; 0 for no such limit.
	PowerOnHours int64
	// FixedIn are versions that fix it, the older ones first where they can be read. Of many that can be read, some between the oldest and
	// the newest are left out.
	FixedIn []string
	// FixedInText are others, which are text.
	FixedInText []string
	// Has are versions that a provider says have it, the newer ones first where they can be read.
	Has []string
	// InDoubt are versions that fix it and of which it is not known whether they are for the component.
	InDoubt []string
	// MoreFixes says that other versions which fix it, or may do so, were left out, and MoreHave that older ones which have it were: what is
	// not in those lists is then not known to be in none.
	MoreFixes, MoreHave bool
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

// Sooner is the lower of two limits in hours; 0 is none.
func Sooner(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// Versions returns the versions that are kept when versions of the component are spelled so: the newest ones, and then the first ones that
// are not ordered.
func (o Offer) Versions(s Spelling) []Release {
	newest := o.Decimal
	switch s {
	case Text:
		return o.First
	case Hexadecimal:
		newest = o.Hexadecimal
	}
	return append(slices.Clone(newest), slices.DeleteFunc(slices.Clone(o.First), s.Orders)...)
}

// collector keeps the newest versions in each spelling and the first ones, because a later release, or another provider, may declare how
// they are spelled.
type collector struct {
	Offer
	issues map[string]*Issue
	known  []string
}

func (c *collector) add(r Release, keep int) {
	spelled := Decimal
	if r.Spelling == Hexadecimal {
		spelled = Hexadecimal
	}
	if c.Declared != Decimal && r.Spelling >= Decimal {
		c.Declared = r.Spelling
	}
	c.IssuesLeftOut += r.IssuesLeftOut
	if r.Doubt != "" {
		c.doubt(r, spelled)
		return
	}
	c.Tells = c.Tells || r.Fixes != nil || r.Has != nil
	for _, id := range r.Fixes {
		i := c.issue(id)
		switch {
		case i == nil:
		case r.Spelling == Text:
			i.addFix(&i.FixedInText, r.Version, Text)
		default:
			i.addFix(&i.FixedIn, r.Version, spelled)
		}
	}
	for _, id := range r.Has {
		if i := c.issue(id); i != nil {
			i.Has = addVersion(i.Has, r.Version, spelled, inventory.Newer)
			i.MoreHave = i.MoreHave || len(i.Has) > maxAffected
			i.Has = i.Has[:min(len(i.Has), maxAffected)]
		}
	}
	for id, hours := range r.PowerOnHours {
		if i := c.issue(id); i != nil {
			i.PowerOnHours = Sooner(i.PowerOnHours, hours)
		}
	}
	fixes := len(r.Fixes) > 0
	r.Fixes, r.Has, r.PowerOnHours = nil, nil, nil
	if fixes {
		insert(&c.Fixing, r, spelled, maxFixing)
	}
	if len(c.First) < keep && !has(c.First, r.Version) {
		c.First = append(c.First, r)
	}
	if !spelled.Orders(r) {
		return
	}
	list := &c.Decimal
	if spelled == Hexadecimal {
		list = &c.Hexadecimal
	}
	insert(list, r, spelled, keep)
}

// insert keeps the newest releases, each version once.
func insert(list *[]Release, r Release, spelled Spelling, keep int) {
	if has(*list, r.Version) {
		return
	}
	at, _ := slices.BinarySearchFunc(*list, r, spelled.newestFirst)
	if at < keep {
		*list = slices.Insert(*list, at, r)
		*list = (*list)[:min(len(*list), keep)]
	}
}

// doubt keeps a release if it is the newest in its spelling that is doubtful.
func (c *collector) doubt(r Release, spelled Spelling) {
	c.Doubts++
	for _, id := range r.Fixes {
		if i := c.issue(id); i != nil {
			i.addFix(&i.InDoubt, r.Version, spelled)
		}
	}
	r.Fixes, r.Has = nil, nil
	at := slices.IndexFunc(c.Doubtful, func(have Release) bool { return spelled.Orders(have) == spelled.Orders(r) })
	switch {
	case at < 0:
		c.Doubtful = append(c.Doubtful, r)
	case spelled.newestFirst(r, c.Doubtful[at]) < 0:
		c.Doubtful[at] = r
	}
}

func (c *collector) issue(id string) *Issue {
	if i := c.issues[id]; i != nil {
		return i
	}
	if len(c.issues) == maxKnownIssues {
		c.IssuesLeftOut++
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
	out := c.Offer
	for _, id := range c.known {
		out.Issues = append(out.Issues, *c.issues[id])
	}
	return out
}

// addFix adds a version to a list of those that fix the vulnerability. The oldest ones and the newest are kept: how a version stands to all of
// them is how it stands to those in between too, and for anything else that is left out MoreFixes is set.
func (i *Issue) addFix(list *[]string, version string, spelled Spelling) {
	all := addVersion(*list, version, spelled, inventory.Older)
	if len(all) > maxFixed {
		out, newest := all[maxFixed-1], all[maxFixed]
		all = append(all[:maxFixed-1], newest)
		i.MoreFixes = i.MoreFixes || spelled.Compare(out, all[0]) != inventory.Newer || spelled.Compare(out, newest) != inventory.Older
	}
	*list = all
}

// addVersion adds a version to a list in which the older ones, or the newer ones, stand first. Versions that are not ordered stay in the order
// in which they came.
func addVersion(list []string, version string, spelled Spelling, first inventory.Order) []string {
	if slices.Contains(list, version) {
		return list
	}
	at := slices.IndexFunc(list, func(v string) bool { return spelled.Compare(version, v) == first })
	if at < 0 {
		at = len(list)
	}
	return slices.Insert(list, at, version)
}

func has(list []Release, version string) bool {
	return slices.ContainsFunc(list, func(r Release) bool { return r.Version == version })
}

// Sort puts the versions that can be read in their order, newest first, and the others behind them.
func Sort(versions []Release, spelled Spelling) {
	slices.SortStableFunc(versions, spelled.newestFirst)
}
