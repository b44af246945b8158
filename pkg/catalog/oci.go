package catalog

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// EntriesAnnotation of an OCI manifest is a JSON list of entries, as an index has, that says what the artifact is for. The version of an
// entry that names none is the tag. Entries name no url and digest: the file is that of the artifact.
const EntriesAnnotation = "io.nodefirmware.catalog.entries"

// TaggedManifest is one tag of a repository.
type TaggedManifest struct {
	Tag string
	// Manifest is the digest of the manifest that the tag points to.
	Manifest inventory.Digest
	// File is the digest of the artifact's only file; zero where it has none or several.
	File        inventory.Digest
	Annotations map[string]string
}

// Registry lists the tags of one repository, with their manifests, in the order of the registry.
type Registry interface {
	Tags(ctx context.Context) iter.Seq2[TaggedManifest, error]
}

// OCI offers the tags of a repository whose annotations say what they are for. The address of each offer contains the digest, so it names
// the same artifact even after the tag moves.
type OCI struct {
	// Repository is the address oci://host/name.
	Repository string
	Registry   Registry
	Limits     Limits
}

// Discover looks at each tag once. Tags without the annotation are left out.
func (p OCI) Discover(ctx context.Context, q Query, emit Emit) error {
	limits, n := p.Limits.orDefaults(), 0
	for m, err := range p.Registry.Tags(ctx) {
		if err != nil {
			return err
		}
		if n++; n > limits.Entries {
			return fault(InvalidCatalog, "list tags: more than %d", limits.Entries)
		}
		said, ok := m.Annotations[EntriesAnnotation]
		if !ok {
			continue
		}
		entries, err := p.entries(m, said)
		if err != nil {
			return err
		}
		if err := entries.Discover(ctx, q, emit); err != nil {
			return fmt.Errorf("tag %.128q: %w", m.Tag, err)
		}
	}
	return nil
}

// entries are what the annotation of a manifest says, with its artifact.
func (p OCI) entries(m TaggedManifest, said string) (Entries, error) {
	d := json.NewDecoder(strings.NewReader(said))
	d.DisallowUnknownFields()
	var out Entries
	if err := d.Decode(&out); err != nil {
		return nil, fault(InvalidCatalog, "parse annotation %s of tag %.128q: %w", EntriesAnnotation, m.Tag, err)
	}
	for i := range out {
		e := &out[i]
		if e.URL != "" || e.Digest != "" {
			return nil, fault(InvalidCatalog, "parse annotation %s of tag %.128q: entry %d names url or digest, and its file is that of the artifact", EntriesAnnotation, m.Tag, i)
		}
		if e.Version == "" {
			e.Version = m.Tag
		}
		e.URL = p.Repository + "@" + m.Manifest.String()
		if m.File != (inventory.Digest{}) {
			e.Digest = m.File.String()
		}
	}
	return out, nil
}
