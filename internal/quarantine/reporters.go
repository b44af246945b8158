package quarantine

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// Reporters remembers the jobs that reported bad images until a FirmwareQuarantine lists them. Both come from caches that follow the
// API server each at its own pace: a job may disappear from one before the other shows what was recorded of it. It is for one
// goroutine at a time.
type Reporters struct {
	jobs map[types.UID]reporter
}

// goneFor bounds how long a job is remembered that is gone. Its object went only when a quarantine listed what it reported, so that all
// this has to bridge is the distance of two caches. That the quarantine was deleted meanwhile is not seen, and must not be undone for
// good.
const goneFor = time.Hour

type reporter struct {
	job *v1alpha1.FirmwareJob
	// seen is when the job was there last.
	seen time.Time
	// recorded is whether quarantines ever remembered all that the job reports. If they do no more, a person deleted one.
	recorded bool
}

// Remember takes the jobs that exist now, and returns those with reports for Compute, in order of uid, along with the jobs
// that are gone for less than an hour and that no quarantine has listed yet. It keeps what it is given, and changes none of it.
func (r *Reporters) Remember(jobs []*v1alpha1.FirmwareJob, quarantines []v1alpha1.FirmwareQuarantine, now time.Time) []*v1alpha1.FirmwareJob {
	remembered := map[types.UID]reporter{}
	for uid, o := range r.jobs {
		if !o.recorded && now.Sub(o.seen) < goneFor && !Recorded(o.job, quarantines) {
			remembered[uid] = o
		}
	}
	for _, j := range jobs {
		if len(j.Status.Blamed) == 0 {
			continue
		}
		o, known := r.jobs[j.UID]
		before := known && o.recorded && slices.Equal(believed(o.job), believed(j))
		remembered[j.UID] = reporter{j, now, before || Recorded(j, quarantines)}
	}
	r.jobs = remembered
	out := make([]*v1alpha1.FirmwareJob, 0, len(remembered))
	for _, o := range remembered {
		out = append(out, o.job)
	}
	slices.SortFunc(out, func(a, b *v1alpha1.FirmwareJob) int { return strings.Compare(string(a.UID), string(b.UID)) })
	return out
}

// Recorded reports whether a quarantine remembers every believed report of the job, so that the job itself is not needed for it.
func Recorded(j *v1alpha1.FirmwareJob, quarantines []v1alpha1.FirmwareQuarantine) bool {
	for _, r := range believed(j) {
		remembers := func(q v1alpha1.FirmwareQuarantine) bool {
			tells := func(o v1alpha1.QuarantineReport) bool { return o.Job == r.job && !r.succeeds(o) }
			return q.Spec.Digest == r.digest && q.Spec.Model == r.model &&
				(slices.ContainsFunc(q.Status.Reports, tells) || isCovered(q.Status.Reports, r) || addsNothing(q.Status.Reports, r))
		}
		if !slices.ContainsFunc(quarantines, remembers) {
			return false
		}
	}
	return true
}

// addsNothing reports whether the list is full and has no place for this report either: its node is listed with as much, or 16
// nodes are. Any other report finds a place.
func addsNothing(reports []v1alpha1.QuarantineReport, r report) bool {
	if len(reports) < maxReports {
		return false
	}
	nodes := map[string]bool{}
	for _, o := range reports {
		switch {
		case !counts(o):
		case o.Node == r.node && knowsAsMuch(o.Evidence, r.evidence):
			return true
		default:
			nodes[o.Node] = true
		}
	}
	return len(nodes) >= maxReports
}
