package cli

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/desired"
	"github.com/nodefirmware/node-firmware-operator/internal/document"
	"github.com/nodefirmware/node-firmware-operator/internal/match"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
)

// Documents holds the desired firmware, its sources and the desired settings as read from files.
type Documents struct {
	Templates      []v1alpha1.FirmwareTemplate
	Configurations []v1alpha1.ConfigurationTemplate
	Sources        []v1alpha1.FirmwareSource
}

// Load reads the FirmwareTemplates, ConfigurationTemplates and FirmwareSources of the files. Every problem is reported with its file and line.
func Load(files []string) (Documents, error) {
	var docs Documents
	var errs []error
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			errs = append(errs, fmt.Errorf("read template: %w", err))
			continue
		}
		errs = append(errs, document.Each(file, text, docs.document)...)
	}
	if len(errs) == 0 && len(docs.Templates)+len(docs.Configurations) == 0 {
		errs = append(errs, fmt.Errorf("no FirmwareTemplate or ConfigurationTemplate in %s", strings.Join(files, ", ")))
	}
	errs = append(errs, docs.duplicates()...)
	return docs, errors.Join(errs...)
}

func (d *Documents) document(h document.Header, raw []byte) []document.Problem {
	if problems := h.CheckVersion(); len(problems) > 0 {
		return problems
	}
	switch h.Kind {
	case "FirmwareTemplate":
		var t v1alpha1.FirmwareTemplate
		problems := append(document.Strict(raw, &t), checkTemplate(t)...)
		d.Templates = append(d.Templates, t)
		return problems
	case "ConfigurationTemplate":
		var t v1alpha1.ConfigurationTemplate
		problems := append(document.Strict(raw, &t), checkConfiguration(t)...)
		d.Configurations = append(d.Configurations, t)
		return problems
	case "FirmwareSource":
		var s v1alpha1.FirmwareSource
		problems := append(document.Strict(raw, &s), checkSource(s)...)
		d.Sources = append(d.Sources, s)
		return problems
	default:
		return []document.Problem{{Path: "kind", Text: fmt.Sprintf("kind is %q, want FirmwareTemplate, ConfigurationTemplate or FirmwareSource", h.Kind)}}
	}
}

func (d *Documents) duplicates() []error {
	var errs []error
	seen := map[string]bool{}
	for _, name := range d.names() {
		if seen[name] {
			errs = append(errs, fmt.Errorf("%s is given twice", name))
		}
		seen[name] = true
	}
	return errs
}

func (d *Documents) names() []string {
	var out []string
	for _, t := range d.Templates {
		out = append(out, "FirmwareTemplate "+t.Name)
	}
	for _, t := range d.Configurations {
		out = append(out, "ConfigurationTemplate "+t.Name)
	}
	for _, s := range d.Sources {
		out = append(out, "FirmwareSource "+s.Name)
	}
	return out
}

// stockOf holds the sources and the images that are known of them.
type stockOf struct {
	sources []v1alpha1.FirmwareSource
	images  Images
}

// decide says what a rule means for a device now: the rule with the version to flash next, the image of that, and what the
// device needs. Why says what keeps the images from being used; empty when nothing does.
func (s stockOf) decide(r *match.Rule, d inventory.Device, facts match.Device) (now *match.Rule, image sourceImage, p plan.Decision, why string) {
	firmware, noImage := s.firmware(r, facts)
	next := *r
	next.Downgrade = firmware.Downgrade
	p = plan.Decide(desired.Of(firmware.Desired(), ""), plan.FactsOf(d))
	if p.Outcome.Due() {
		next.Version = p.Version
	}
	image, _ = s.images.find(r.Source, facts, next.Version)
	return &next, image, p, explain(r, facts, noImage)
}

// firmware is what the operator would assign.
func (s stockOf) firmware(r *match.Rule, facts match.Device) (*match.Assigned, *match.Block) {
	var paths *match.Paths
	if at := slices.IndexFunc(s.sources, func(o v1alpha1.FirmwareSource) bool { return o.Name == r.Source }); at >= 0 {
		paths = match.SourcePaths(&s.sources[at])
	}
	return r.Firmware(func(v inventory.Version) (v1alpha1.Digest, string) {
		image, reason := s.images.find(r.Source, facts, v)
		return image.match.Digest, reason
	}, paths)
}

// find is the image of a source that brings the device to a version, or the reason why there is none.
func (m Images) find(source string, d match.Device, v inventory.Version) (image sourceImage, reason string) {
	all, known := m[source]
	if !known {
		return sourceImage{}, v1alpha1.ReasonSourceNotFound
	}
	compiled := make([]match.Image, len(all))
	for i, image := range all {
		compiled[i] = image.match
	}
	digest, reason := match.Resolve(compiled, d, v)
	if reason != "" {
		return sourceImage{}, reason
	}
	return all[slices.IndexFunc(all, func(i sourceImage) bool { return i.match.For(d, v) && i.match.Digest == digest })], ""
}

func explain(r *match.Rule, d match.Device, noImage *match.Block) string {
	switch {
	case noImage == nil:
		return ""
	case noImage.Message != "":
		return noImage.Message
	case noImage.Reason == v1alpha1.ReasonSourceNotFound:
		return fmt.Sprintf("no FirmwareSource %s is given; add it to the file", r.Source)
	case noImage.Reason == v1alpha1.ReasonImageAmbiguous:
		return fmt.Sprintf("FirmwareSource %s holds several images of %s for board %q; name the board of each", r.Source, noImage.Version, d.BoardID)
	}
	return fmt.Sprintf("FirmwareSource %s holds no image of %s for board %q", r.Source, noImage.Version, d.BoardID)
}
