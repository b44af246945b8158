package catalog

import (
	"context"
	"iter"

	"github.com/nodefirmware/node-firmware-operator/pkg/artifact"
	"github.com/nodefirmware/node-firmware-operator/pkg/catalog"
)

// repository is one repository of a registry, with what the registry wants to know.
type repository struct {
	network Network
	url     string
	access  *artifact.Access
}

// Tags implements catalog.Registry.
func (r repository) Tags(ctx context.Context) iter.Seq2[catalog.TaggedManifest, error] {
	return func(yield func(catalog.TaggedManifest, error) bool) {
		for t, err := range r.network.Tags(ctx, r.url, r.access) {
			if !yield(catalog.TaggedManifest{Tag: t.Name, Manifest: t.Manifest, File: t.File, Annotations: t.Annotations}, err) {
				return
			}
		}
	}
}
