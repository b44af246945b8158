package catalog

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/pkg/catalog"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// Bounds of the lists of the status, as in the API.
const (
	maxComponents  = 64
	maxRunning     = 16
	maxIssues      = 64
	maxRunIssues   = 16
	maxNamed       = 8
	maxMended      = 8
	maxAffected    = 16
	unknownVersion = "unknown"
	// maxStatus bounds the status in bytes of JSON. With the spec, conditions and what the API server notes of its fields the object
	// stays under 256 KiB.
	maxStatus = 112 << 10
)

// unending is for what is in memory.
var unending = context.Background()

// offers is what the providers offer for one component, in the order of the providers.
type offers []offered

type offered struct {
	provider string
	catalog.Offer
}

func (o *offers) add(provider string, from catalog.Offer) { *o = append(*o, offered{provider, from}) }

// merged is what all providers together offer for one component.
type merged struct {
	// ordered says that versions are ordered, and listed newest first.
	ordered  bool
	versions []catalog.Release
	// providers of each version.
	providers map[string][]string
	issues    []catalog.Issue
	// leftOut is how many vulnerabilities one provider left out at most; whether others left out the same ones is not known.
	leftOut int
}

// merge puts the offers together. What an earlier provider says about a version stays; what it left open is added.
func (o offers) merge(driverDeclares inventory.VersionFormat) merged {
	var order catalog.Order
	for _, from := range o {
		order.Add(from.Order)
	}
	m := merged{ordered: order.Holds(driverDeclares), providers: map[string][]string{}}
	for _, from := range o {
		for _, r := range from.Versions(m.ordered) {
			m.addVersion(from.provider, r)
		}
		for _, issue := range from.Issues {
			m.addIssue(issue)
		}
		m.leftOut = max(m.leftOut, from.IssuesLeftOut)
	}
	if m.ordered {
		catalog.Sort(m.versions)
	}
	return m
}

func (m *merged) addVersion(provider string, r catalog.Release) {
	if i := slices.IndexFunc(m.versions, func(have catalog.Release) bool { return have.Version == r.Version }); i >= 0 {
		have := &m.versions[i]
		have.Source, have.Urgency = cmp.Or(have.Source, r.Source), cmp.Or(have.Urgency, r.Urgency)
		if have.URL == "" && r.URL != "" { // the digest is of the file behind the URL
			have.URL, have.SHA256, have.Tag = r.URL, r.SHA256, r.Tag
		}
		if have.Released.IsZero() {
			have.Released = r.Released
		}
	} else {
		m.versions = append(m.versions, r)
	}
	if names := m.providers[r.Version]; len(names) < maxNamed && !slices.Contains(names, provider) {
		m.providers[r.Version] = append(names, provider)
	}
}

func (m *merged) addIssue(issue catalog.Issue) {
	i := slices.IndexFunc(m.issues, func(have catalog.Issue) bool { return have.ID == issue.ID })
	if i < 0 {
		m.issues = append(m.issues, catalog.Issue{ID: issue.ID})
		i = len(m.issues) - 1
	}
	m.issues[i].MendedIn = union(m.issues[i].MendedIn, issue.MendedIn, maxMended)
	m.issues[i].Has = union(m.issues[i].Has, issue.Has, maxAffected)
}

func union(have, more []string, bound int) []string {
	out := slices.Clone(have)
	for _, v := range more {
		if !slices.Contains(out, v) && len(out) < bound {
			out = append(out, v)
		}
	}
	return out
}

// known is what a provider offered for a component by the status, until it answers again. The status does not say which provider
// named a vulnerability, so each of them keeps all.
func known(c *v1alpha1.CatalogComponent, provider string) catalog.Offer {
	var out catalog.Offer
	for _, v := range c.Versions {
		if !slices.Contains(v.Providers, provider) {
			continue
		}
		r := catalog.Release{Version: v.Version, Urgency: v.Urgency, Tag: v.Tag, URL: v.URL, SHA256: v.SHA256}
		if v.Released != nil {
			r.Released = v.Released.Time
		}
		out.First = append(out.First, r)
	}
	if out.Newest = out.First; len(out.First) > 0 {
		dotted := c.VersionFormat == v1alpha1.VersionFormatDotted
		out.Order = catalog.Order{Declared: dotted, Contradicted: !dotted}
	}
	for _, i := range c.Issues {
		out.Issues = append(out.Issues, catalog.Issue{ID: i.ID, MendedIn: i.MendedIn, Has: i.Affects})
	}
	out.IssuesLeftOut = int(c.IssuesNotListed)
	return out
}

// judge says how the devices of one component stand to what is offered.
func judge(k kind, from offers, keep int) v1alpha1.CatalogComponent {
	c := v1alpha1.CatalogComponent{Class: k.class, Manufacturer: k.manufacturer, Name: k.name, PCIID: k.pciID, BoardID: k.boardID}
	o := from.merge(k.format)
	if o.ordered {
		c.VersionFormat = v1alpha1.VersionFormatDotted
		if len(o.versions) > 0 {
			c.Newest = o.versions[0].Version
		}
	}
	for _, r := range o.versions[:min(len(o.versions), keep)] {
		v := v1alpha1.CatalogVersion{Version: r.Version, Providers: o.providers[r.Version], Source: r.Source, Urgency: r.Urgency, Tag: r.Tag, URL: r.URL, SHA256: r.SHA256}
		if !r.Released.IsZero() {
			at := metav1.NewTime(r.Released)
			v.Released = &at
		}
		c.Versions = append(c.Versions, v)
	}
	affected, mended := map[string]int32{}, map[string]bool{}
	for _, i := range o.issues {
		mended[i.ID] = i.MendedBy(c.Newest, o.ordered)
	}
	for version, devices := range k.running {
		run := v1alpha1.CatalogRunning{Version: cmp.Or(version, unknownVersion), Devices: devices,
			Position: v1alpha1.CatalogPosition(catalog.Place(version, c.Newest, o.ordered))}
		for _, i := range o.issues {
			if i.Affects(version, o.ordered) {
				affected[i.ID] += devices
				run.Issues = append(run.Issues, i.ID)
			}
		}
		slices.Sort(run.Issues)
		run.Issues, run.IssuesNotListed = cut(run.Issues, maxRunIssues)
		for _, id := range run.Issues {
			if mended[id] {
				run.MendedByNewest = append(run.MendedByNewest, id)
			}
		}
		if run.Position == v1alpha1.PositionBehind || len(run.Issues) > 0 {
			run.NodeDevices = k.names[version]
		}
		c.Running = append(c.Running, run)
	}
	slices.SortFunc(c.Running, func(a, b v1alpha1.CatalogRunning) int {
		return cmp.Or(cmp.Compare(b.Devices, a.Devices), cmp.Compare(a.Version, b.Version))
	})
	for _, i := range o.issues {
		c.Issues = append(c.Issues, v1alpha1.CatalogIssue{ID: i.ID, MendedIn: i.MendedIn, Affects: i.Has, Devices: affected[i.ID]})
	}
	slices.SortFunc(c.Issues, func(a, b v1alpha1.CatalogIssue) int {
		return cmp.Or(cmp.Compare(b.Devices, a.Devices), cmp.Compare(b.ID, a.ID))
	})
	c.Issues, c.IssuesNotListed = cut(c.Issues, maxIssues)
	c.IssuesNotListed += int32(o.leftOut)
	return c
}

// count adds a component to the sums, before anything of it is cut.
func count(s *v1alpha1.FirmwareCatalogStatus, c *v1alpha1.CatalogComponent) {
	for _, run := range c.Running {
		s.Devices += run.Devices
		if run.Position == v1alpha1.PositionBehind {
			s.DevicesBehind += run.Devices
		}
		if run.Position == v1alpha1.PositionUnknown {
			s.DevicesUnknown += run.Devices
		}
		if len(run.Issues) > 0 {
			s.DevicesVulnerable += run.Devices
		}
	}
	listed := c.Running[:min(len(c.Running), maxRunning)]
	for _, run := range c.Running[len(listed):] {
		c.RunningNotListed += run.Devices
	}
	c.Running = listed
}

// fit cuts what makes the object too large: names of devices first, then details of vulnerabilities, addresses, and components.
func fit(s *v1alpha1.FirmwareCatalogStatus) {
	all := s.Components
	s.Components = all[:min(len(all), maxComponents)]
	if size(s.Components) > maxStatus {
		for i := range s.Components {
			for j := range s.Components[i].Running {
				s.Components[i].Running[j].NodeDevices = nil
			}
		}
	}
	for bound := 32; size(s.Components) > maxStatus && bound > 0; bound /= 2 {
		for i := range s.Components {
			c := &s.Components[i]
			var n int32
			c.Issues, n = cut(c.Issues, bound)
			c.IssuesNotListed += n
			for j := range c.Running {
				r := &c.Running[j]
				r.Issues, n = cut(r.Issues, min(bound, maxRunIssues))
				r.IssuesNotListed += n
				r.MendedByNewest = slices.DeleteFunc(r.MendedByNewest, func(id string) bool { return !slices.Contains(r.Issues, id) })
			}
		}
	}
	if size(s.Components) > maxStatus {
		for i := range s.Components {
			for j := range s.Components[i].Versions {
				s.Components[i].Versions[j].URL = ""
			}
		}
	}
	for size(s.Components) > maxStatus {
		s.Components = s.Components[:len(s.Components)-1]
	}
	s.ComponentsNotListed = int32(len(all) - len(s.Components))
}

func cut[E any](list []E, bound int) ([]E, int32) {
	if len(list) <= bound {
		return list, 0
	}
	return list[:bound:bound], int32(len(list) - bound)
}

func size(of any) int {
	out, _ := json.Marshal(of) // it holds nothing that cannot be written
	return len(out)
}
