package artifact

import (
	"cmp"
	"context"
	"crypto/sha256"
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
	"sync"
	"sync/atomic"
	"time"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/pause"
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
	// Private are the private networks (RFC 1918, RFC 4193 and others that the internet does not route) from which files may be
	// fetched; others are refused.
	Private []netip.Prefix
	// Refused are further networks whose addresses are not permitted, whatever Private says.
	Refused []netip.Prefix
	// Hosts are names that a proxy may be asked for though this machine cannot look them up. One that begins with a dot stands for all
	// names that end with it.
	Hosts []string
	// Proxy returns the proxy for a request; nil is http.ProxyFromEnvironment.
	Proxy func(*http.Request) (*url.URL, error)
	// Log receives the reason a server did not answer; nil discards it. Errors leave it out, because anyone who may write a source could
	// otherwise explore the operator's network.
	Log *slog.Logger
	// Wait pauses between two attempts at one file and returns early if its context ends; nil waits in real time.
	Wait func(context.Context, time.Duration) error
	// Now is the clock for Retry-After dates; nil means time.Now.
	Now func() time.Time
}

// Fetcher fetches files over http and https and from the file system.
type Fetcher struct {
	config    FetchConfig
	transport *http.Transport
	client    interface {
		Do(*http.Request) (*http.Response, error)
	}
	access *Access
}

// NewFetcher returns a Fetcher.
func NewFetcher(c FetchConfig) *Fetcher {
	c.MaxBytes = cmp.Or(c.MaxBytes, 1<<30)
	c.Timeout = cmp.Or(c.Timeout, 30*time.Minute)
	c.StallTimeout = cmp.Or(c.StallTimeout, time.Minute)
	if c.Proxy == nil {
		c.Proxy = http.ProxyFromEnvironment
	}
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	if c.Wait == nil {
		c.Wait = pause.For
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	permitted := addresses{loopback: c.AllowLoopback, private: c.Private, refused: c.Refused, hosts: c.Hosts}
	proxies := &proxies{}
	transport := &http.Transport{
		Proxy:                 permitted.proxy(c.Proxy, proxies),
		DialContext:           permitted.dialer(proxies),
		TLSHandshakeTimeout:   15 * time.Second,
		ResponseHeaderTimeout: c.StallTimeout,
		ForceAttemptHTTP2:     true,
		MaxIdleConns:          8,
		IdleConnTimeout:       time.Minute,
	}
	return &Fetcher{config: c, transport: transport, client: &http.Client{Transport: transport, CheckRedirect: checkRedirect}}
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

func redacted(rawURL string) string {
	u, err := url.Parse(rawURL)
	if err != nil {
		return "the file"
	}
	return u.Redacted()
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
		return nil, &Error{Reason: DownloadFailed, Transient: true, absent: true, Err: fmt.Errorf("fetch %s: %w: put it there, or correct the URL", u, fs.ErrNotExist)}
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

// Open opens the file behind rawURL for a reader that looks at it as a stream, with the limits of Fetch: the time it may take as a
// whole and without data, its size, and the addresses that are refused. Access is what the server wants to know; nil for a public one.
// Nothing verifies what is read. On failure it returns an *Error, and so do reads.
func (f *Fetcher) Open(ctx context.Context, rawURL string, a *Access) (io.ReadCloser, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, permanent(InvalidSpec, "parse URL %q: %w", rawURL, err)
	}
	own, release, err := f.with(a)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, f.config.Timeout)
	t := &transfer{Fetcher: own, url: u, limit: f.config.MaxBytes}
	body, _, err := t.open(ctx)
	if err != nil {
		cancel()
		release()
		return nil, err
	}
	s := &stream{name: u.Redacted(), body: body, cancel: cancel, release: release, left: f.config.MaxBytes, stall: f.config.StallTimeout, limit: f.config.MaxBytes}
	s.timer = time.AfterFunc(s.stall, func() {
		s.stalled.Store(true)
		s.closeBody()
	})
	context.AfterFunc(ctx, s.closeBody)
	return s, nil
}

// stream is a body that ends itself when nothing arrives.
type stream struct {
	name        string
	body        io.ReadCloser
	cancel      context.CancelFunc
	release     func()
	timer       *time.Timer
	stall       time.Duration
	stalled     atomic.Bool
	limit, left int64
	once        sync.Once
}

func (s *stream) closeBody() { s.once.Do(func() { _ = s.body.Close() }) }

// Read implements io.Reader. The time between two reads is the reader's own and is not counted.
func (s *stream) Read(p []byte) (int, error) {
	if s.left < 0 {
		return 0, tooLarge("fetch %s: larger than the limit of %d bytes", s.name, s.limit)
	}
	s.timer.Reset(s.stall)
	n, err := s.body.Read(p[:min(int64(len(p)), s.left+1)])
	s.timer.Stop()
	if s.left -= int64(n); s.left < 0 {
		return 0, tooLarge("fetch %s: larger than the limit of %d bytes", s.name, s.limit)
	}
	if err != nil && s.stalled.Load() {
		err = noData(s.stall)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return n, transient(DownloadFailed, "fetch %s: interrupted after %d bytes: %w", s.name, s.limit-s.left, withoutAddresses(err))
	}
	return n, err
}

// Close implements io.Closer.
func (s *stream) Close() error {
	s.timer.Stop()
	s.cancel()
	s.closeBody()
	s.release()
	return nil
}

// eagerAfter is after how many bytes the kernel is asked to write them to the disk.
const eagerAfter = 4 << 20

// eager writes a file so that the disk works while the rest is received and hashed: the Sync at the end has little left to do. It
// promises nothing before that Sync, and asks in vain where the kernel or the file system has no such call.
type eager struct {
	*os.File
	size, asked int64
}

// Write appends to the file.
func (e *eager) Write(p []byte) (int, error) {
	n, err := e.File.Write(p)
	if e.size += int64(n); e.size-e.asked >= eagerAfter {
		writeEarly(e.File, e.asked, e.size-e.asked)
		e.asked = e.size
	}
	return n, err
}
