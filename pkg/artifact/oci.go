package artifact

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/errcode"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// maxManifest bounds a manifest, as registries do.
const maxManifest = 4 << 20

// OCI reports whether the URL is a reference to an artifact in a registry.
func OCI(rawURL string) bool { return strings.HasPrefix(rawURL, "oci://") }

// resolve returns the file that an OCI reference means, oci://host/repository@sha256:digest: the only layer of the manifest with that
// digest. Whoever names the digest of the manifest names that of the file.
func (f *Fetcher) resolve(ctx context.Context, rawURL string) (*remote.Repository, ocispec.Descriptor, error) {
	none := ocispec.Descriptor{}
	ref, err := registry.ParseReference(strings.TrimPrefix(rawURL, "oci://"))
	if err != nil {
		return nil, none, permanent(InvalidSpec, "parse %s: %w", rawURL, err)
	}
	wanted, err := ref.Digest()
	if err != nil || wanted.Algorithm() != digest.SHA256 {
		return nil, none, permanent(InvalidSpec, "fetch %s: a registry may move a tag to another artifact; write oci://host/repository@sha256:digest", rawURL)
	}
	repository := &remote.Repository{Reference: ref, Client: f.registryClient(), MaxMetadataBytes: maxManifest}
	text, got, err := f.manifest(ctx, repository, wanted.String(), rawURL)
	if err != nil {
		return nil, none, err
	}
	if got != wanted {
		return nil, none, permanent(DigestMismatch, "fetch %s: the manifest that the registry sent has the digest %s", rawURL, got)
	}
	manifest, err := parseManifest(text, rawURL)
	if err != nil {
		return nil, none, err
	}
	if len(manifest.Layers) != 1 {
		return nil, none, permanent(UnpackFailed, "fetch %s: its manifest has %d layers, and one was expected: push each file as an artifact of its own, and name "+
			"the manifest, not an index", rawURL, len(manifest.Layers))
	}
	layer := manifest.Layers[0]
	if err := layer.Digest.Validate(); err != nil || layer.Digest.Algorithm() != digest.SHA256 {
		return nil, none, permanent(UnpackFailed, "fetch %s: the digest %q of its layer is no sha256", rawURL, layer.Digest)
	}
	return repository, layer, nil
}

// manifest fetches the manifest that a digest or tag of a repository names, and returns it with its digest.
func (f *Fetcher) manifest(ctx context.Context, repository *remote.Repository, reference, rawURL string) ([]byte, digest.Digest, error) {
	ctx, cancel := context.WithTimeout(ctx, f.config.StallTimeout) // a manifest is small
	defer cancel()
	_, body, err := repository.Manifests().FetchReference(ctx, reference)
	if err != nil {
		return nil, "", f.registryError(ctx, rawURL, transient(DownloadFailed,
			"fetch %s: the registry sent another manifest than was asked for, or none, or leads to a server for tokens that is not permitted; "+
				"the operator's log says what", rawURL), err)
	}
	defer body.Close()
	text, err := io.ReadAll(&io.LimitedReader{R: body, N: maxManifest + 1})
	switch {
	case err != nil:
		return nil, "", transient(DownloadFailed, "fetch %s: read manifest: %w", rawURL, withoutAddresses(err))
	case len(text) > maxManifest:
		return nil, "", tooLarge("fetch %s: its manifest is larger than %d bytes", rawURL, maxManifest)
	}
	return text, digest.FromBytes(text), nil
}

func parseManifest(text []byte, rawURL string) (ocispec.Manifest, error) {
	var out ocispec.Manifest
	if err := json.Unmarshal(text, &out); err != nil {
		return out, permanent(UnpackFailed, "fetch %s: its manifest cannot be read: %w", rawURL, err)
	}
	return out, nil
}

// fetchOCI copies the file that an OCI reference means to dst, verifies its digest and returns it.
func (f *Fetcher) fetchOCI(ctx context.Context, rawURL string, dst io.Writer) (inventory.Digest, error) {
	repository, layer, err := f.resolve(ctx, rawURL)
	if err != nil {
		return inventory.Digest{}, err
	}
	if layer.Size < 0 || layer.Size > f.config.MaxBytes {
		return inventory.Digest{}, tooLarge("fetch %s: %d bytes, the limit is %d", rawURL, layer.Size, f.config.MaxBytes)
	}
	want, err := inventory.ParseDigest(layer.Digest.String())
	if err != nil {
		return inventory.Digest{}, permanent(UnpackFailed, "fetch %s: %w", rawURL, err)
	}
	// The blob is fetched as any file is, so that a transfer that breaks off is resumed.
	ref := repository.Reference
	own := *f
	own.client = repository.Client
	blob := url.URL{Scheme: "https", Host: ref.Host(), Path: "/v2/" + ref.Repository + "/blobs/" + layer.Digest.String()}
	ctx = auth.AppendRepositoryScope(ctx, ref, auth.ActionPull)
	hash := sha256.New()
	if err := own.receive(ctx, blob.String(), layer.Size, io.MultiWriter(hash, storageWriter{dst})); err != nil {
		return inventory.Digest{}, err
	}
	if got := inventory.Digest(hash.Sum(nil)); got != want {
		return inventory.Digest{}, permanent(DigestMismatch, "fetch %s: the registry sent a file with the digest %s, and its manifest names %s", rawURL, got, want)
	}
	return want, nil
}

// registryClient speaks the authentication of registries over the transport of the fetcher. Credentials go to their hosts only.
func (f *Fetcher) registryClient() *auth.Client {
	client := &auth.Client{Client: &http.Client{Transport: f.transport, CheckRedirect: checkRedirect}, Cache: auth.NewCache()}
	if f.access != nil {
		client.Client.Transport = passwords{access: *f.access, next: f.transport}
		client.Credential = func(_ context.Context, host string) (auth.Credential, error) {
			if !f.access.isFor(&url.URL{Scheme: "https", Host: host}) {
				return auth.EmptyCredential, nil
			}
			if f.access.Token != "" {
				return auth.Credential{AccessToken: f.access.Token}, nil
			}
			return auth.Credential{Username: f.access.Username, Password: f.access.Password}, nil
		}
	}
	return client
}

// passwords lets a password pass to its hosts only. A registry says itself which server gives out its tokens, and oras-go would send the
// password there, wherever that is.
type passwords struct {
	access Access
	next   http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (p passwords) RoundTrip(req *http.Request) (*http.Response, error) {
	if _, _, has := req.BasicAuth(); has && !p.access.isFor(req.URL) {
		return nil, fmt.Errorf("%w: the registry gives out tokens at %.200s, which is not among the hosts of the Secret; the password was not sent. "+
			"Add that server to the hosts if the password is for it", errRefused, req.URL.Host)
	}
	return p.next.RoundTrip(req)
}

// registryError is the error of a registry that gave no usable answer: otherwise where it gave one of HTTP that is no refusal.
func (f *Fetcher) registryError(ctx context.Context, rawURL string, otherwise, err error) error {
	if answer := (*errcode.ErrorResponse)(nil); errors.As(err, &answer) {
		u, _ := url.Parse(rawURL)
		return refusedWith(answer.StatusCode, u)
	}
	if errors.Is(err, auth.ErrBasicCredentialNotFound) {
		u, _ := url.Parse(rawURL)
		return refusedWith(http.StatusUnauthorized, u)
	}
	if errors.Is(err, errdef.ErrNotFound) {
		return &Error{Reason: DownloadFailed, absent: true, Err: fmt.Errorf("fetch %s: the registry has no such artifact", rawURL)}
	}
	if failed := (*url.Error)(nil); errors.As(err, &failed) || ctx.Err() != nil {
		return f.noAnswer(ctx, rawURL, err)
	}
	f.config.Log.Warn("Could not read what a registry sent", "url", rawURL, "err", err)
	return otherwise
}

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
