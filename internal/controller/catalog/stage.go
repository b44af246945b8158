package catalog

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/pkg/artifact"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/text"
)

// stageAgain is how long after the creation of a source the next one is looked at.
const stageAgain = time.Second

// stage says what became of the versions to be staged, and chooses one source to create.
func (d *decision) stage(f facts) {
	for i := range f.catalog.Spec.Stage {
		s := &f.catalog.Spec.Stage[i]
		staged := d.stageOne(f, s)
		staged.Source, staged.Message = s.Source, text.Clip(staged.Message, maxMessage)
		d.status.Staged = append(d.status.Staged, staged)
	}
}

// nextStage looks again soon while there is a source to create.
func (d *decision) nextStage() {
	if d.source != nil && (d.next == 0 || d.next > stageAgain) {
		d.next = stageAgain
	}
}

func (d *decision) stageOne(f facts, s *v1alpha1.CatalogStage) v1alpha1.CatalogStaged {
	not := func(reason, format string, args ...any) v1alpha1.CatalogStaged {
		return v1alpha1.CatalogStaged{Reason: reason, Message: fmt.Sprintf(format, args...)}
	}
	if have := f.source(s.Source); have != nil {
		if !slices.ContainsFunc(have.Spec.Files, func(file v1alpha1.FirmwareFile) bool { return file.SHA256 == s.SHA256 }) {
			return not(v1alpha1.ReasonNameTaken, "There is a FirmwareSource of that name without this file. Nothing was changed; choose another name.")
		}
		return not(v1alpha1.ReasonStaged, "Its FirmwareSource says whether the file is in store.")
	}
	if by := f.referrers[s.Source]; by != "" {
		return not(v1alpha1.ReasonInUse, "Nothing was created, because %s refers to that name already and would flash it at once. Choose another name.", by)
	}
	c, v, problem := d.offered(s)
	switch {
	case problem != nil:
		return *problem
	case v.SHA256 == "":
		return not(v1alpha1.ReasonDigestMismatch, "No provider names the sha256 of version %s, so nothing says that a file is the one that was meant. "+
			"Nothing was created; fetch it, compare it with what the vendor publishes, and write a FirmwareSource.", s.Version)
	case v.SHA256 != s.SHA256:
		return not(v1alpha1.ReasonDigestMismatch, "The provider names the sha256 %s for version %s. Nothing was created; "+
			"find out why it differs from the one in the spec, which a person wrote.", v.SHA256, s.Version)
	case !stageable(v.URL):
		return not(v1alpha1.ReasonInvalidURL, "The provider names no https address and no artifact of a registry for version %s, but %q. Nothing was created; "+
			"write a FirmwareSource.", s.Version, v.URL)
	}
	if d.source == nil {
		d.source = sourceOf(f.name, s, c, v)
		if p := serverOf(f.catalog, v); p != nil {
			d.source.Spec.SecretRef, d.source.Spec.CARef = p.SecretRef, p.CARef
		}
	}
	return not(v1alpha1.ReasonProgressing, "Its FirmwareSource is being created.")
}

// stageable reports whether a file can be fetched from where the provider says: an https address, or an artifact of a registry by its digest.
func stageable(address string) bool {
	if artifact.OCI(address) {
		_, digest, _ := strings.Cut(address, "@")
		_, err := inventory.ParseDigest(digest)
		return err == nil
	}
	return strings.HasPrefix(address, "https://") && !strings.ContainsAny(address, " @")
}

// serverOf is the provider that offers a version from its own server, which wants to know the same for the file; nil for none.
func serverOf(c *v1alpha1.FirmwareCatalog, v *v1alpha1.CatalogVersion) *v1alpha1.CatalogProvider {
	file, err := url.Parse(v.URL)
	if err != nil {
		return nil
	}
	for i := range c.Spec.Providers {
		p := &c.Spec.Providers[i]
		if at, err := url.Parse(p.URL); err == nil && slices.Contains(v.Providers, p.Name) && at.Scheme == file.Scheme && strings.EqualFold(at.Host, file.Host) {
			return p
		}
	}
	return nil
}

// offered is the component that an entry describes, with the version that is offered for it.
func (d *decision) offered(s *v1alpha1.CatalogStage) (*v1alpha1.CatalogComponent, *v1alpha1.CatalogVersion, *v1alpha1.CatalogStaged) {
	var found []*v1alpha1.CatalogComponent
	for i := range d.status.Components {
		c := &d.status.Components[i]
		if c.Class == s.Class && (s.PCIID == "" || strings.EqualFold(c.PCIID, s.PCIID)) && (s.Name == "" || c.Name == s.Name) && (s.BoardID == "" || c.BoardID == s.BoardID) {
			found = append(found, c)
		}
	}
	switch len(found) {
	case 0:
		return nil, nil, &v1alpha1.CatalogStaged{Reason: v1alpha1.ReasonNotOffered,
			Message: "No component in the status is like the entry. Nothing was created; compare class, pciID, name and boardID with status.components."}
	case 1:
	default:
		return nil, nil, &v1alpha1.CatalogStaged{Reason: v1alpha1.ReasonAmbiguous, Message: fmt.Sprintf("%d components in the status are like the entry, "+
			"among them %s and %s. Nothing was created; add pciID, name or boardID.", len(found), described(found[0]), described(found[1]))}
	}
	for i := range found[0].Versions {
		if v := &found[0].Versions[i]; v.Version == s.Version {
			return found[0], v, nil
		}
	}
	return nil, nil, &v1alpha1.CatalogStaged{Reason: v1alpha1.ReasonNotOffered,
		Message: fmt.Sprintf("No provider offers version %s for %s. Nothing was created; compare it with status.components, or raise versionsToStore.", s.Version, described(found[0]))}
}

func described(c *v1alpha1.CatalogComponent) string {
	return strings.Join(strings.Fields(strings.Join([]string{string(c.Class), c.PCIID, c.Name, c.BoardID}, " ")), " ")
}

// sourceOf is the source of one version: the file as the provider offers it, for the component and no other.
func sourceOf(catalog string, s *v1alpha1.CatalogStage, c *v1alpha1.CatalogComponent, v *v1alpha1.CatalogVersion) *v1alpha1.FirmwareSource {
	image := v1alpha1.ImageDescription{Class: c.Class, Version: v.Version}
	vendor, device, _ := strings.Cut(c.PCIID, ":")
	image.Vendor = cmp.Or(vendor, c.Manufacturer)
	if model := cmp.Or(device, c.Name); model != "" {
		image.Models = []string{model}
	}
	if c.BoardID != "" {
		image.BoardIDs = []string{c.BoardID}
	}
	return &v1alpha1.FirmwareSource{
		ObjectMeta: metav1.ObjectMeta{Name: s.Source, Annotations: map[string]string{v1alpha1.StagedByAnnotation: catalog}},
		Spec: v1alpha1.FirmwareSourceSpec{Files: []v1alpha1.FirmwareFile{{
			URL: v.URL, SHA256: s.SHA256, Format: v1alpha1.FormatImage, Images: []v1alpha1.ImageDescription{image},
		}}},
	}
}
