package artifact

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"regexp"
	"strings"

	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

const (
	// maxTags bounds the tags of a repository that are looked at, each by a request of its own.
	maxTags = 1000
	// tagsPerPage is what a registry is asked for; it may send fewer. maxTagPages bounds the pages, of which some may be empty.
	tagsPerPage, maxTagPages = 100, 100
)

// Tag is a tag of a repository, and the artifact that it pointed to when it was looked at. A registry may move it at any time.
type Tag struct {
	Name string
	// Manifest is the digest of the artifact's manifest.
	Manifest inventory.Digest
	// File is the digest of the artifact's only layer; zero where it has none or several.
	File inventory.Digest
	// Annotations of the manifest.
	Annotations map[string]string
}

// tagName is what a registry may call a tag (OCI distribution specification, "Pulling manifests").
var tagName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$`)

// Tags lists the tags of the repository oci://host/name in the order of the registry, and resolves each of them, with the addresses that
// are refused and the limits of Fetch: at most MaxBytes of manifests, and a minute without a list or manifest. It ends with
// an *Error, or after the last tag. A tag that is removed meanwhile is left out.
func (f *Fetcher) Tags(ctx context.Context, rawURL string, a *Access) iter.Seq2[Tag, error] {
	return func(yield func(Tag, error) bool) {
		own, release, err := f.with(a)
		if err != nil {
			yield(Tag{}, err)
			return
		}
		defer release()
		ctx, cancel := context.WithTimeout(ctx, f.config.Timeout)
		defer cancel()
		l := tagLister{Fetcher: own, url: rawURL, left: f.config.MaxBytes}
		names, err := l.names(ctx)
		if err != nil {
			yield(Tag{}, err)
			return
		}
		for _, name := range names {
			tag, err := l.resolve(ctx, name)
			if failed := (*Error)(nil); errors.As(err, &failed) && failed.absent {
				continue
			}
			if !yield(tag, err) || err != nil {
				return
			}
		}
	}
}

// tagLister lists the tags of one repository.
type tagLister struct {
	*Fetcher
	url        string
	repository *remote.Repository
	// left is how many bytes of manifests may still come.
	left int64
}

func (l *tagLister) names(ctx context.Context) ([]string, error) {
	ref, err := registry.ParseReference(strings.TrimPrefix(l.url, "oci://"))
	if err != nil || ref.Reference != "" || !OCI(l.url) {
		return nil, permanent(InvalidSpec, "list the tags of %s: write oci://host/repository, without a tag or digest", l.url)
	}
	l.repository = &remote.Repository{
		Reference: ref, Client: l.registryClient(), MaxMetadataBytes: maxManifest, TagListPageSize: tagsPerPage, TagListMaxPages: maxTagPages,
	}
	ctx, cancel := context.WithTimeout(ctx, l.config.StallTimeout) // names are short
	defer cancel()
	var names []string
	err = l.repository.Tags(ctx, "", func(page []string) error {
		for _, name := range page {
			if !tagName.MatchString(name) {
				return permanent(UnpackFailed, "list the tags of %s: %.128q is no tag", l.url, name)
			}
		}
		if names = append(names, page...); len(names) > maxTags {
			return tooLarge("list the tags of %s: more than %d; use a repository of its own for each machine model", l.url, maxTags)
		}
		return nil
	})
	var known *Error
	switch {
	case err == nil:
		return names, nil
	case errors.As(err, &known):
		return nil, known
	case errors.Is(err, errdef.ErrTooManyPages):
		return nil, tooLarge("list the tags of %s: more than %d pages; use a repository of its own for each machine model", l.url, maxTagPages)
	}
	return nil, l.registryError(ctx, l.url, permanent(UnpackFailed, "list the tags of %s: the registry sent something else, or leads to a server for tokens that is not permitted; the operator's log says what", l.url), err)
}

func (l *tagLister) resolve(ctx context.Context, name string) (Tag, error) {
	ref := fmt.Sprintf("%s:%s", l.url, name)
	text, digest, err := l.manifest(ctx, l.repository, name, ref)
	if err != nil {
		return Tag{}, err
	}
	if l.left -= int64(len(text)); l.left < 0 {
		return Tag{}, tooLarge("list the tags of %s: their manifests are larger than %d bytes", l.url, l.config.MaxBytes)
	}
	manifest, err := parseManifest(text, ref)
	if err != nil {
		return Tag{}, err
	}
	out := Tag{Name: name, Annotations: manifest.Annotations}
	if out.Manifest, err = inventory.ParseDigest(digest.String()); err != nil {
		return Tag{}, permanent(UnpackFailed, "fetch %s: %w", ref, err)
	}
	if len(manifest.Layers) == 1 { // a digest of another kind is no sha256 of the file
		if file, err := inventory.ParseDigest(manifest.Layers[0].Digest.String()); err == nil {
			out.File = file
		}
	}
	return out, nil
}
