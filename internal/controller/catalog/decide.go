package catalog

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/match"
	"github.com/nodefirmware/node-firmware-operator/internal/status"
	"github.com/nodefirmware/node-firmware-operator/pkg/artifact"
	"github.com/nodefirmware/node-firmware-operator/pkg/catalog"
	"github.com/nodefirmware/node-firmware-operator/pkg/text"
)

const (
	// retryAfter is how long after a discovery that failed the providers that failed are asked again, unless the interval is shorter. Each
	// further failure doubles it, up to the interval.
	retryAfter = 15 * time.Minute
	// maxDoublings bounds how often retryAfter is doubled.
	maxDoublings = 10
	// maxMessage bounds the message about a provider, in bytes.
	maxMessage = 512
	// queueAgain is how long after a full queue the request is repeated.
	queueAgain = time.Minute
)

// decision about one machine model.
type decision struct {
	// create says that the model has nodes and no catalog.
	create bool
	// forget says that there is no catalog, so that nothing is known of it.
	forget bool
	// cancel says that a discovery that waits or runs is not wanted any more.
	cancel bool
	// request says that a discovery is due.
	request bool
	// kinds are the components of the model.
	kinds []kind
	// status of the catalog; its conditions are decided when it is known what became of the request.
	status v1alpha1.FirmwareCatalogStatus
	facts  status.CatalogFacts
	// moved says which tags were moved since the status was written; empty for none.
	moved string
	// next is how long until the catalog must be looked at again though nothing changes; 0 for never.
	next time.Duration
}

// decide is pure.
func decide(f facts) decision {
	c := f.catalog
	if c == nil {
		return decision{create: f.nodes > 0, forget: true}
	}
	if c.DeletionTimestamp != nil {
		return decision{forget: true}
	}
	if f.name == v1alpha1.DefaultCatalog {
		return decision{status: v1alpha1.FirmwareCatalogStatus{ObservedGeneration: c.Generation}, facts: status.CatalogFacts{Default: true}}
	}
	d := decision{kinds: f.devices.kinds()}
	d.status = d.found(f)
	d.facts.Paused = c.Spec.State == v1alpha1.CatalogPaused
	d.facts.Never = d.status.LastDiscoveryTime == nil
	for _, p := range d.status.Providers {
		if p.Reason != "" && d.facts.Reason == "" {
			d.facts.Reason, d.facts.Message = p.Reason, p.Name+": "+p.Message
		}
	}
	if d.facts.Paused {
		d.cancel = f.scheduled
		d.status.ObservedGeneration = c.Generation
		return d
	}
	d.cancel = f.scheduled && f.forSpec != f.revision()
	at := d.due(f)
	switch wait := at.Sub(f.now); {
	case f.scheduled && !d.cancel:
		d.facts.Scheduled = true
	case wait <= 0:
		d.request = true
	default:
		d.next = wait
		d.status.ObservedGeneration = c.Generation
	}
	return d
}

// due is when the next discovery is due; a time that is past for now.
func (d *decision) due(f facts) time.Time {
	spec, o := &f.catalog.Spec, f.outcome
	every := f.interval()
	known := f.catalog.Status.ObservedGeneration == f.catalog.Generation
	if o != nil {
		known = o.Spec == f.revision()
	}
	requested := spec.Requests.Discover != "" && spec.Requests.Discover != d.status.Requests.Discover
	switch {
	case !known, requested, d.unasked(f):
		return f.now
	case o != nil && failed(o):
		return o.Ended.Add(min(every, retryAfter<<min(o.Failures, maxDoublings)))
	case d.status.LastDiscoveryTime == nil:
		return f.now
	}
	return d.status.LastDiscoveryTime.Add(every)
}

// unasked reports whether there is a component that the providers were not asked for or, in a process that has asked for nothing yet, a provider
// that the status does not have or a running version of which it says nothing. The sources need not be asked.
func (d *decision) unasked(f facts) bool {
	return slices.ContainsFunc(f.providers(), func(p v1alpha1.CatalogProvider) bool {
		asked := f.outcome != nil || slices.ContainsFunc(f.catalog.Status.Providers, func(s v1alpha1.CatalogProviderStatus) bool { return s.Name == p.Name })
		return isAsked(p) && (!asked || slices.ContainsFunc(d.kinds, func(k kind) bool { return k.unasked(f) }))
	})
}

func (k *kind) unasked(f facts) bool {
	if f.outcome != nil {
		return !slices.Contains(f.outcome.Components, k.ComponentKey)
	}
	at := slices.IndexFunc(f.catalog.Status.Components, func(c v1alpha1.CatalogComponent) bool { return c.Key() == k.ComponentKey })
	if at < 0 {
		return true
	}
	for version := range k.running {
		if f.catalog.Status.Components[at].RunningVersion(version) == nil {
			return true
		}
	}
	return false
}

func failed(o *Outcome) bool {
	return slices.ContainsFunc(o.Answers, func(a Answered) bool { return a.Err != nil })
}

func isAsked(p v1alpha1.CatalogProvider) bool { return p.Type != v1alpha1.ProviderSources }

// found is the status without conditions: what the providers offered last, and how the devices stand to it.
func (d *decision) found(f facts) v1alpha1.FirmwareCatalogStatus {
	was := &f.catalog.Status
	out := v1alpha1.FirmwareCatalogStatus{
		ObservedGeneration: was.ObservedGeneration, Conditions: was.Conditions,
		LastDiscoveryTime: was.LastDiscoveryTime, Requests: was.Requests, Nodes: int32(f.nodes),
	}
	if o := f.outcome; o != nil {
		out.Requests.Discover = cmp.Or(o.Discover, was.Requests.Discover)
		if !failed(o) {
			out.LastDiscoveryTime = second(o.oldest())
		}
	}
	perKind := make([]offers, len(d.kinds))
	for _, p := range f.providers() {
		out.Providers = append(out.Providers, d.provider(f, &p, perKind))
	}
	paths := map[string]*match.Paths{}
	for i := range f.sources {
		paths[f.sources[i].Name] = match.SourcePaths(&f.sources[i])
	}
	for i, k := range d.kinds {
		c := judge(k, perKind[i], f.versions(), paths)
		d.facts.Untold += count(&out, &c)
		out.Components = append(out.Components, c)
	}
	d.facts.LeftOut = fit(&out)
	d.moved = moved(was.Components, out.Components)
	return out
}

// provider adds what one provider offers, and returns what it answered.
func (d *decision) provider(f facts, p *v1alpha1.CatalogProvider, into []offers) v1alpha1.CatalogProviderStatus {
	s := v1alpha1.CatalogProviderStatus{Name: p.Name}
	for _, old := range f.catalog.Status.Providers {
		if old.Name == p.Name {
			s = old
		}
	}
	var answer *Answered
	if f.outcome != nil {
		for i := range f.outcome.Answers {
			if f.outcome.Answers[i].Provider == p.Name {
				answer = &f.outcome.Answers[i]
			}
		}
	}
	if answer != nil {
		s.Reason, s.Message = "", ""
		if answer.Err != nil {
			s.Reason, s.Message = string(catalog.ReasonOf(answer.Err)), text.Clip(answer.Err.Error(), maxMessage)
		} else {
			s.LastDiscoveryTime = second(answer.At)
			if !answer.Signed.IsZero() {
				s.SignedTime = second(answer.Signed)
			}
		}
	}
	switch {
	case p.Type == v1alpha1.ProviderSources:
		s.Message = d.fromSources(f, p.Name, into)
	case answer != nil && (answer.Err == nil || answer.Offers != nil):
		for i, k := range d.kinds {
			if at := slices.Index(f.outcome.Components, k.ComponentKey); at >= 0 && at < len(answer.Offers) {
				into[i].add(p.Name, answer.Offers[at])
				s.Message = cmp.Or(s.Message, tooManyIssues(answer.Offers[at].IssuesLeftOut), doubts(&k, answer.Offers[at]))
			}
		}
	default:
		for i, k := range d.kinds {
			for j := range f.catalog.Status.Components {
				if c := &f.catalog.Status.Components[j]; c.Key() == k.ComponentKey {
					into[i].remember(p.Name, c)
				}
			}
		}
	}
	return s
}

// fromSources adds the images of the sources as they are now. An image that cannot be listed hides no other one; the message names it.
func (d *decision) fromSources(f facts, name string, into []offers) string {
	entries, message := entriesOf(f.sources, f.bad)
	collected, err := catalog.Collect(unending, entries, query(f.machine, d.kinds), max(f.versions(), len(entries))) // all, because their paths count
	if err != nil {
		return text.Clip(err.Error(), maxMessage)
	}
	for i := range d.kinds {
		into[i].add(name, collected.Offers[i])
	}
	return message
}

func second(t time.Time) *metav1.Time {
	out := metav1.NewTime(t.Truncate(time.Second))
	return &out
}

func tooManyIssues(leftOut int) string {
	if leftOut == 0 {
		return ""
	}
	return fmt.Sprintf("%d vulnerabilities of one component were ignored, because the provider lists too many.", leftOut)
}

// doubts says what was left out because it is not known whether it is for the devices of a component.
func doubts(k *kind, o catalog.Offer) string {
	if o.Doubts == 0 {
		return ""
	}
	r := o.Doubtful[0]
	return text.Clip(fmt.Sprintf("For %s it is not known whether %s for these devices, such as %s: %s. Newer versions of that kind leave the position unknown.",
		cmp.Or(k.PCIID, string(k.Class)), text.Quantity(o.Doubts, "release is", "releases are"), r.Version, r.Doubt), maxMessage)
}

// moved says which versions of a registry were another artifact before, by what the status said; empty where there is none. Nothing but an
// event comes of it, because what is in store is known by its digest.
func moved(was, is []v1alpha1.CatalogComponent) string {
	message, n := "", 0
	for i := range is {
		at := slices.IndexFunc(was, func(o v1alpha1.CatalogComponent) bool { return o.Key() == is[i].Key() })
		if at < 0 {
			continue
		}
		for _, v := range is[i].Versions {
			before := slices.IndexFunc(was[at].Versions, func(o v1alpha1.CatalogVersion) bool { return o.Version == v.Version })
			if before < 0 || !artifact.OCI(v.URL) {
				continue
			}
			repository, now, _ := strings.Cut(v.URL, "@")
			then, ok := strings.CutPrefix(was[at].Versions[before].URL, repository+"@")
			if !ok || then == now {
				continue
			}
			if n++; n == 1 {
				message = fmt.Sprintf("A tag moved: version %s in %s was %s and is now %s", v.Version, repository, then, now)
			}
		}
	}
	switch {
	case n == 0:
		return ""
	case n > 1:
		message += fmt.Sprintf(", and so are %d other versions", n-1)
	}
	return message + ". Nothing in store has changed. Find out who moved it before you use it."
}
