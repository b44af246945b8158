package catalog

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/lifetime"
	"github.com/nodefirmware/node-firmware-operator/internal/match"
	"github.com/nodefirmware/node-firmware-operator/internal/status"
	"github.com/nodefirmware/node-firmware-operator/pkg/catalog"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// Bounds of the lists of the status, as in the API.
const (
	maxComponents = 64
	maxRunning    = 16
	maxIssues     = 16
	// maxStatus bounds the components in bytes of JSON. With the spec, conditions and what the API server notes of its fields the object
	// stays under 256 KiB.
	maxStatus = 112 << 10
)

// unending is for what is in memory.
var unending = context.Background()

// offers is what the providers offer for one component.
type offers struct {
	// of each provider, in their order.
	of []offered
	// before is what the status said of running versions, where a provider has not answered in this process. It does not say which provider
	// named a vulnerability, so each of them keeps all.
	before []v1alpha1.CatalogRunning
}

type offered struct {
	provider string
	catalog.Offer
}

func (o *offers) add(provider string, from catalog.Offer) {
	o.of = append(o.of, offered{provider, from})
}

// remember adds what a provider offered by the status, until it answers again.
func (o *offers) remember(provider string, c *v1alpha1.CatalogComponent) {
	spelled, last := spelledIn(c), ""
	from := catalog.Offer{Declared: spelled}
	for _, v := range c.Versions {
		if last != "" && spelled.Compare(v.Version, last) != inventory.Older {
			spelled = catalog.Text // what is not ordered is listed last
		}
		if last = v.Version; v.Provider != provider {
			continue
		}
		r := catalog.Release{Version: v.Version, Spelling: spelled, URL: v.URL}
		r.Digest, _ = inventory.ParseDigest(string(v.Digest)) // none is none
		from.First = append(from.First, r)
		switch spelled {
		case catalog.Decimal:
			from.Decimal = append(from.Decimal, r)
		case catalog.Hexadecimal:
			from.Hexadecimal = append(from.Hexadecimal, r)
		}
	}
	o.add(provider, from)
	o.before = c.Running
}

// spelledIn is how the first version of a status is read: where none of the running versions has a position, it is not.
func spelledIn(c *v1alpha1.CatalogComponent) catalog.Spelling {
	placed := func(r v1alpha1.CatalogRunning) bool { return r.Position != v1alpha1.PositionUnknown }
	switch {
	case len(c.Versions) == 0, !slices.ContainsFunc(c.Running, placed):
		return catalog.Text
	case catalog.Decimal.Compare(c.Versions[0].Version, "0") != inventory.Incomparable:
		return catalog.Decimal
	}
	return catalog.Hexadecimal
}

// merged is what all providers together offer for one component.
type merged struct {
	// spelled is how versions are read. Those that can be read are listed first, the newest one before the others.
	spelled  catalog.Spelling
	versions []catalog.Release
	// doubtful are the newest ones of which it is not known whether they are for the devices.
	doubtful []catalog.Release
	// fixing are others that fix a vulnerability, which are not listed.
	fixing []catalog.Release
	// tells says that a provider tells the vulnerabilities of the component, and cut that not all that a provider named were kept.
	tells, cut bool
	// from is the provider of each version: of its address, or the first that offers it.
	from   map[string]string
	issues []catalog.Issue
}

// merge puts the offers together. What an earlier provider says about a version stays; what it left open is added.
func (o offers) merge(driverDeclares inventory.VersionFormat) merged {
	var declared []catalog.Spelling
	for _, from := range o.of {
		declared = append(declared, from.Declared)
	}
	m := merged{spelled: catalog.SpellingOf(driverDeclares, declared...), from: map[string]string{}}
	for _, from := range o.of {
		for _, r := range from.Versions(m.spelled) {
			m.addVersion(from.provider, r)
		}
		m.doubtful, m.fixing = append(m.doubtful, from.Doubtful...), append(m.fixing, from.Fixing...)
		m.tells, m.cut = m.tells || from.Tells, m.cut || from.IssuesLeftOut > 0
		for _, issue := range from.Issues {
			m.addIssue(issue)
		}
	}
	catalog.Sort(m.versions, m.spelled)
	return m
}

func (m *merged) addVersion(provider string, r catalog.Release) {
	i := slices.IndexFunc(m.versions, func(have catalog.Release) bool { return have.Version == r.Version })
	if i < 0 {
		m.versions, m.from[r.Version] = append(m.versions, r), provider
		return
	}
	have := &m.versions[i]
	have.Source = cmp.Or(have.Source, r.Source)
	if have.Spelling == catalog.Text {
		have.Spelling = r.Spelling
	}
	if have.URL == "" && r.URL != "" { // the digest is of the file behind the URL
		have.URL, have.Digest, m.from[r.Version] = r.URL, r.Digest, provider
	}
}

func (m *merged) addIssue(issue catalog.Issue) {
	i := slices.IndexFunc(m.issues, func(have catalog.Issue) bool { return have.ID == issue.ID })
	if i < 0 {
		m.issues = append(m.issues, catalog.Issue{ID: issue.ID})
		i = len(m.issues) - 1
	}
	have := &m.issues[i]
	have.PowerOnHours = catalog.Sooner(have.PowerOnHours, issue.PowerOnHours)
	have.FixedIn, have.FixedInText = union(have.FixedIn, issue.FixedIn), union(have.FixedInText, issue.FixedInText)
	have.Has, have.InDoubt = union(have.Has, issue.Has), union(have.InDoubt, issue.InDoubt)
	have.MoreFixes, have.MoreHave = have.MoreFixes || issue.MoreFixes, have.MoreHave || issue.MoreHave
}

func union(have, more []string) []string {
	out := slices.Clone(have)
	for _, v := range more {
		if !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	return out
}

// place is where a running version stands to the newest one that can be read. Whether it is behind one of which it is not known whether it is
// for the device is not known.
func (m *merged) place(version string) v1alpha1.CatalogPosition {
	if len(m.versions) == 0 || !m.spelled.Orders(m.versions[0]) {
		return v1alpha1.PositionUnknown
	}
	at := catalog.Place(version, m.versions[0].Version, m.spelled)
	if at != catalog.Behind && slices.ContainsFunc(m.doubtful, func(r catalog.Release) bool {
		return m.spelled.Orders(r) && catalog.Place(version, r.Version, m.spelled) == catalog.Behind
	}) {
		at = catalog.Unknown
	}
	return v1alpha1.CatalogPosition(at)
}

// judge says how the devices of one component stand to what is offered. Paths are the upgrade paths of the sources by name: they say
// which of the versions that a source has are reached from another.
func judge(k kind, from offers, keep int, paths map[string]*match.Paths) v1alpha1.CatalogComponent {
	c := v1alpha1.CatalogComponent{Class: k.Class, Vendor: k.Vendor, Model: k.Model, PCIID: k.PCIID, SubsystemID: k.SubsystemID, BoardID: k.BoardID}
	o := from.merge(k.format)
	for _, r := range o.versions[:min(len(o.versions), keep)] {
		v := v1alpha1.CatalogVersion{Version: r.Version, Provider: o.from[r.Version], Source: r.Source, URL: r.URL}
		if r.Digest != (inventory.Digest{}) {
			v.Digest = v1alpha1.Digest(r.Digest.String())
		}
		c.Versions = append(c.Versions, v)
	}
	for version, those := range k.running {
		run := v1alpha1.CatalogRunning{Version: cmp.Or(version, v1alpha1.UnknownVersion), Devices: those.devices, Position: o.place(version)}
		has, known := o.issuesOf(version)
		if known {
			run.Issues = []string{}
		}
		for _, i := range has {
			run.Issues = append(run.Issues, i.ID)
			limit(&run, v1alpha1.CatalogLimit{Issue: i.ID, PowerOnHours: i.PowerOnHours})
		}
		if len(has) > 0 {
			run.FixedIn = catalog.NearestFix(has, o.reachable(version, paths), o.spelled)
		}
		from.complete(&run)
		slices.Sort(run.Issues)
		if run.Limit != nil {
			run.Limit.FirstFailureTime = those.after(run.Limit.PowerOnHours)
		}
		c.Running = append(c.Running, run)
	}
	slices.SortFunc(c.Running, byDevices)
	return c
}

// byDevices is the order in which running versions are listed: what most devices run comes first.
func byDevices(a, b v1alpha1.CatalogRunning) int {
	return cmp.Or(cmp.Compare(b.Devices, a.Devices), cmp.Compare(a.Version, b.Version))
}

// limit sets a limit that is lower than the one that the version has.
func limit(run *v1alpha1.CatalogRunning, l v1alpha1.CatalogLimit) {
	if l.PowerOnHours > 0 && (run.Limit == nil || l.PowerOnHours < run.Limit.PowerOnHours) {
		run.Limit = &l
	}
}

// issuesOf are the vulnerabilities that a running version has. Known says that they are all that there are.
func (m *merged) issuesOf(version string) (has []catalog.Issue, known bool) {
	known = m.tells && !m.cut && version != ""
	for _, i := range m.issues {
		affected, sure := i.Affects(version, m.spelled)
		if known = known && sure; affected {
			has = append(has, i)
		}
	}
	return has, known
}

// offered are all versions that are offered, as far as they were kept.
func (m *merged) offered() []catalog.Release {
	listed := func(r catalog.Release) bool {
		return slices.ContainsFunc(m.versions, func(have catalog.Release) bool { return have.Version == r.Version })
	}
	return append(slices.Clone(m.versions), slices.DeleteFunc(slices.Clone(m.fixing), listed)...)
}

// reachable are the newer versions that updates lead to from a running one: what each needs of the version before it is met, at once or by way
// of another one, and its source allows it.
func (m *merged) reachable(running string, paths map[string]*match.Paths) (out []catalog.Release) {
	newer := slices.DeleteFunc(m.offered(), func(r catalog.Release) bool {
		return !m.spelled.Orders(r) || m.spelled.Compare(r.Version, running) != inventory.Newer
	})
	catalog.Sort(newer, m.spelled)
	for _, to := range slices.Backward(newer) {
		met := func(from string) bool {
			return !slices.ContainsFunc(to.Needs, func(n catalog.Need) bool { return !n.Met(from, m.spelled) })
		}
		allowed := paths[to.Source].Reach(inventory.NormalizeVersion(to.Version), inventory.NormalizeVersion(running), inventory.FormatDotted)
		if allowed && (met(running) || slices.ContainsFunc(out, func(via catalog.Release) bool { return met(via.Version) })) {
			out = append(out, to)
		}
	}
	return out
}

// complete adds what the status said of a running version before. What fixes all its vulnerabilities is then the later one of two versions.
func (o offers) complete(run *v1alpha1.CatalogRunning) {
	at := slices.IndexFunc(o.before, func(b v1alpha1.CatalogRunning) bool { return b.Version == run.Version })
	if at < 0 {
		return
	}
	was := &o.before[at]
	known := len(run.Issues)
	if was.Position == v1alpha1.PositionUnknown && run.Position != v1alpha1.PositionBehind {
		run.Position = was.Position // what was in doubt is not listed
	}
	if run.Issues == nil && was.Issues != nil {
		run.Issues = []string{}
	}
	run.Issues = union(run.Issues, was.Issues)
	if was.Limit != nil {
		limit(run, *was.Limit)
	}
	switch {
	case len(run.Issues) == known: // nothing that was not known
	case known == 0, run.FixedIn != "" && catalog.Decimal.Compare(run.FixedIn, was.FixedIn) == inventory.Older:
		run.FixedIn = was.FixedIn
	case was.FixedIn == "":
		run.FixedIn = ""
	}
}

// count adds a component to the sums, before anything of it is cut. It returns of how many devices nobody says whether they have a known
// vulnerability.
func count(s *v1alpha1.FirmwareCatalogStatus, c *v1alpha1.CatalogComponent) (untold int) {
	for _, run := range c.Running {
		s.Devices.Total += run.Devices
		if run.Position == v1alpha1.PositionBehind {
			s.Devices.Behind += run.Devices
		}
		if run.Position == v1alpha1.PositionUnknown {
			s.Devices.Unknown += run.Devices
		}
		if run.Issues == nil {
			untold += int(run.Devices)
			continue
		}
		if s.Devices.Vulnerable == nil {
			s.Devices.Vulnerable = new(int32)
		}
		if len(run.Issues) > 0 {
			*s.Devices.Vulnerable += run.Devices
		}
	}
	return untold
}

// fit cuts what the lists have no room for, and then what makes the object too large: vulnerabilities, addresses, and components. What fails
// first is cut last.
func fit(s *v1alpha1.FirmwareCatalogStatus) (left status.CatalogLeftOut) {
	for i := range s.Components {
		c := &s.Components[i]
		slices.SortStableFunc(c.Running, func(a, b v1alpha1.CatalogRunning) int {
			return lifetime.Sooner(a.FirstFailure(), b.FirstFailure())
		})
		left.Versions += cut(&c.Running, maxRunning)
		slices.SortFunc(c.Running, byDevices)
	}
	slices.SortStableFunc(s.Components, func(a, b v1alpha1.CatalogComponent) int {
		return lifetime.Sooner(a.FirstFailure(), b.FirstFailure())
	})
	defer func() {
		slices.SortFunc(s.Components, func(a, b v1alpha1.CatalogComponent) int { return byClass(a.Key(), b.Key()) })
	}()
	left.Components = cut(&s.Components, maxComponents)
	for bound := maxIssues; bound > 0 && (bound == maxIssues || v1alpha1.SizeOf(s.Components) > maxStatus); bound /= 2 {
		for i := range s.Components {
			for j := range s.Components[i].Running {
				left.Issues += cut(&s.Components[i].Running[j].Issues, bound)
			}
		}
	}
	if v1alpha1.SizeOf(s.Components) > maxStatus {
		for i := range s.Components {
			for j := range s.Components[i].Versions {
				s.Components[i].Versions[j].URL = ""
			}
		}
	}
	for v1alpha1.SizeOf(s.Components) > maxStatus {
		left.Components += cut(&s.Components, len(s.Components)-1)
	}
	return left
}

// cut bounds a list and returns how many it left out.
func cut[E any](list *[]E, bound int) int {
	n := max(0, len(*list)-bound)
	*list = (*list)[: len(*list)-n : len(*list)-n]
	return n
}

// component is what makes devices of one kind.
type component = v1alpha1.ComponentKey

// kind is a component with its devices.
type kind struct {
	v1alpha1.ComponentKey
	// format is what the driver of every device declares.
	format inventory.VersionFormat
	// running are the devices of each version; "" stands for those that could not be read.
	running map[string]group
}

// group is the devices that run one version.
type group struct {
	devices int32
	// onSince is since when the one that was on the longest would be on without a break; zero where none says for how long it was.
	onSince time.Time
}

// after is when the first of them has been on for so many hours; nil where that is not known.
func (g group) after(hours int64) *metav1.Time {
	if g.onSince.IsZero() {
		return nil
	}
	return &metav1.Time{Time: g.onSince.Add(time.Duration(hours) * time.Hour)}
}

// classes in the order in which they are listed.
var classes = []v1alpha1.DeviceClass{v1alpha1.ClassBIOS, v1alpha1.ClassNIC, v1alpha1.ClassStorageController, v1alpha1.ClassDisk}

// tally groups devices by what an image is for.
type tally map[component]*kind

// add counts devices. One without a class was never read and is of no kind.
func (t tally) add(devices []v1alpha1.NodeDevice) {
	for i := range devices {
		s := &devices[i].Status
		if s.Class == "" {
			continue
		}
		c := s.Component()
		k := t[c]
		if k == nil {
			k = &kind{ComponentKey: c, format: inventory.FormatDotted, running: map[string]group{}}
			t[c] = k
		}
		running := s.Running()
		if running != "" && s.Firmware.VersionFormat != v1alpha1.VersionFormatDotted {
			k.format = inventory.FormatPlain
		}
		those := k.running[running]
		those.devices++
		if since, known := s.Reaches(0); known && (those.onSince.IsZero() || since.Before(those.onSince)) {
			those.onSince = since
		}
		k.running[running] = those
	}
}

// kinds are those of the devices that were added, in the order in which they are listed.
func (t tally) kinds() []kind {
	var out []kind
	for _, k := range t {
		out = append(out, *k)
	}
	slices.SortFunc(out, func(a, b kind) int { return byClass(a.ComponentKey, b.ComponentKey) })
	return out
}

// byClass is the order in which components are listed.
func byClass(a, b component) int {
	return cmp.Or(cmp.Compare(slices.Index(classes, a.Class), slices.Index(classes, b.Class)), cmp.Compare(a.PCIID, b.PCIID),
		cmp.Compare(a.Vendor, b.Vendor), cmp.Compare(a.Model, b.Model), cmp.Compare(a.BoardID, b.BoardID), cmp.Compare(a.SubsystemID, b.SubsystemID))
}

// query asks for the versions of all kinds.
func query(machine v1alpha1.Machine, kinds []kind) catalog.Query {
	q := catalog.Query{Vendor: machine.Vendor, Model: machine.Model}
	for _, k := range kinds {
		c := catalog.Component{Class: string(k.Class), Vendor: k.Vendor, Model: k.Model, SubsystemID: k.SubsystemID, BoardID: k.BoardID, Format: k.format}
		c.VendorID, c.DeviceID, _ = strings.Cut(k.PCIID, ":")
		q.Components = append(q.Components, c)
	}
	return q
}
