package quarantine

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
)

// Bounds of the API: the entries that a FirmwareSource lists, and the reports, lifted jobs and policies of an entry.
const (
	MaxListed   = 128
	maxReports  = 16
	maxLifted   = 256
	maxPolicies = 64
)

// Facts are what the set is derived from.
type Facts struct {
	Jobs    []*v1alpha1.FirmwareJob
	Sources []v1alpha1.FirmwareSource
	// Pool is the RolloutPolicy of a node. It is asked for the nodes of reports that no source lists yet.
	Pool func(node string) string
	// Now is the clock of the operator.
	Now time.Time
}

// Set holds what was reported about the images of the fleet, one entry for each digest and model. The zero Set is empty.
type Set struct {
	images map[v1alpha1.Digest]map[string]v1alpha1.QuarantinedImage
}

// Compute derives the set from what jobs report and what sources remember. A believed report counts at once, even while the
// job is still restoring the old firmware. What a source remembers counts even if its job is gone.
//
// One node quarantines an image for the nodes of its RolloutPolicy only; a report of a second node, or a person, extends that
// to the fleet. Where only the network was missed, one node quarantines nothing, and two quarantine for their policies.
//
// A person lifts what was reported up to then, and what is reported later counts again. Where several sources hold an image,
// any one of them lifts or confirms it: it is one image.
func Compute(f Facts) Set {
	s := Set{images: map[v1alpha1.Digest]map[string]v1alpha1.QuarantinedImage{}}
	reports := map[key][]report{}
	for _, j := range inOrder(f.Jobs) {
		for _, r := range believed(j) {
			reports[r.key] = append(reports[r.key], r)
		}
	}
	remembered := map[key][]memory{}
	for i := range f.Sources {
		for _, e := range f.Sources[i].Status.Quarantine {
			k := key{e.Digest, e.Model}
			remembered[k] = append(remembered[k], memory{e, &f.Sources[i]})
			if _, ok := reports[k]; !ok {
				reports[k] = nil
			}
		}
	}
	for k, fresh := range reports {
		if e, ok := entry(k, remembered[k], fresh, f); ok {
			if s.images[k.digest] == nil {
				s.images[k.digest] = map[string]v1alpha1.QuarantinedImage{}
			}
			s.images[k.digest][k.model] = e
		}
	}
	return s
}

func inOrder(jobs []*v1alpha1.FirmwareJob) []*v1alpha1.FirmwareJob {
	return slices.SortedFunc(slices.Values(jobs), func(a, b *v1alpha1.FirmwareJob) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
}

// memory is an entry that a source lists.
type memory struct {
	v1alpha1.QuarantinedImage
	source *v1alpha1.FirmwareSource
}

// byWorth orders what several sources list of one image and model: the oldest first, and of the same age the one that says most,
// because a source without room leaves out what another one lists.
func byWorth(a, b memory) int {
	return cmp.Or(byAge(a.QuarantinedImage, b.QuarantinedImage), cmp.Compare(len(b.Message), len(a.Message)),
		cmp.Compare(len(b.Reports), len(a.Reports)), strings.Compare(a.source.Name, b.source.Name))
}

// told are the reports of the entry; one that an earlier version wrote names its job alone.
func (m memory) told() []v1alpha1.QuarantineReport {
	if m.Scope == "" && len(m.Reports) == 0 {
		return []v1alpha1.QuarantineReport{{Job: m.Job, NodeName: m.NodeName}}
	}
	return m.Reports
}

// entry is what holds for one image and model now. ok is false where there is nothing to remember.
func entry(k key, old []memory, fresh []report, f Facts) (e v1alpha1.QuarantinedImage, ok bool) {
	lifted := map[string]bool{}
	for _, m := range old {
		for _, job := range m.Lifted {
			lifted[job] = true
		}
		if m.Scope == v1alpha1.QuarantineLifted || !lift(m.source).Clears(m.Lift) {
			continue
		}
		for _, r := range m.told() {
			lifted[r.Job] = true
		}
		if len(m.Reports) >= maxReports || m.ReportsNotListed > 0 { // there may have been more, and the person saw no more than the list holds
			for _, r := range fresh {
				lifted[r.job] = true
			}
			for _, other := range old { // a source with more room lists them
				for _, r := range other.told() {
					lifted[r.Job] = true
				}
			}
		}
	}
	e = v1alpha1.QuarantinedImage{Digest: k.digest, Model: k.model}
	fleet := false
	var all []v1alpha1.QuarantineReport // more than the entry may list
	// needed are the jobs that could bring back what was lifted: those that exist, and those that a source still tells of. A
	// source forgets a lift only when every source has taken it over, because one of them may not be written in this pass.
	needed := map[string]bool{}
	for _, m := range slices.SortedFunc(slices.Values(old), byWorth) {
		if m.Scope != v1alpha1.QuarantineLifted {
			for _, r := range m.told() {
				needed[r.Job] = true
			}
		}
		told := slices.DeleteFunc(slices.Clone(m.told()), func(r v1alpha1.QuarantineReport) bool { return lifted[r.Job] })
		if m.Scope == v1alpha1.QuarantineLifted || len(told) == 0 {
			if e.Job == "" {
				e.Version, e.Since, e.NodeName, e.Job, e.Message = m.Version, m.Since, m.NodeName, m.Job, m.Message
			}
			continue
		}
		if len(all) == 0 {
			e.Version, e.Since, e.NodeName, e.Job, e.Message = m.Version, m.Since, m.NodeName, m.Job, m.Message
		}
		for _, r := range told {
			if !slices.ContainsFunc(all, func(o v1alpha1.QuarantineReport) bool { return o.Job == r.Job }) {
				all = append(all, r)
			}
		}
		fleet = fleet || m.Scope == v1alpha1.QuarantineFleet || m.Scope == "" || plan.Clearance(m.source.Spec.ConfirmQuarantine).Clears(m.Confirm)
	}
	for _, r := range fresh {
		needed[r.job] = true
		if lifted[r.job] {
			continue
		}
		if len(all) == 0 {
			e.Version, e.Since, e.NodeName, e.Job, e.Message = r.version, metav1.NewTime(f.Now.Truncate(time.Second)), r.node, r.job, r.message
		}
		at := slices.IndexFunc(all, func(o v1alpha1.QuarantineReport) bool { return o.Job == r.job })
		switch {
		case at < 0:
			all = append(all, v1alpha1.QuarantineReport{Job: r.job, NodeName: r.node, Policy: f.Pool(r.node), Evidence: r.evidence})
		case r.evidence != v1alpha1.EvidenceNetwork: // the network came back with the old firmware
			all[at].Evidence = r.evidence
		}
	}
	for _, job := range slices.Sorted(maps.Keys(lifted)) {
		if needed[job] && len(e.Lifted) < maxLifted {
			e.Lifted = append(e.Lifted, job)
		}
	}
	for _, r := range all {
		e.Reports = add(e.Reports, r)
	}
	e.Scope, e.Policies = scope(all, fleet)
	return e, len(e.Reports)+len(e.Lifted) > 0
}

// add keeps as many reports as fit, as they came. Where one has to go, it is the last that another one makes superfluous, or
// else the last that only missed the network, or else the new one. What went does not come back in the next pass.
func add(reports []v1alpha1.QuarantineReport, r v1alpha1.QuarantineReport) []v1alpha1.QuarantineReport {
	reports = append(reports, r)
	if len(reports) <= maxReports {
		return reports
	}
	out := superfluous(reports)
	for i := len(reports) - 1; out < 0 && i >= 0; i-- {
		if reports[i].Evidence == v1alpha1.EvidenceNetwork {
			out = i
		}
	}
	if out < 0 {
		out = len(reports) - 1
	}
	return slices.Delete(reports, out, out+1)
}

// superfluous is the last report beside which another one of the same node and policy knows as much, or -1.
func superfluous(reports []v1alpha1.QuarantineReport) int {
	for i, r := range slices.Backward(reports) {
		for j, o := range reports {
			same := i != j && o.NodeName == r.NodeName && o.Policy == r.Policy
			if same && knowsAsMuch(o.Evidence, r.Evidence) {
				return i
			}
		}
	}
	return -1
}

func knowsAsMuch(a, b v1alpha1.Evidence) bool {
	return a != v1alpha1.EvidenceNetwork || b == v1alpha1.EvidenceNetwork
}

// scope decides on which nodes the image is not flashed, from who reported it.
func scope(reports []v1alpha1.QuarantineReport, fleet bool) (v1alpha1.QuarantineScope, []string) {
	nodes, sure, policies := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, r := range reports {
		nodes[r.NodeName] = true
		if r.Evidence != v1alpha1.EvidenceNetwork {
			sure[r.NodeName] = true
		}
		if r.Policy != "" {
			policies[r.Policy] = true
		}
	}
	of := slices.Sorted(maps.Keys(policies))
	switch {
	case len(reports) == 0:
		return v1alpha1.QuarantineLifted, nil
	case fleet || len(nodes) > 1 && len(sure) > 0:
		return v1alpha1.QuarantineFleet, of[:min(len(of), maxPolicies)]
	case len(sure) > 0 || len(nodes) > 1:
		return v1alpha1.QuarantinePolicies, of[:min(len(of), maxPolicies)]
	}
	return v1alpha1.QuarantineReported, of[:min(len(of), maxPolicies)]
}

// lift is the request to lift of a source; empty where there is none.
func lift(src *v1alpha1.FirmwareSource) plan.Clearance {
	if at := src.Spec.LiftQuarantineRequestedAt; src.Spec.LiftQuarantine == "" && at != nil {
		return plan.Clearance(at.UTC().Format(time.RFC3339))
	}
	return plan.Clearance(src.Spec.LiftQuarantine)
}

// Requests are the requests of a source that a change of what is quarantined can follow from.
func Requests(src *v1alpha1.FirmwareSource) [2]string {
	return [2]string{string(lift(src)), src.Spec.ConfirmQuarantine}
}

// InForce reports whether the entry keeps the image from a node of that RolloutPolicy, or from any node where pool is empty.
func InForce(e v1alpha1.QuarantinedImage, pool string) bool {
	switch e.Scope {
	case v1alpha1.QuarantineFleet, "":
		return true
	case v1alpha1.QuarantinePolicies:
		return pool == "" || slices.Contains(e.Policies, pool)
	}
	return false
}

// Empty reports whether no image is quarantined.
func (s Set) Empty() bool {
	for d := range s.images {
		if s.Holds(d) {
			return false
		}
	}
	return true
}

// Holds reports whether the image is quarantined for any model on any node at all.
func (s Set) Holds(d v1alpha1.Digest) bool {
	for _, e := range s.images[d] {
		if InForce(e, "") {
			return true
		}
	}
	return false
}

// Blocks reports whether the image must not be flashed to a device of that model on a node of that RolloutPolicy, and why. The
// model is as v1alpha1.ModelKey gives it. An unknown model, "" or v1alpha1.AnyModel, may be the one that failed, so every
// entry of the image blocks it; an entry for v1alpha1.AnyModel blocks every model.
func (s Set) Blocks(d v1alpha1.Digest, model, pool string) (out v1alpha1.QuarantinedImage, found bool) {
	for m, e := range s.images[d] {
		concerns := m == model || m == v1alpha1.AnyModel || model == "" || model == v1alpha1.AnyModel
		if concerns && InForce(e, pool) && (!found || byAge(e, out) < 0) {
			out, found = e, true
		}
	}
	return out, found
}

// ModelOf is the model of a device in the form that Blocks takes.
func ModelOf(d *v1alpha1.NodeDevice) string {
	return d.Status.ModelKey()
}

func byAge(a, b v1alpha1.QuarantinedImage) int {
	return cmp.Or(a.Since.Compare(b.Since.Time), strings.Compare(a.Job, b.Job), strings.Compare(a.Model, b.Model))
}
