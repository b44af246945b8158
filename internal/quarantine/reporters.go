package quarantine

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// Reporters remembers the jobs that reported bad images until a source lists those. Jobs and sources come from caches that
// follow the API server each at its own pace: a job may disappear from one cache before the other shows that a source lists
// its images. It is for one goroutine at a time.
type Reporters struct {
	jobs map[types.UID]reporter
}

// goneFor bounds how long a job is remembered that is gone. Its object went only when a source listed what it reported, so that all
// this has to bridge is the distance of two caches. A lift that happened meanwhile is not seen, and must not be undone for good.
const goneFor = time.Hour

type reporter struct {
	job *v1alpha1.FirmwareJob
	// seen is when the job was there last.
	seen time.Time
	// recorded is whether a source ever remembered all that the job reports. If none does any more, a person lifted it.
	recorded bool
}

// Remember takes the jobs that exist now, and returns those with reports for Compute, in order of uid, along with the jobs
// that are gone for less than an hour and whose images no source has listed yet. It keeps what it is given, and changes none of it.
func (r *Reporters) Remember(jobs []*v1alpha1.FirmwareJob, sources []v1alpha1.FirmwareSource, now time.Time) []*v1alpha1.FirmwareJob {
	remembered := map[types.UID]reporter{}
	for uid, o := range r.jobs {
		if !o.recorded && now.Sub(o.seen) < goneFor && !Recorded(o.job, sources) {
			remembered[uid] = o
		}
	}
	for _, j := range jobs {
		if len(j.Status.Blamed) == 0 {
			continue
		}
		o, known := r.jobs[j.UID]
		before := known && o.recorded && slices.Equal(believed(o.job), believed(j))
		remembered[j.UID] = reporter{j, now, before || Recorded(j, sources)}
	}
	r.jobs = remembered
	out := make([]*v1alpha1.FirmwareJob, 0, len(remembered))
	for _, o := range remembered {
		out = append(out, o.job)
	}
	slices.SortFunc(out, func(a, b *v1alpha1.FirmwareJob) int { return strings.Compare(string(a.UID), string(b.UID)) })
	return out
}

// Recorded reports whether a source remembers every believed report of the job, so that the job itself is not needed for it.
func Recorded(j *v1alpha1.FirmwareJob, sources []v1alpha1.FirmwareSource) bool {
	for _, r := range believed(j) {
		remembers := func(e v1alpha1.QuarantinedImage) bool {
			tells := func(o v1alpha1.QuarantineReport) bool { return o.Job == r.job }
			return e.Digest == r.digest && e.Model == r.model &&
				(e.Scope == v1alpha1.QuarantineFleet || e.Scope == "" || slices.ContainsFunc(e.Reports, tells) ||
					slices.Contains(e.Lifted, r.job) || addsNothing(e.Reports, r))
		}
		lists := func(src v1alpha1.FirmwareSource) bool { return slices.ContainsFunc(src.Status.Quarantine, remembers) }
		if !slices.ContainsFunc(sources, lists) {
			return false
		}
	}
	return true
}

// addsNothing reports whether the list is full and has no place for this report either: its node is listed with as much, or
// it only missed its network and no listed report is superfluous. Any other report finds a place, or makes it the fleet's.
func addsNothing(reports []v1alpha1.QuarantineReport, r report) bool {
	if len(reports) < maxReports {
		return false
	}
	listed := func(o v1alpha1.QuarantineReport) bool {
		return o.NodeName == r.node && knowsAsMuch(o.Evidence, r.evidence)
	}
	return slices.ContainsFunc(reports, listed) || r.evidence == v1alpha1.EvidenceNetwork && superfluous(reports) < 0
}
