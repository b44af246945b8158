package quarantine

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// Witnesses remembers the jobs that reported bad images until a source has written that down. Jobs and sources come from
// caches that follow the API server each at its own pace: a job may be gone from one before the other shows what a source
// remembers of it. It is for one goroutine at a time.
type Witnesses struct {
	jobs map[types.UID]*v1alpha1.FirmwareJob
}

// Hear takes the jobs that are there now, and gives those with reports for Compute, in order of uid, along with the jobs
// that are gone and not written down. It keeps what it is given, and changes none of it.
func (w *Witnesses) Hear(jobs []*v1alpha1.FirmwareJob, sources []v1alpha1.FirmwareSource) []*v1alpha1.FirmwareJob {
	heard := map[types.UID]*v1alpha1.FirmwareJob{}
	for uid, j := range w.jobs {
		if !settled(j, sources) {
			heard[uid] = j
		}
	}
	for _, j := range jobs {
		if len(j.Status.BadImages) > 0 {
			heard[j.UID] = j
		}
	}
	w.jobs = heard
	out := make([]*v1alpha1.FirmwareJob, 0, len(heard))
	for _, j := range heard {
		out = append(out, j)
	}
	slices.SortFunc(out, func(a, b *v1alpha1.FirmwareJob) int { return strings.Compare(string(a.UID), string(b.UID)) })
	return out
}

// settled reports whether all that the job says is written down or lifted.
func settled(j *v1alpha1.FirmwareJob, sources []v1alpha1.FirmwareSource) bool {
	l := newLifts(sources)
	for _, e := range reported(j) {
		written := func(o v1alpha1.QuarantinedImage) bool { return o.Digest == e.Digest && o.Model == e.Model }
		inSource := func(src v1alpha1.FirmwareSource) bool { return slices.ContainsFunc(src.Status.Quarantine, written) }
		if !l.covers(e) && !slices.ContainsFunc(sources, inSource) {
			return false
		}
	}
	return true
}
