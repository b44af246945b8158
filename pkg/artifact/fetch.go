package artifact

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// FetchConfig bounds what a Fetcher may do.
type FetchConfig struct {
	// FileRoot is the directory below which file URLs may point; empty refuses them.
	FileRoot string
	// MaxBytes bounds a file. Zero means 1 GiB.
	MaxBytes int64
	// Timeout bounds one fetch as a whole. Zero means 30 minutes.
	Timeout time.Duration
	// StallTimeout ends a fetch that receives no data for this long. Zero means one minute.
	StallTimeout time.Duration
	// AllowLoopback permits loopback addresses. Link-local addresses and other addresses of cloud instance metadata are
	// never permitted.
	AllowLoopback bool
	// Refused are further networks whose addresses are not permitted.
	Refused []netip.Prefix
	// Proxy returns the proxy for a request; nil is http.ProxyFromEnvironment.
	Proxy func(*http.Request) (*url.URL, error)
	// Log receives why a server gave no answer; nil for nowhere. Errors do not say it: who may write a source could
	// otherwise explore the operator's network.
	Log *slog.Logger
}

// Fetcher fetches files over http and https and from the file system.
type Fetcher struct {
	config FetchConfig
	client *http.Client
}

// NewFetcher returns a Fetcher.
func NewFetcher(c FetchConfig) *Fetcher {
	if c.MaxBytes == 0 {
		c.MaxBytes = 1 << 30
	}
	if c.Timeout == 0 {
		c.Timeout = 30 * time.Minute
	}
	if c.StallTimeout == 0 {
		c.StallTimeout = time.Minute
	}
	if c.Proxy == nil {
		c.Proxy = http.ProxyFromEnvironment
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	permitted := addresses{loopback: c.AllowLoopback, refused: c.Refused}
	dialer := &net.Dialer{Timeout: 15 * time.Second, Control: func(_, address string, _ syscall.RawConn) error {
		return permitted.permitDialed(address)
	}}
	return &Fetcher{config: c, client: &http.Client{
		Transport: &http.Transport{
			Proxy:                 permitted.proxy(c.Proxy),
			DialContext:           dialer.DialContext,
			TLSHandshakeTimeout:   15 * time.Second,
			ResponseHeaderTimeout: c.StallTimeout,
			ForceAttemptHTTP2:     true,
			MaxIdleConns:          8,
			IdleConnTimeout:       time.Minute,
		},
		CheckRedirect: checkRedirect,
	}}
}

func checkRedirect(req *http.Request, via []*http.Request) error {
	switch {
	case len(via) > 5:
		return fmt.Errorf("%w: more than 5 redirects", errRefused)
	case req.URL.Scheme != "https" && via[0].URL.Scheme == "https":
		return fmt.Errorf("%w: redirect from https to %s", errRefused, req.URL.Scheme)
	}
	return nil
}

// Fetch copies the file behind rawURL to dst and verifies its digest while it does. On failure it returns an *Error,
// and the content of dst must not be used.
func (f *Fetcher) Fetch(ctx context.Context, rawURL string, want inventory.Digest, dst io.Writer) error {
	hash := sha256.New()
	if err := f.receive(ctx, rawURL, f.config.MaxBytes, io.MultiWriter(hash, storageWriter{dst})); err != nil {
		return err
	}
	if got := inventory.Digest(hash.Sum(nil)); got != want {
		return permanent(DigestMismatch, "fetch %s: its digest is %s, the source says %s; correct the URL or the sha256", redacted(rawURL), got, want)
	}
	return nil
}

// receive copies the file behind rawURL, of at most limit bytes, to dst.
func (f *Fetcher) receive(ctx context.Context, rawURL string, limit int64, dst io.Writer) error {
	u, err := url.Parse(rawURL)
	if err != nil {
		return permanent(InvalidSpec, "parse URL %q: %w", rawURL, err)
	}
	ctx, cancel := context.WithTimeout(ctx, f.config.Timeout)
	defer cancel()
	body, err := f.open(ctx, u)
	if err != nil {
		return err
	}
	defer body.Close()

	// The stall timer closes the body, which ends a Read that waits on it.
	timer := time.AfterFunc(f.config.StallTimeout, func() { _ = body.Close() })
	defer timer.Stop()
	alive := readerFunc(func(p []byte) (int, error) {
		timer.Reset(f.config.StallTimeout)
		return body.Read(p)
	})
	n, err := io.Copy(dst, io.LimitReader(alive, limit+1))
	var storage *storageError
	switch {
	case errors.As(err, &storage):
		return transient(StorageFailed, "store %s: %w", u.Redacted(), storage.err)
	case err != nil:
		return transient(DownloadFailed, "fetch %s: interrupted after %d bytes: %w", u.Redacted(), n, withoutAddresses(err))
	case n > limit:
		return permanent(TooLarge, "fetch %s: larger than the limit of %d bytes", u.Redacted(), limit)
	}
	return nil
}

func redacted(rawURL string) string {
	u, err := url.Parse(rawURL)
	if err != nil {
		return "the file"
	}
	return u.Redacted()
}

func (f *Fetcher) open(ctx context.Context, u *url.URL) (io.ReadCloser, error) {
	switch {
	case u.User != nil:
		return nil, permanent(InvalidSpec, "fetch %s: a URL must not carry credentials", u.Redacted())
	case u.Scheme == "file":
		return f.openFile(u)
	case u.Scheme == "http" || u.Scheme == "https":
		return f.openHTTP(ctx, u)
	}
	return nil, permanent(InvalidSpec, "fetch %s: scheme %q is not one of https, http, file", u.Redacted(), u.Scheme)
}

func (f *Fetcher) openHTTP(ctx context.Context, u *url.URL) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, permanent(InvalidSpec, "fetch %s: %w", u.Redacted(), err)
	}
	// Transparent decompression would hash other bytes than the server stores.
	req.Header.Set("Accept-Encoding", "identity")
	resp, err := f.client.Do(req)
	if err != nil {
		if errors.Is(err, errRefused) {
			return nil, permanent(DownloadFailed, "fetch %s: %w", u.Redacted(), withoutAddresses(err))
		}
		if ctx.Err() != nil {
			return nil, transient(DownloadFailed, "fetch %s: %w", u.Redacted(), ctx.Err())
		}
		f.config.Log.Warn("Could not fetch a file", "url", u.Redacted(), "err", err)
		var untrusted *tls.CertificateVerificationError
		if errors.As(err, &untrusted) {
			return nil, transient(DownloadFailed, "fetch %s: the server's certificate is not trusted; the operator's log says why", u.Redacted())
		}
		return nil, transient(DownloadFailed, "fetch %s: no answer from an HTTP server; check the host name and the port, and that the operator "+
			"can reach them: its log says what happened", u.Redacted())
	}
	if resp.StatusCode != http.StatusOK {
		_ = resp.Body.Close()
		retry := resp.StatusCode >= 500 || resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode == http.StatusRequestTimeout
		absent := resp.StatusCode == http.StatusNotFound || resp.StatusCode == http.StatusGone
		return nil, &Error{Reason: DownloadFailed, Transient: retry, absent: absent, Err: fmt.Errorf("fetch %s: the server answered %d %s", u.Redacted(), resp.StatusCode, http.StatusText(resp.StatusCode))}
	}
	if resp.ContentLength > f.config.MaxBytes {
		_ = resp.Body.Close()
		return nil, permanent(TooLarge, "fetch %s: %d bytes, the limit is %d", u.Redacted(), resp.ContentLength, f.config.MaxBytes)
	}
	return resp.Body, nil
}

// withoutAddresses is the cause of a network error, without the addresses that names were resolved to.
func withoutAddresses(err error) error {
	if op := (*net.OpError)(nil); errors.As(err, &op) {
		return op.Err
	}
	return err
}

// openFile opens a file below FileRoot; neither ".." nor a symbolic link leads out of it.
func (f *Fetcher) openFile(u *url.URL) (io.ReadCloser, error) {
	if f.config.FileRoot == "" {
		return nil, permanent(InvalidSpec, "fetch %s: file URLs are disabled; start the operator with --file-source-dir to allow them", u)
	}
	if u.Host != "" {
		return nil, permanent(InvalidSpec, "fetch %s: a file URL has no host; write file:///path", u)
	}
	rel, err := filepath.Rel(f.config.FileRoot, filepath.Clean(u.Path))
	if err != nil || !filepath.IsLocal(rel) {
		return nil, permanent(InvalidSpec, "fetch %s: not below %s", u, f.config.FileRoot)
	}
	root, err := os.OpenRoot(f.config.FileRoot)
	if err != nil {
		return nil, transient(DownloadFailed, "fetch %s: %w", u, err)
	}
	defer root.Close()
	info, err := root.Stat(rel)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &Error{Reason: DownloadFailed, Transient: true, absent: true, Err: fmt.Errorf("fetch %s: %w", u, err)}
	}
	if err != nil {
		return nil, transient(DownloadFailed, "fetch %s: %w", u, err)
	}
	if !info.Mode().IsRegular() {
		return nil, permanent(DownloadFailed, "fetch %s: not a regular file", u)
	}
	file, err := root.Open(rel)
	if err != nil {
		return nil, transient(DownloadFailed, "fetch %s: %w", u, err)
	}
	return file, nil
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// storageWriter marks errors of the destination, to distinguish a full disk from a broken connection.
type storageWriter struct{ w io.Writer }

type storageError struct{ err error }

func (e *storageError) Error() string { return e.err.Error() }

func (s storageWriter) Write(p []byte) (int, error) {
	n, err := s.w.Write(p)
	if err != nil {
		return n, &storageError{err}
	}
	return n, nil
}
