package artifact

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nodefirmware/node-firmware-operator/pkg/pause"
)

const (
	// attempts is how often a file is asked for without a byte of progress, and firstPause is how long the first pause is; each
	// further one is twice as long, up to longestPause.
	attempts     = 4
	firstPause   = time.Second
	longestPause = time.Minute
)

// receive copies the file behind rawURL, of at most limit bytes, to dst. A transfer that breaks off goes on where it ended.
func (f *Fetcher) receive(ctx context.Context, rawURL string, limit int64, dst io.Writer) error {
	u, err := url.Parse(rawURL)
	if err != nil {
		return permanent(InvalidSpec, "parse URL %q: %w", rawURL, err)
	}
	ctx, cancel := context.WithTimeout(ctx, f.config.Timeout)
	defer cancel()
	t := &transfer{Fetcher: f, url: u, limit: limit, dst: dst}
	next := firstPause
	for failures := 1; ; failures++ {
		before := t.done
		err := t.attempt(ctx)
		var failed *Error
		if err == nil || ctx.Err() != nil || !errors.As(err, &failed) || !failed.Transient || failed.absent || failed.Reason != DownloadFailed {
			return err
		}
		if t.done > before {
			failures, next = 1, firstPause
		}
		if failures == attempts {
			return err
		}
		if f.config.Wait(ctx, min(max(next, failed.after), longestPause)) != nil {
			return err
		}
		next *= 2
	}
}

// transfer is one file on its way.
type transfer struct {
	*Fetcher
	url   *url.URL
	limit int64
	dst   io.Writer
	// done counts the bytes that dst has.
	done int64
	// whole says that the file is asked for from its first byte, because the server has no part of it.
	whole bool
}

// attempt copies what is left of the file.
func (t *transfer) attempt(ctx context.Context) error {
	body, from, err := t.open(ctx)
	if err != nil {
		return err
	}
	defer body.Close()

	alive := t.alive(body)
	defer alive.timer.Stop()
	// A server that cannot resume sends the file from its beginning. Its digest tells if it is another one by now.
	switch _, err := io.CopyN(io.Discard, alive, t.done-from); {
	case errors.Is(err, io.EOF):
		return transient(DownloadFailed, "fetch %s: the file is shorter than the %d bytes that were received of it; it changed meanwhile, and is fetched "+
			"anew", t.url.Redacted(), t.done)
	case err != nil:
		return transient(DownloadFailed, "fetch %s: interrupted before byte %d: %w", t.url.Redacted(), t.done, withoutAddresses(err))
	}
	n, err := io.Copy(t.dst, io.LimitReader(alive, t.limit+1-t.done))
	t.done += n
	var storage *storageError
	switch {
	case errors.As(err, &storage):
		return transient(StorageFailed, "store %s: %w", t.url.Redacted(), storage.err)
	case err != nil:
		return transient(DownloadFailed, "fetch %s: interrupted after %d bytes: %w", t.url.Redacted(), t.done, withoutAddresses(err))
	case t.done > t.limit:
		return tooLarge("fetch %s: larger than the limit of %d bytes", t.url.Redacted(), t.limit)
	}
	return nil
}

// alive returns a reader that ends with an error when no data come for a while.
func (f *Fetcher) alive(body io.ReadCloser) *stallReader {
	s := &stallReader{body: body, limit: f.config.StallTimeout}
	s.timer = time.AfterFunc(s.limit, s.end)
	return s
}

type stallReader struct {
	body    io.ReadCloser
	timer   *time.Timer
	limit   time.Duration
	stalled atomic.Bool
}

// end closes the body, which ends a Read that waits on it.
func (s *stallReader) end() {
	s.stalled.Store(true)
	_ = s.body.Close()
}

func (s *stallReader) Read(p []byte) (int, error) {
	s.timer.Reset(s.limit)
	n, err := s.body.Read(p)
	if err != nil && s.stalled.Load() { // that the body is closed says nothing to anybody
		err = noData(s.limit)
	}
	return n, err
}

// noData is the error of a transfer that was ended because nothing came.
func noData(limit time.Duration) error { return fmt.Errorf("no data for %s", limit) }

// open opens the file. Its first byte is the one at from, which is not beyond done.
func (t *transfer) open(ctx context.Context) (body io.ReadCloser, from int64, err error) {
	switch u := t.url; {
	case u.User != nil:
		return nil, 0, permanent(InvalidSpec, "fetch %s: a URL must not carry credentials", u.Redacted())
	case u.Scheme == "file":
		body, err = t.openFile(u)
		return body, 0, err
	case u.Scheme == "http" || u.Scheme == "https":
		return t.openHTTP(ctx)
	}
	return nil, 0, permanent(InvalidSpec, "fetch %s: scheme %q is not one of https, http, file", t.url.Redacted(), t.url.Scheme)
}

func (t *transfer) openHTTP(ctx context.Context) (io.ReadCloser, int64, error) {
	u := t.url
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, 0, permanent(InvalidSpec, "fetch %s: %w", u.Redacted(), err)
	}
	// Transparent decompression would hash other bytes than the server stores.
	req.Header.Set("Accept-Encoding", "identity")
	ranged := t.done > 0 && !t.whole
	if ranged {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", t.done))
	}
	resp, err := t.client.Do(req)
	if err != nil {
		return nil, 0, t.noAnswer(ctx, u.Redacted(), err)
	}
	var from int64
	switch code := resp.StatusCode; {
	case code == http.StatusOK:
	case code == http.StatusPartialContent:
		if from, err = rangeStart(resp.Header.Get("Content-Range")); err != nil || !ranged || from != t.done {
			_ = resp.Body.Close()
			return nil, 0, permanent(DownloadFailed, "fetch %s: the server answered with a part that nobody asked for", u.Redacted())
		}
	case code == http.StatusRequestedRangeNotSatisfiable && ranged:
		_ = resp.Body.Close()
		return t.openRest(resp.Header)
	default:
		_ = resp.Body.Close()
		refused := refusedWith(code, u)
		refused.after, _ = pause.Asked(resp.Header, t.config.Now())
		return nil, 0, refused
	}
	if resp.ContentLength > t.limit-from {
		_ = resp.Body.Close()
		return nil, 0, tooLarge("fetch %s: %d bytes, the limit is %d", u.Redacted(), from+resp.ContentLength, t.limit)
	}
	return resp.Body, from, nil
}

// openRest opens what is left of a file of which the server has no part that begins after the last byte received (RFC 9110, 15.5.17). If
// that byte is the last one of the file, the connection broke after it, and nothing is left. Otherwise the file is asked for as a whole.
func (t *transfer) openRest(h http.Header) (io.ReadCloser, int64, error) {
	if length, err := unsatisfied(h.Get("Content-Range")); err == nil && length == t.done {
		return http.NoBody, t.done, nil
	}
	t.whole = true
	return nil, 0, transient(DownloadFailed, "fetch %s: the server does not go on after the %d bytes that were received; the file is fetched anew",
		t.url.Redacted(), t.done)
}

// noAnswer is the error of a request that got no answer of HTTP. It says little, because who may write a source could explore the
// operator's network by it; the log says more.
func (f *Fetcher) noAnswer(ctx context.Context, u string, err error) error {
	switch {
	case errors.Is(err, errRefused):
		return permanent(DownloadFailed, "fetch %s: %w", u, withoutAddresses(err))
	case errors.Is(err, errNotNow):
		return transient(DownloadFailed, "fetch %s: %w", u, withoutAddresses(err))
	case ctx.Err() != nil:
		return transient(DownloadFailed, "fetch %s: %w", u, ctx.Err())
	}
	f.config.Log.Warn("Could not fetch a file", "url", u, "err", err)
	if untrusted := (*tls.CertificateVerificationError)(nil); errors.As(err, &untrusted) {
		return transient(DownloadFailed, "fetch %s: the server's certificate is not trusted; the operator's log says why. If it is of a CA of your own, "+
			"name it in caRef", u)
	}
	return transient(DownloadFailed, "fetch %s: no answer from an HTTP server; check the host name and the port, and that the operator "+
		"can reach them: its log says what happened", u)
}

// refusedWith is the error of an answer without the file.
func refusedWith(code int, u *url.URL) *Error {
	hint := ""
	if code == http.StatusUnauthorized || code == http.StatusForbidden {
		hint = "; name the server's credentials in secretRef, and the server among the hosts of that Secret; if they are there, correct them"
		if u.Scheme == "http" {
			hint = "; credentials are sent over https only: write https in the URL, and name the server's credentials in secretRef"
		}
	}
	return &Error{
		Reason:    DownloadFailed,
		Transient: code >= 500 || code == http.StatusTooManyRequests || code == http.StatusRequestTimeout,
		absent:    code == http.StatusNotFound || code == http.StatusGone,
		Err:       fmt.Errorf("fetch %s: the server answered %d %s%s", u.Redacted(), code, http.StatusText(code), hint),
	}
}

// rangeStart is the first byte of a Content-Range (RFC 9110, 14.4).
func rangeStart(header string) (int64, error) {
	span, ok := strings.CutPrefix(header, "bytes ")
	first, _, both := strings.Cut(span, "-")
	if !ok || !both {
		return 0, errors.New("no range of bytes")
	}
	return strconv.ParseInt(first, 10, 64)
}

// unsatisfied is the length of the file in the Content-Range of an answer without a part of it (RFC 9110, 14.4).
func unsatisfied(header string) (int64, error) {
	length, ok := strings.CutPrefix(header, "bytes */")
	if !ok {
		return 0, errors.New("no length in bytes")
	}
	return strconv.ParseInt(length, 10, 64)
}
