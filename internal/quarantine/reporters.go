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

// Recorded reports whether every image that the job reported is listed by a source or lifted, so that the quarantine does not
// need the job any more.
func Recorded(j *v1alpha1.FirmwareJob, sources []v1alpha1.FirmwareSource) bool {
	l := newLifts(sources)
	for _, e := range reported(j) {
		same := func(o v1alpha1.QuarantinedImage) bool { return o.Digest == e.Digest && o.Model == e.Model }
		lists := func(src v1alpha1.FirmwareSource) bool { return slices.ContainsFunc(src.Status.Quarantine, same) }
		if !l.cover(e) && !slices.ContainsFunc(sources, lists) {
			return false
		}
	}
	return true
}
