package quarantine

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// Reporters remembers the jobs that reported bad images until a source lists those. Jobs and sources come from caches that
// follow the API server each at its own pace: a job may disappear from one cache before the other shows that a source lists
// its images. It is for one goroutine at a time.
type Reporters struct {
	jobs map[types.UID]*v1alpha1.FirmwareJob
}

// Remember takes the jobs that exist now, and returns those with reports for Compute, in order of uid, along with the jobs
// that are gone and whose images no source lists. It keeps what it is given, and changes none of it.
func (r *Reporters) Remember(jobs []*v1alpha1.FirmwareJob, sources []v1alpha1.FirmwareSource) []*v1alpha1.FirmwareJob {
	remembered := map[types.UID]*v1alpha1.FirmwareJob{}
	for uid, j := range r.jobs {
		if !Recorded(j, sources) {
			remembered[uid] = j
		}
	}
	for _, j := range jobs {
		if len(j.Status.BadImages) > 0 {
			remembered[j.UID] = j
		}
	}
	r.jobs = remembered
	out := make([]*v1alpha1.FirmwareJob, 0, len(remembered))
	for _, j := range remembered {
		out = append(out, j)
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
				(e.Scope == v1alpha1.QuarantineFleet || e.Scope == "" || slices.ContainsFunc(e.Reports, tells) || slices.Contains(e.Lifted, r.job))
		}
		lists := func(src v1alpha1.FirmwareSource) bool { return slices.ContainsFunc(src.Status.Quarantine, remembers) }
		if !slices.ContainsFunc(sources, lists) {
			return false
		}
	}
	return true
}
