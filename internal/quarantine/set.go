package quarantine

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// Facts are what the set is derived from.
type Facts struct {
	// Jobs are those that report bad images, at least.
	Jobs        []*v1alpha1.FirmwareJob
	Quarantines []v1alpha1.FirmwareQuarantine
	// Pool is the RolloutPolicy of a node. It is asked for the nodes of reports that no quarantine lists yet.
	Pool func(node string) string
	// Job is a job that reports nothing bad, nil where there is none of that name. It is asked for the jobs of reports that count, to
	// see which of them were withdrawn. Nil where that does not matter.
	Job func(name string) *v1alpha1.FirmwareJob
	// Now is the clock of the operator.
	Now time.Time
}

// Set holds a FirmwareQuarantine for each image and model of which a job or a person said anything, with the status that follows, but
// for its conditions. The zero Set is empty.
type Set struct {
	images map[v1alpha1.Digest]map[string]v1alpha1.FirmwareQuarantine
}

// Compute derives the set from what jobs report and FirmwareQuarantines remember. A believed report counts at once, even while the
// job is still restoring the old firmware. What a quarantine remembers counts even if its job is gone.
//
// One node quarantines an image for the nodes of its RolloutPolicy only; a report of a second node, or a person, extends that
// to the fleet. Where only the network was missed, or nothing named the device, one node quarantines nothing, and two quarantine for
// their policies.
//
// A person lifts what was reported up to then, and what is reported later counts again.
func Compute(f Facts) Set {
	s := Set{images: map[v1alpha1.Digest]map[string]v1alpha1.FirmwareQuarantine{}}
	add := func(k key, old *v1alpha1.FirmwareQuarantine, fresh []report) {
		if s.images[k.digest] == nil {
			s.images[k.digest] = map[string]v1alpha1.FirmwareQuarantine{}
		}
		s.images[k.digest][k.model] = follow(k, old, fresh, f)
	}
	reports := map[key][]report{}
	for _, j := range inOrder(f.Jobs) {
		for _, r := range believed(j) {
			reports[r.key] = append(reports[r.key], r)
		}
	}
	for i := range f.Quarantines {
		q := &f.Quarantines[i]
		k := key{q.Spec.Digest, q.Spec.Model}
		add(k, q, reports[k])
		delete(reports, k)
	}
	for k, fresh := range reports {
		add(k, nil, fresh)
	}
	return s
}

func inOrder(jobs []*v1alpha1.FirmwareJob) []*v1alpha1.FirmwareJob {
	return slices.SortedFunc(slices.Values(jobs), func(a, b *v1alpha1.FirmwareJob) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
}

// follow is what holds for one image and model now: the quarantine as it was, nil for none, after what jobs report.
func follow(k key, old *v1alpha1.FirmwareQuarantine, fresh []report, f Facts) v1alpha1.FirmwareQuarantine {
	q := v1alpha1.FirmwareQuarantine{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.QuarantineName(k.digest, k.model)},
		Spec:       v1alpha1.FirmwareQuarantineSpec{Digest: k.digest, Model: k.model, State: v1alpha1.QuarantineActive},
	}
	if old != nil {
		q = *old
		q.Status.Reports = slices.Clone(old.Status.Reports)
	}
	lift(&q)
	withdraw(&q, fresh, f.Job)
	all := q.Status.Reports // more than the quarantine may list
	for _, r := range fresh {
		at := slices.IndexFunc(all, func(o v1alpha1.QuarantineReport) bool { return o.Job == r.job })
		if at >= 0 && r.succeeds(all[at]) && !isCovered(q.Status.Reports, r) {
			all = slices.Delete(slices.Clone(all), at, at+1)
			at = -1
		}
		switch {
		case at < 0 && isCovered(q.Status.Reports, r):
		case at < 0:
			told := metav1.NewTime(f.Now.Truncate(time.Second))
			if told.Before(&r.created) { // its clock is behind, and a report is told from one of an earlier job by its time
				told = r.created
			}
			all = append(all, v1alpha1.QuarantineReport{
				Job: r.job, Node: r.node, Policy: f.Pool(r.node), Evidence: r.evidence, Time: told, Message: r.message, State: v1alpha1.ReportCounted,
			})
			q.Status.Version = cmp.Or(q.Status.Version, r.version)
		case all[at].State == v1alpha1.ReportLifted:
		default:
			all[at].State = v1alpha1.ReportCounted
			if isSure(r.evidence) || r.ended { // what was wrong is mended with the old firmware, or was not the device's
				all[at].Evidence = r.evidence
			}
		}
	}
	q.Status.Scope = scope(q.Spec.State, all)
	q.Status.Reports = nil
	for _, r := range all {
		q.Status.Reports = add(q.Status.Reports, r)
	}
	return q
}

// lift makes what is reported so far count no more where a person asked for that since the quarantine was looked at last.
func lift(q *v1alpha1.FirmwareQuarantine) {
	if q.Spec.State != v1alpha1.QuarantineLifted || q.Status.ObservedGeneration == q.Generation {
		return
	}
	for i := range q.Status.Reports {
		q.Status.Reports[i].State = v1alpha1.ReportLifted
	}
}

// withdraw takes the reports back that their jobs took back: jobs that failed and blame the image no more. One that was created after
// its report is another job of the same name.
func withdraw(q *v1alpha1.FirmwareQuarantine, fresh []report, job func(name string) *v1alpha1.FirmwareJob) {
	for i := range q.Status.Reports {
		r := &q.Status.Reports[i]
		if job == nil || r.State != v1alpha1.ReportCounted || slices.ContainsFunc(fresh, func(o report) bool { return o.job == r.Job }) {
			continue
		}
		if j := job(r.Job); j != nil && j.Failed() && !accuses(j, key{q.Spec.Digest, q.Spec.Model}) && !j.CreationTimestamp.After(r.Time.Time) {
			r.State = v1alpha1.ReportWithdrawn
		}
	}
}

// isCovered reports whether a lift includes a report that the quarantine has no room for. A full list tells not which jobs it leaves out,
// so that the lift is of every job that there was when the last of the lifted reports came.
func isCovered(listed []v1alpha1.QuarantineReport, r report) bool {
	if len(listed) < maxReports {
		return false
	}
	return slices.ContainsFunc(listed, func(o v1alpha1.QuarantineReport) bool {
		return o.State == v1alpha1.ReportLifted && !r.created.After(o.Time.Time)
	})
}

// add keeps as many reports as fit, as they came. Where one has to go, it is one beside which another one of the same node and policy
// knows as much, or else the oldest that does not count, or else one of a node that is listed twice, or else the new one: by then 16
// nodes are listed, which are the fleet. What went does not come back in the next pass.
func add(reports []v1alpha1.QuarantineReport, r v1alpha1.QuarantineReport) []v1alpha1.QuarantineReport {
	reports = append(reports, r)
	if len(reports) <= maxReports {
		return reports
	}
	out := cmp.Or(superfluous(reports)+1, idle(reports)+1, repeated(reports)+1, len(reports)) - 1
	return slices.Delete(reports, out, out+1)
}

// superfluous is the last report that counts beside which another one of the same node and policy knows as much, or -1.
func superfluous(reports []v1alpha1.QuarantineReport) int {
	for i, r := range slices.Backward(reports) {
		for j, o := range reports {
			same := i != j && o.Node == r.Node && o.Policy == r.Policy && counts(o) && counts(r)
			if same && knowsAsMuch(o.Evidence, r.Evidence) {
				return i
			}
		}
	}
	return -1
}

// idle is the oldest report that does not count, or -1.
func idle(reports []v1alpha1.QuarantineReport) int {
	out := -1
	for i, r := range reports {
		if !counts(r) && (out < 0 || r.Time.Before(&reports[out].Time)) {
			out = i
		}
	}
	return out
}

// repeated is the last report of a node that others are of too, one that is not sure before any other, or -1.
func repeated(reports []v1alpha1.QuarantineReport) int {
	out := -1
	for i, r := range slices.Backward(reports) {
		for j, o := range reports {
			switch {
			case i == j || o.Node != r.Node:
			case !isSure(r.Evidence):
				return i
			case out < 0:
				out = i
			}
		}
	}
	return out
}

func counts(r v1alpha1.QuarantineReport) bool { return r.State == v1alpha1.ReportCounted }

func knowsAsMuch(a, b v1alpha1.Evidence) bool { return isSure(a) || !isSure(b) }

// isSure reports whether a report of one node is enough.
func isSure(e v1alpha1.Evidence) bool {
	return e != v1alpha1.EvidenceNetwork && e != v1alpha1.EvidenceNode
}

// scope decides on which nodes the image is not flashed, from who reported it and what a person decided. A node counts once, however
// many of its jobs report the image.
func scope(state v1alpha1.QuarantineState, reports []v1alpha1.QuarantineReport) v1alpha1.QuarantineScope {
	nodes, sure := map[string]bool{}, map[string]bool{}
	for _, r := range reports {
		if !counts(r) {
			continue
		}
		nodes[r.Node] = true
		if isSure(r.Evidence) {
			sure[r.Node] = true
		}
	}
	switch {
	case state == v1alpha1.QuarantineConfirmed || len(nodes) > 1 && len(sure) > 0 || len(nodes) >= maxReports:
		return v1alpha1.QuarantineFleet
	case len(sure) > 0 || len(nodes) > 1:
		return v1alpha1.QuarantinePolicies
	}
	return v1alpha1.QuarantineNone
}

// Policies are the RolloutPolicies of the reports that count, in order.
func Policies(q *v1alpha1.FirmwareQuarantine) []string {
	policies := map[string]bool{}
	for _, r := range q.Status.Reports {
		if counts(r) && r.Policy != "" {
			policies[r.Policy] = true
		}
	}
	return slices.Sorted(maps.Keys(policies))
}

// First is the first report that counts; nil where none does.
func First(q *v1alpha1.FirmwareQuarantine) *v1alpha1.QuarantineReport {
	if at := slices.IndexFunc(q.Status.Reports, counts); at >= 0 {
		return &q.Status.Reports[at]
	}
	return nil
}

// InForce reports whether the image is kept from a node of that RolloutPolicy, or from any node where pool is empty.
func InForce(q *v1alpha1.FirmwareQuarantine, pool string) bool {
	switch q.Status.Scope {
	case v1alpha1.QuarantineFleet:
		return true
	case v1alpha1.QuarantinePolicies:
		return pool == "" || slices.Contains(Policies(q), pool)
	case v1alpha1.QuarantineNone:
	}
	return false
}

// All are the quarantines of the set, in order of name.
func (s Set) All() []v1alpha1.FirmwareQuarantine {
	var out []v1alpha1.FirmwareQuarantine
	for _, models := range s.images {
		for _, q := range models {
			out = append(out, q)
		}
	}
	slices.SortFunc(out, func(a, b v1alpha1.FirmwareQuarantine) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// Holds reports whether the image is quarantined for any model on any node at all.
func (s Set) Holds(d v1alpha1.Digest) bool {
	return s.any(d, func(q *v1alpha1.FirmwareQuarantine) bool { return InForce(q, "") })
}

// HoldsEverywhere reports whether the image is quarantined for any model on every node.
func (s Set) HoldsEverywhere(d v1alpha1.Digest) bool {
	return s.any(d, func(q *v1alpha1.FirmwareQuarantine) bool { return q.Status.Scope == v1alpha1.QuarantineFleet })
}

func (s Set) any(d v1alpha1.Digest, is func(*v1alpha1.FirmwareQuarantine) bool) bool {
	for _, q := range s.images[d] {
		if is(&q) {
			return true
		}
	}
	return false
}

// Blocks reports whether the image must not be flashed to a device of that model on a node of that RolloutPolicy, and why. The
// model is as v1alpha1.ModelKey gives it. An unknown model, "" or v1alpha1.AnyModel, may be the one that failed, so every
// quarantine of the image blocks it; one for v1alpha1.AnyModel blocks every model.
func (s Set) Blocks(d v1alpha1.Digest, model, pool string) (out v1alpha1.FirmwareQuarantine, found bool) {
	for m, q := range s.images[d] {
		concerns := m == model || m == v1alpha1.AnyModel || model == "" || model == v1alpha1.AnyModel
		if concerns && InForce(&q, pool) && (!found || q.Name < out.Name) {
			out, found = q, true
		}
	}
	return out, found
}
