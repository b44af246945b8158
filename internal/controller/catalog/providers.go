package catalog

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/url"
	"path"
	"runtime/debug"
	"slices"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/therootcompany/xz"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/quarantine"
	"github.com/nodefirmware/node-firmware-operator/pkg/artifact"
	"github.com/nodefirmware/node-firmware-operator/pkg/catalog"
)

const (
	// maxSigned bounds signed metadata as it is downloaded, in bytes: it is in memory until its signature is verified.
	maxSigned = 32 << 20
	// maxSignature bounds its signature.
	maxSignature = 1 << 20
)

// Network opens what a provider offers. The fetcher of the sources is one, with the same limits and refused addresses. What it returns
// fails when the context ends.
type Network interface {
	// Open returns the content behind a URL.
	Open(ctx context.Context, url string, access *artifact.Access) (io.ReadCloser, error)
	// Tags lists the tags of the repository of an OCI registry.
	Tags(ctx context.Context, url string, access *artifact.Access) iter.Seq2[artifact.Tag, error]
}

// question is what a discovery asks.
type question struct {
	providers []v1alpha1.CatalogProvider
	query     catalog.Query
	// versions to keep of each component.
	versions int
	// kept are earlier answers of providers that are not asked again.
	kept []Answered
	// before are the last answers to the same question. What a provider that fails offered then stays.
	before []Answered
	// signed is when the metadata was signed that was used last, by provider. Older ones are refused.
	signed map[string]time.Time
}

// ask asks the providers of a catalog one after the other, except the sources, which need not be asked.
func (r *Reconciler) ask(ctx context.Context, q question) []Answered {
	var out []Answered
	for i := range q.providers {
		p := &q.providers[i]
		if at := slices.IndexFunc(q.kept, func(a Answered) bool { return a.Provider == p.Name }); at >= 0 {
			out = append(out, q.kept[at])
			continue
		}
		a := Answered{Provider: p.Name}
		if isAsked(*p) {
			a = r.askWithin(ctx, len(q.providers)-i, p, q)
		}
		if at := slices.IndexFunc(q.before, func(b Answered) bool { return b.Provider == p.Name }); a.Err != nil && at >= 0 {
			a.Collected = q.before[at].Collected
		}
		a.At = r.now()
		out = append(out, a)
	}
	return out
}

// askWithin asks one provider within its share of the time that is left for so many, so that one that hangs leaves time for the others.
func (r *Reconciler) askWithin(ctx context.Context, shares int, p *v1alpha1.CatalogProvider, q question) Answered {
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(deadline)/time.Duration(shares)) // deadlines of contexts are of the machine's clock
		defer cancel()
	}
	out, err := r.askSafely(ctx, p, q)
	var fetched *artifact.Error
	if errors.As(err, &fetched) {
		switch { // the others are of the download
		case artifact.IsTooLarge(err), fetched.Reason == artifact.UnpackFailed:
			err = &catalog.Error{Reason: catalog.InvalidCatalog, Err: err}
		}
	}
	if ctx.Err() != nil && err != nil {
		err = &catalog.Error{Reason: catalog.TimedOut, Err: fmt.Errorf("the discovery did not end in time: %w", ctx.Err())}
	}
	out.Provider, out.Err = p.Name, err
	return out
}

// askSafely makes a parser that panics at what somebody else serves an answer that cannot be used. A discovery runs beside the reconcilers,
// where a panic is the end of the operator, which would ask again as soon as it is back.
func (r *Reconciler) askSafely(ctx context.Context, p *v1alpha1.CatalogProvider, q question) (out Answered, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			log.FromContext(ctx).Error(fmt.Errorf("panic: %v", cause), "Could not read what a provider answered", "url", p.URL, "stack", string(debug.Stack()))
			out, err = Answered{}, &catalog.Error{Reason: catalog.InvalidCatalog,
				Err: errors.New("read catalog: its content breaks the program that reads it; the operator's log says where")}
		}
	}()
	return r.askOne(ctx, p, q)
}

func (r *Reconciler) askOne(ctx context.Context, p *v1alpha1.CatalogProvider, q question) (out Answered, err error) {
	if r.network == nil {
		return out, &catalog.Error{Reason: catalog.InvalidCatalog, Err: errors.New("this operator opens no connections for catalogs")}
	}
	allowed, err := r.access.Of(ctx, "spec.providers["+p.Name+"]", p.SecretRef, p.CARef)
	if err != nil {
		return out, err
	}
	if p.Type == v1alpha1.ProviderOCI {
		oci := catalog.OCI{Repository: p.URL, Registry: repository{r.network, p.URL, allowed}, Limits: r.limits}
		out.Collected, err = catalog.Collect(ctx, oci, q.query, q.versions)
		return out, err
	}
	body, signed, err := r.open(ctx, p, allowed)
	if err != nil {
		return out, err
	}
	defer body.Close()
	if used := q.signed[p.Name]; signed.Before(used) {
		return out, &catalog.Error{Reason: catalog.Replayed, Err: fmt.Errorf("the metadata was signed %s, and one that was signed %s was used already; "+
			"the mirror is behind, or somebody holds newer metadata back", when(signed), when(used))}
	}
	plain, err := decompress(body)
	if err != nil {
		return out, err
	}
	var provider catalog.Provider
	switch p.Type {
	case v1alpha1.ProviderLVFS:
		provider = catalog.LVFS{Metadata: plain, Base: p.BaseURL, Limits: r.limits}
	case v1alpha1.ProviderDell:
		provider = catalog.Dell{Catalog: plain, Limits: r.limits}
	case v1alpha1.ProviderIndex:
		provider = catalog.Index{JSON: plain, Limits: r.limits}
	default:
		return out, &catalog.Error{Reason: catalog.InvalidCatalog, Err: fmt.Errorf("this operator knows no provider of type %s", p.Type)}
	}
	out.Signed = signed
	out.Collected, err = catalog.Collect(ctx, provider, q.query, q.versions)
	return out, err
}

func when(t time.Time) string {
	if t.IsZero() {
		return "at no known time"
	}
	return "at " + t.UTC().Format(time.RFC3339)
}

// open opens the metadata of a provider. Of LVFS it returns what the signature covers and when it was signed, and nothing before the
// signature is verified.
func (r *Reconciler) open(ctx context.Context, p *v1alpha1.CatalogProvider, allowed *artifact.Access) (body io.ReadCloser, signed time.Time, err error) {
	if p.Type != v1alpha1.ProviderLVFS {
		body, err = r.network.Open(ctx, p.URL, allowed)
		return body, signed, err
	}
	roots, err := catalog.ParseRoots([]byte(p.Signers))
	if err != nil {
		return nil, signed, err
	}
	u, err := url.Parse(p.URL)
	if err != nil {
		return nil, signed, fmt.Errorf("parse url: %w", err)
	}
	name := path.Base(u.Path)
	content, err := r.read(ctx, p.URL, allowed, maxSigned)
	if err != nil {
		return nil, signed, err
	}
	beside := *u
	beside.Path += ".jcat"
	signature, err := r.read(ctx, beside.String(), allowed, maxSignature)
	if err != nil {
		return nil, signed, fmt.Errorf("fetch signature: %w", err)
	}
	if signed, err = catalog.VerifyJcat(signature, content, name, roots, r.now()); err != nil {
		return nil, signed, err
	}
	return io.NopCloser(bytes.NewReader(content)), signed, nil
}

func (r *Reconciler) read(ctx context.Context, url string, allowed *artifact.Access, limit int64) ([]byte, error) {
	body, err := r.network.Open(ctx, url, allowed)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	content, err := io.ReadAll(io.LimitReader(body, limit+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("fetch %s: %w", url, err)
	case int64(len(content)) > limit:
		return nil, &catalog.Error{Reason: catalog.InvalidCatalog, Err: fmt.Errorf("fetch %s: larger than %d bytes", url, limit)}
	}
	return content, nil
}

// entriesOf are the images of the sources, with the name of the source. An image that is quarantined on every node is not offered. The
// message names the first image that cannot be listed; it is empty when there is none.
func entriesOf(sources []v1alpha1.FirmwareSource, bad quarantine.Set) (out catalog.Entries, message string) {
	for i := range sources {
		s := &sources[i]
		for _, image := range s.Status.Images {
			if bad.HoldsEverywhere(image.Digest) {
				continue
			}
			e := catalog.Entry{
				Class: string(image.Class), Vendor: image.Vendor, Models: image.Models, BoardIDs: image.BoardIDs, Version: image.Version,
				Digest: string(image.Digest), Source: s.Name,
			}
			if err := e.Check(); err != nil {
				message = cmp.Or(message, fmt.Sprintf("An image of source %s is not listed: %v.", s.Name, err))
				continue
			}
			out = append(out, e)
		}
	}
	return out, message
}

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

// maxWindow bounds what a decompressor keeps for looking back, in bytes. xz -8 and zstd -19 need 32 and 8 MiB.
const maxWindow = 32 << 20

// The first bytes of compressed files.
var (
	gzipMagic = []byte{0x1f, 0x8b}
	xzMagic   = []byte{0xfd, '7', 'z', 'X', 'Z', 0}
	zstdMagic = []byte{0x28, 0xb5, 0x2f, 0xfd}
	cabMagic  = []byte("MSCF")
)

// decompress undoes gzip, xz and zstd, which it recognizes by the first bytes, as a stream. It refuses a cabinet rather than to hand it
// to a parser. How much may come out is for the parser to bound.
func decompress(r io.Reader) (io.Reader, error) {
	b := bufio.NewReader(r)
	head, err := b.Peek(6)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read catalog: %w", err)
	}
	var out io.Reader
	switch {
	case bytes.HasPrefix(head, gzipMagic):
		out, err = gzip.NewReader(b)
	case bytes.HasPrefix(head, xzMagic):
		out, err = xz.NewReader(b, maxWindow)
	case bytes.HasPrefix(head, zstdMagic):
		out, err = zstd.NewReader(b, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
	case bytes.HasPrefix(head, cabMagic):
		return nil, &catalog.Error{Reason: catalog.InvalidCatalog, Err: errors.New("decompress catalog: it is a cabinet; name the metadata itself")}
	default:
		return b, nil
	}
	if err = named(err); err != nil {
		var known *catalog.Error
		if !errors.As(err, &known) {
			err = &catalog.Error{Reason: catalog.InvalidCatalog, Err: fmt.Errorf("decompress catalog: %w", err)}
		}
		return nil, err
	}
	return decompressed{out}, nil
}

// decompressed names the reason of what a decompressor reports while it is read.
type decompressed struct{ r io.Reader }

func (d decompressed) Read(p []byte) (int, error) {
	n, err := d.r.Read(p)
	return n, named(err)
}

// named gives errors of decompressors the reason they have: one that needs too much memory, and a file that ends in the middle.
func named(err error) error {
	switch {
	case errors.Is(err, xz.ErrMemlimit), errors.Is(err, zstd.ErrWindowSizeExceeded), errors.Is(err, zstd.ErrDecoderSizeExceeded):
		return &catalog.Error{Reason: catalog.InvalidCatalog, Err: fmt.Errorf("decompress catalog: it needs more than %d MiB to look back: %w", maxWindow>>20, err)}
	case errors.Is(err, io.ErrUnexpectedEOF):
		return &catalog.Error{Reason: catalog.DownloadFailed, Err: errors.New("decompress catalog: it ends in the middle")}
	}
	return err
}
