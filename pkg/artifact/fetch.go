package artifact

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
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
	dialer := &net.Dialer{Timeout: 15 * time.Second, Control: func(_, address string, _ syscall.RawConn) error {
		return permittedAddress(address, c.AllowLoopback)
	}}
	return &Fetcher{config: c, client: &http.Client{
		Transport: &http.Transport{
			Proxy:                 http.ProxyFromEnvironment,
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

// errRefused marks addresses and redirects that are refused for safety; no retry helps.
var errRefused = errors.New("refused")

// metadataAddresses are addresses of cloud instance metadata outside the link-local range: AWS (IPv6), Alibaba and
// Azure.
var metadataAddresses = [...]netip.Addr{
	netip.MustParseAddr("fd00:ec2::254"), netip.MustParseAddr("100.100.100.200"), netip.MustParseAddr("168.63.129.16"),
}

// permittedAddress is called after name resolution, so that a host name cannot hide a refused address.
func permittedAddress(hostport string, allowLoopback bool) error {
	addr, err := netip.ParseAddrPort(hostport)
	if err != nil {
		return fmt.Errorf("%w: address %s", errRefused, hostport)
	}
	ip := addr.Addr().Unmap()
	switch {
	case ip.IsLinkLocalUnicast(), ip.IsMulticast(), ip.IsUnspecified():
		return fmt.Errorf("%w: address %s is link-local, multicast or unspecified", errRefused, ip)
	case slices.Contains(metadataAddresses[:], ip):
		return fmt.Errorf("%w: address %s holds a cloud's instance metadata", errRefused, ip)
	case ip.IsLoopback() && !allowLoopback:
		return fmt.Errorf("%w: address %s is on this machine", errRefused, ip)
	}
	return nil
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
	hash := sha256.New()
	alive := readerFunc(func(p []byte) (int, error) {
		timer.Reset(f.config.StallTimeout)
		return body.Read(p)
	})
	n, err := io.Copy(io.MultiWriter(hash, storageWriter{dst}), io.LimitReader(alive, f.config.MaxBytes+1))
	var storage *storageError
	switch {
	case errors.As(err, &storage):
		return transient(StorageFailed, "store %s: %w", u.Redacted(), storage.err)
	case err != nil:
		return transient(DownloadFailed, "fetch %s: interrupted after %d bytes: %w", u.Redacted(), n, err)
	case n > f.config.MaxBytes:
		return permanent(TooLarge, "fetch %s: larger than the limit of %d bytes", u.Redacted(), f.config.MaxBytes)
	}
	if got := inventory.Digest(hash.Sum(nil)); got != want {
		return permanent(DigestMismatch, "fetch %s: its digest is %s, the source says %s; correct the URL or the sha256", u.Redacted(), got, want)
	}
	return nil
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
			return nil, permanent(DownloadFailed, "fetch %s: %w", u.Redacted(), err)
		}
		return nil, transient(DownloadFailed, "fetch %s: %w", u.Redacted(), err)
	}
	if resp.StatusCode != http.StatusOK {
		_ = resp.Body.Close()
		retry := resp.StatusCode >= 500 || resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode == http.StatusRequestTimeout
		return nil, &Error{Reason: DownloadFailed, Transient: retry, Err: fmt.Errorf("fetch %s: the server answered %s", u.Redacted(), resp.Status)}
	}
	if resp.ContentLength > f.config.MaxBytes {
		_ = resp.Body.Close()
		return nil, permanent(TooLarge, "fetch %s: %d bytes, the limit is %d", u.Redacted(), resp.ContentLength, f.config.MaxBytes)
	}
	return resp.Body, nil
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
