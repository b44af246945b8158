package cli

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/document"
)

// Documents holds the desired firmware and its sources as read from files.
type Documents struct {
	Templates []v1alpha1.FirmwareTemplate
	Sources   []v1alpha1.FirmwareSource
}

// Load reads the FirmwareTemplates and FirmwareSources of the files. Every problem is reported with its file and line.
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
	if len(errs) == 0 && len(docs.Templates) == 0 {
		errs = append(errs, fmt.Errorf("no FirmwareTemplate in %s", strings.Join(files, ", ")))
	}
	errs = append(errs, docs.duplicates()...)
	return docs, errors.Join(errs...)
}

func (d *Documents) document(h document.Header, raw []byte) []document.Problem {
	if h.APIVersion != v1alpha1.GroupVersion.String() {
		return []document.Problem{{Path: "apiVersion", Text: fmt.Sprintf("apiVersion is %q, want %q", h.APIVersion, v1alpha1.GroupVersion)}}
	}
	switch h.Kind {
	case "FirmwareTemplate":
		var t v1alpha1.FirmwareTemplate
		problems := append(document.Strict(raw, &t), checkTemplate(t)...)
		d.Templates = append(d.Templates, t)
		return problems
	case "FirmwareSource":
		var s v1alpha1.FirmwareSource
		problems := append(document.Strict(raw, &s), checkSource(s)...)
		d.Sources = append(d.Sources, s)
		return problems
	default:
		return []document.Problem{{Path: "kind", Text: fmt.Sprintf("kind is %q, want FirmwareTemplate or FirmwareSource", h.Kind)}}
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
	for _, s := range d.Sources {
		out = append(out, "FirmwareSource "+s.Name)
	}
	return out
}
