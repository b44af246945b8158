package match

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// update takes over what changed in a device. Where nothing did, it does no work.
func (ix *Index) update(d *device, o *v1alpha1.NodeDevice, added bool) {
	facts := DeviceOf(o)
	identity := added || !facts.equal(d.facts)
	current, configured := !d.current.isOf(o), !d.configured.isOf(o)
	seen := observe(o)
	findings := [2]finding{
		findingOf(o.Status.Conditions, v1alpha1.ConditionConflict), findingOf(o.Status.Conditions, v1alpha1.ConditionBlocked),
	}
	same := sameParameters(o.Status.Parameters, d.parameters)
	if !identity && !current && !configured && same && seen.equal(d.observed) && findings == d.findings {
		return
	}
	if identity || !same || seen.Running != d.observed.Running {
		ix.affectCompared(d.node)
	}
	compare := current || configured || findings != d.findings
	bonds := identity || seen.unread != d.observed.unread
	if identity {
		facts.spelled = facts.spelling()
		ix.affectNaming(d)
		d.facts = facts
		ix.affectNaming(d)
	}
	if current {
		next := AssignedTo(o)
		unlink(ix.byTemplate, templateOf(d.current), d)
		link(ix.byTemplate, templateOf(next), d)
		d.current = next
	}
	if configured {
		next := ConfiguredTo(o)
		unlink(ix.byTemplate, d.configured.by().ref(), d)
		link(ix.byTemplate, next.by().ref(), d)
		d.configured = next
	}
	d.observed, d.findings, d.parameters = seen, findings, o.Status.Parameters
	if identity {
		ix.rematch(d)
		ix.affectUnmatched(d.node)
	}
	turned := bonds && ix.bind(d)
	ix.refresh(d)
	if turned {
		ix.refreshOthers(d)
	}
	if compare && d.known {
		ix.affected.devices[d.name] = struct{}{}
	}
}

func (ix *Index) drop(d *device) {
	ix.tally(d, nil)
	ix.affectUnmatched(d.node)
	ix.affectCompared(d.node)
	ix.affectNaming(d)
	unlink(ix.byTemplate, templateOf(d.current), d)
	unlink(ix.byTemplate, d.configured.by().ref(), d)
	unlink(ix.bySource, d.source, d)
	delete(ix.devices, d.name)
	delete(d.node.devices, d.name)
	if ix.release(d) {
		ix.refreshOthers(d)
	}
	ix.forget(d.node)
	delete(ix.affected.devices, d.name)
}

// refresh decides for a device again and brings everything that follows from the decision up to date.
func (ix *Index) refresh(d *device) {
	old, wasKnown := d.decision, d.known
	d.decision, d.known = ix.decide(d)
	d.decision.UID = d.uid
	if source := d.decision.Firmware.source(); source != d.source {
		unlink(ix.bySource, d.source, d)
		link(ix.bySource, source, d)
		d.source = source
	}
	same := sameFindings(old, d.decision)
	if !same {
		for _, c := range d.tallied {
			ix.affected.templates[c.t.ref] = struct{}{}
		}
	}
	ix.tally(d, ix.contributions(d))
	if d.known && (d.decision.Action != Keep || !same || !wasKnown && d.findings != [2]finding{}) {
		ix.affected.devices[d.name] = struct{}{}
	}
}

// tally replaces what a device contributes to the templates' tallies.
func (ix *Index) tally(d *device, next []contribution) {
	if slices.Equal(d.tallied, next) {
		return
	}
	for _, c := range d.tallied {
		c.t.count(d, c.mark, -1)
		if !slices.Contains(next, c) {
			ix.affected.templates[c.t.ref] = struct{}{}
		}
	}
	for _, c := range next {
		c.t.count(d, c.mark, 1)
		if !slices.Contains(d.tallied, c) {
			ix.affected.templates[c.t.ref] = struct{}{}
		}
	}
	d.tallied = next
}

// affectUnmatched notes the templates that choose the node and match no device: which comes nearest may have changed.
func (ix *Index) affectUnmatched(n *node) {
	ix.affectChoosing(n, func(t *template) bool { return t.counts.Matched == 0 })
}

// affectCompared notes the templates that may name what the node has and others have not.
func (ix *Index) affectCompared(n *node) {
	ix.affectChoosing(n, func(t *template) bool { return t.compared })
}

// affectChoosing notes those of the templates that choose the node.
func (ix *Index) affectChoosing(n *node, is func(*template) bool) {
	for _, t := range ix.templates {
		if _, chosen := t.nodes[n]; chosen && is(t) {
			ix.affected.templates[t.ref] = struct{}{}
		}
	}
}

func every(*template) bool { return true }

func (ix *Index) refreshUsers(source string) {
	for d := range maps.Clone(ix.bySource[source]) {
		ix.refresh(d)
	}
}

// refreshTakers decides again for the devices that may get an image: those that a source offers it to, and those that have it assigned.
func (ix *Index) refreshTakers(image v1alpha1.Digest) {
	for name, s := range ix.sources {
		if slices.ContainsFunc(s.facts.stored, func(i v1alpha1.StoredImage) bool { return i.Digest == image }) {
			ix.refreshUsers(name)
		}
	}
	for _, d := range ix.devices {
		if slices.Contains(d.current.Desired().Images(), image) || d.decision.Configuration.digestOf() == image {
			ix.refresh(d)
		}
	}
}

func link[K comparable](by map[K]map[*device]struct{}, name K, d *device) {
	if name == *new(K) {
		return
	}
	if by[name] == nil {
		by[name] = map[*device]struct{}{}
	}
	by[name][d] = struct{}{}
}

func unlink[K comparable](by map[K]map[*device]struct{}, name K, d *device) {
	delete(by[name], d)
	if len(by[name]) == 0 {
		delete(by, name)
	}
}

func sameParameters(a, b []v1alpha1.ObservedParameter) bool {
	return slices.EqualFunc(a, b, func(x, y v1alpha1.ObservedParameter) bool {
		return x.Name == y.Name && ptr.Equal(x.Current, y.Current) && ptr.Equal(x.Next, y.Next) && ptr.Equal(x.Was, y.Was)
	})
}

// templateOf is the template that firmware comes from; zero where a pin or nothing assigns it.
func templateOf(f *Assigned) Ref {
	if by := f.by(); by.Kind == v1alpha1.OriginTemplate {
		return by.ref()
	}
	return Ref{}
}

func findingOf(conditions []metav1.Condition, kind string) finding {
	if c := meta.FindStatusCondition(conditions, kind); c != nil {
		return finding{c.Reason, c.Message}
	}
	return finding{}
}
