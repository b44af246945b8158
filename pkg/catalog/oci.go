package catalog

import (
	"context"
	"encoding/json"
	"iter"
	"strings"
)

// EntriesAnnotation of an OCI manifest is a JSON list of entries, as an index has, that says what the artifact is for. The version of an
// entry that names none is the tag.
const EntriesAnnotation = "io.nodefirmware.catalog.entries"

// TaggedManifest is one tag of a repository.
type TaggedManifest struct {
	Tag         string
	Annotations map[string]string
}

// Registry lists the tags of one repository, with the annotations of their manifests, in the order of the registry.
type Registry interface {
	Tags(ctx context.Context) iter.Seq2[TaggedManifest, error]
}

// OCI offers the tags of a repository that say what they are for.
type OCI struct {
	Registry Registry
	Limits   Limits
}

// Discover looks at each tag once. Tags without the annotation are left out.
func (p OCI) Discover(ctx context.Context, q Query, emit Emit) error {
	limits, n := p.Limits.orDefaults(), 0
	for m, err := range p.Registry.Tags(ctx) {
		if err != nil {
			return err
		}
		if n++; n > limits.Entries {
			return fault(TooLarge, "list tags: more than %d", limits.Entries)
		}
		said, ok := m.Annotations[EntriesAnnotation]
		if !ok {
			continue
		}
		d := json.NewDecoder(strings.NewReader(said))
		d.DisallowUnknownFields()
		var entries Entries
		if err := d.Decode(&entries); err != nil {
			return fault(InvalidCatalog, "parse annotation %s of tag %.128q: %w", EntriesAnnotation, m.Tag, err)
		}
		for i := range entries {
			if entries[i].Version == "" {
				entries[i].Version = m.Tag
			}
		}
		if err := entries.Discover(ctx, q, emit); err != nil {
			return err
		}
	}
	return nil
}
