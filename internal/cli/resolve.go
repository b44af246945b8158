package cli

import (
	"fmt"
	"slices"
	"time"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/desired"
	"github.com/nodefirmware/node-firmware-operator/internal/match"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
)

// stockOf is the sources and the images that are known of them.
type stockOf struct {
	sources []v1alpha1.FirmwareSource
	images  Images
}

// decide says what a rule means for a device now: the rule with the version to flash next, the image of that, and what is
// to be done. Why says what keeps the images from being used; empty when nothing does.
func (s stockOf) decide(r *match.Rule, d inventory.Device, facts match.Device) (now *match.Rule, image sourceImage, p plan.Decision, why string) {
	next := *r
	wish, why := s.wish(&next, facts)
	p = plan.Decide(wish, plan.FactsOf(d))
	if p.Outcome.Due() {
		next.Version = p.Version
	}
	if image, problem := s.images.find(r.Source, facts, next.Version); problem == nil {
		return &next, image, p, why
	}
	return &next, sourceImage{}, p, why
}

// wish is what the operator would assign: without a digest where the image is missing or the way cannot be followed.
func (s stockOf) wish(r *match.Rule, facts match.Device) (wish plan.Wish, why string) {
	want := v1alpha1.DesiredFirmware{Version: string(r.Version), UpdatePolicy: r.Policy}
	at := slices.IndexFunc(s.sources, func(o v1alpha1.FirmwareSource) bool { return o.Name == r.Source })
	paths := []*match.Paths{r.Paths}
	if at >= 0 {
		r.Downgrade = match.EffectiveDowngrade(r.Downgrade, s.sources[at].Spec.Downgrade)
		paths = append(paths, match.SourcePaths(&s.sources[at]))
	}
	want.Downgrade = r.Downgrade
	image, problem := s.images.find(r.Source, facts, r.Version)
	if problem == nil {
		want.Path, problem = match.Route(r.Version, func(v inventory.Version) (v1alpha1.Digest, string) {
			hop, missing := s.images.find(r.Source, facts, v)
			if missing != nil {
				return "", missing.Reason
			}
			return hop.match.Digest, ""
		}, paths...)
	}
	if problem == nil {
		want.Digest = image.match.Digest
	}
	return desired.Wish(&want, time.Time{}), explain(r, facts, problem)
}

// find is the image of a source that brings the device to a version, or why there is none.
func (m Images) find(source string, d match.Device, v inventory.Version) (sourceImage, *match.Obstacle) {
	all, known := m[source]
	if !known {
		return sourceImage{}, &match.Obstacle{Reason: v1alpha1.ReasonSourceNotFound}
	}
	compiled := make([]match.Image, len(all))
	for i, image := range all {
		compiled[i] = image.match
	}
	digest, reason := match.Resolve(compiled, d, v)
	if reason != "" {
		return sourceImage{}, &match.Obstacle{Reason: reason, Version: v}
	}
	return all[slices.IndexFunc(all, func(i sourceImage) bool { return i.match.For(d, v) && i.match.Digest == digest })], nil
}

func explain(r *match.Rule, d match.Device, o *match.Obstacle) string {
	switch {
	case o == nil:
		return ""
	case o.Message != "":
		return o.Message
	case o.Reason == v1alpha1.ReasonSourceNotFound:
		return fmt.Sprintf("no FirmwareSource %s is given; add it to the file", r.Source)
	case o.Reason == v1alpha1.ReasonImageAmbiguous:
		return fmt.Sprintf("FirmwareSource %s holds several images of %s for board %q; name the board of each", r.Source, o.Version, d.BoardID)
	}
	return fmt.Sprintf("FirmwareSource %s holds no image of %s for board %q", r.Source, o.Version, d.BoardID)
}
