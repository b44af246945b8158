package quarantine

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// MaxListed bounds the entries a FirmwareSource lists, as the API does.
const MaxListed = 128

// Set holds the quarantined images of the fleet, at most one entry for each digest and model. The zero Set is empty.
type Set struct {
	images map[v1alpha1.Digest]map[string]v1alpha1.QuarantinedImage
}

// Compute derives the set from what jobs report and what sources remember. A job's report counts at once, even while the
// job is still restoring the old firmware; the report of an image that the job was not to flash to that device is ignored.
// What a source remembers counts even if its job is gone.
//
// An entry is lifted when a source that holds its image, or remembers the entry, has a liftQuarantineRequestedAt that is
// not before the failure, in whole seconds, the resolution of times in the API. Where several sources hold an image, any
// one of them lifts it: it is one image, and a person decided that it may be flashed.
//
// Of several failures of one image on one model the first that is not lifted is the entry, so that an entry stays as it is
// while more nodes report the same.
func Compute(jobs []*v1alpha1.FirmwareJob, sources []v1alpha1.FirmwareSource) Set {
	s := Set{images: map[v1alpha1.Digest]map[string]v1alpha1.QuarantinedImage{}}
	recorded := map[report]bool{}
	for i := range sources {
		for _, e := range sources[i].Status.Quarantine {
			recorded[report{e.Digest, e.Model, e.Job}] = true
		}
	}
	lifts := newLifts(sources)
	for i := range sources {
		for _, e := range sources[i].Status.Quarantine {
			s.add(e, lifts)
		}
	}
	for _, j := range jobs {
		for _, e := range reported(j) {
			if !recorded[report{e.Digest, e.Model, e.Job}] { // the entry of the source has the right time
				s.add(e, lifts)
			}
		}
	}
	return s
}

// report identifies the failure of one image on one model in one job.
type report struct {
	digest v1alpha1.Digest
	model  string
	job    string
}

func (s Set) add(e v1alpha1.QuarantinedImage, l lifts) {
	if l.cover(e) {
		return
	}
	models := s.images[e.Digest]
	if models == nil {
		models = map[string]v1alpha1.QuarantinedImage{}
		s.images[e.Digest] = models
	}
	if old, ok := models[e.Model]; !ok || byAge(e, old) < 0 {
		models[e.Model] = e
	}
}

// Empty reports whether no image is quarantined.
func (s Set) Empty() bool { return len(s.images) == 0 }

// Holds reports whether the image is quarantined for any model at all.
func (s Set) Holds(d v1alpha1.Digest) bool { return len(s.images[d]) > 0 }

// Blocks reports whether the image must not be flashed to a device of that model, and why. The model is as
// v1alpha1.ModelKey gives it. An unknown model, "" or v1alpha1.AnyModel, may be the one that failed, so every
// entry of the image blocks it; an entry for v1alpha1.AnyModel blocks every model.
func (s Set) Blocks(d v1alpha1.Digest, model string) (v1alpha1.QuarantinedImage, bool) {
	models := s.images[d]
	if model == "" || model == v1alpha1.AnyModel {
		return oldest(models)
	}
	if e, ok := models[model]; ok {
		return e, true
	}
	e, ok := models[v1alpha1.AnyModel]
	return e, ok
}

// ModelOf is the model of a device in the form that Blocks takes.
func ModelOf(d *v1alpha1.NodeDevice) string {
	return v1alpha1.ModelKey(d.Status.VendorID, d.Status.DeviceID, d.Status.Vendor, d.Status.Model)
}

func oldest(models map[string]v1alpha1.QuarantinedImage) (out v1alpha1.QuarantinedImage, found bool) {
	for _, e := range models {
		if !found || byAge(e, out) < 0 {
			out, found = e, true
		}
	}
	return out, found
}

// Listed is what a source should list: the entries of the images it holds, and those it lists already, which stay until
// they are lifted though the image may be gone. They are in order of digest and model. At most MaxListed are given;
// those it lists already come first, then the oldest. More counts the rest, which only their jobs remember.
func (s Set) Listed(src *v1alpha1.FirmwareSource) (listed []v1alpha1.QuarantinedImage, more int) {
	known := map[[2]string]bool{}
	for _, e := range src.Status.Quarantine {
		known[[2]string{string(e.Digest), e.Model}] = true
	}
	isKnown := func(e v1alpha1.QuarantinedImage) bool { return known[[2]string{string(e.Digest), e.Model}] }
	for d := range heldBy(src) {
		for _, e := range s.images[d] {
			if isKnown(e) || slices.ContainsFunc(src.Status.Images, func(i v1alpha1.StoredImage) bool { return i.Digest == d }) {
				listed = append(listed, e)
			}
		}
	}
	slices.SortFunc(listed, func(a, b v1alpha1.QuarantinedImage) int {
		return cmp.Or(-compare(isKnown(a), isKnown(b)), byAge(a, b))
	})
	more = max(0, len(listed)-MaxListed)
	listed = listed[:len(listed)-more]
	slices.SortFunc(listed, func(a, b v1alpha1.QuarantinedImage) int {
		return cmp.Or(cmp.Compare(a.Digest, b.Digest), cmp.Compare(a.Model, b.Model))
	})
	return listed, more
}

// compare orders false before true.
func compare(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

func byAge(a, b v1alpha1.QuarantinedImage) int {
	return cmp.Or(a.Since.Compare(b.Since.Time), strings.Compare(a.Job, b.Job), strings.Compare(a.Model, b.Model))
}

// lifts are the newest requests to lift the quarantine, by image.
type lifts map[v1alpha1.Digest]time.Time

func newLifts(sources []v1alpha1.FirmwareSource) lifts {
	out := lifts{}
	for i := range sources {
		asked := sources[i].Spec.LiftQuarantineRequestedAt
		if asked == nil {
			continue
		}
		for d := range heldBy(&sources[i]) {
			if asked.After(out[d]) {
				out[d] = asked.Time
			}
		}
	}
	return out
}

// cover reports whether the entry is lifted.
func (l lifts) cover(e v1alpha1.QuarantinedImage) bool {
	at := l[e.Digest]
	return !at.IsZero() && !at.Before(e.Since.Truncate(time.Second))
}

// heldBy are the images the source holds or lists as quarantined.
func heldBy(src *v1alpha1.FirmwareSource) map[v1alpha1.Digest]bool {
	out := make(map[v1alpha1.Digest]bool, len(src.Status.Images))
	for _, i := range src.Status.Images {
		out[i.Digest] = true
	}
	for _, e := range src.Status.Quarantine {
		out[e.Digest] = true
	}
	return out
}
