package quarantine

import (
	"cmp"
	"slices"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
)

// Listed is what a source should list: the entries of the images it holds, and those it lists already, which stay until
// they are lifted though the image may be gone, and then as long as a job still reports them. They are in order of digest and
// model. At most MaxListed are given, and at most MaxSize bytes; those it lists already come first, then the oldest. More counts
// the rest, which only their jobs remember.
func (s Set) Listed(src *v1alpha1.FirmwareSource) (listed []v1alpha1.QuarantinedImage, more int) {
	known := make(map[key]v1alpha1.QuarantinedImage, len(src.Status.Quarantine))
	for _, e := range src.Status.Quarantine {
		known[key{e.Digest, e.Model}] = e
	}
	isKnown := func(e v1alpha1.QuarantinedImage) bool {
		_, is := known[key{e.Digest, e.Model}]
		return is
	}
	for d := range heldBy(src) {
		for _, e := range s.images[d] {
			if isKnown(e) || slices.ContainsFunc(src.Status.Images, func(i v1alpha1.StoredImage) bool { return i.Digest == d }) {
				e.Lift, e.Confirm = lift(src).InForce(), plan.Clearance(src.Spec.ConfirmQuarantine).InForce()
				listed = append(listed, e)
			}
		}
	}
	slices.SortFunc(listed, func(a, b v1alpha1.QuarantinedImage) int {
		return cmp.Or(-compare(isKnown(a), isKnown(b)), byAge(a, b))
	})
	all := len(listed)
	listed = fit(listed[:min(all, MaxListed)], known)
	slices.SortFunc(listed, func(a, b v1alpha1.QuarantinedImage) int {
		return cmp.Or(cmp.Compare(a.Digest, b.Digest), cmp.Compare(a.Model, b.Model))
	})
	return listed, all - len(listed)
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
