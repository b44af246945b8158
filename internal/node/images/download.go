package images

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/pause"
)

// errDone marks an error that a further attempt would not change.
var errDone = errors.New("not retried")

// errWrong marks an image that was received whole and has another digest. It says nothing about the image that is wanted:
// what lies on the way, or the disk of the image server, is at fault.
var errWrong = errors.New("the image server sent something other than the image; nothing was flashed, and it is fetched again after a pause")

// download fetches an image into the directory. It continues as long as attempts make progress.
func (s *Store) download(ctx context.Context, digest inventory.Digest) error {
	failed := tries{store: s}
	for {
		before := s.received(digest)
		err := s.connected(func(client *http.Client) error { return s.attempt(ctx, client, digest) })
		switch {
		case err == nil:
			return s.commit(digest)
		case ctx.Err() != nil:
			return fmt.Errorf("%w: %w", ErrUnavailable, context.Cause(ctx))
		case isFull(err):
			if s.evict(digest, oneLess) > 0 {
				continue
			}
			return errors.Join(s.unusable("is full; make room there", err), s.discard(digest))
		case errors.Is(err, syscall.EROFS):
			return s.unusable("is read-only; the kernel's log says why", err)
		case errors.Is(err, errWrong) || errors.As(err, new(*driver.RejectedError)):
			if before > 0 && before <= s.config.MaxImageBytes { // the part kept from an earlier fetch may be the wrong one
				continue
			}
			if errors.Is(err, errWrong) {
				return fmt.Errorf("%w: %w", ErrUnavailable, err)
			}
			return err
		case errors.Is(err, errDone):
			return fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
		if s.received(digest) > before {
			failed.progress()
		}
		if err := failed.pause(ctx, err); err != nil {
			return err
		}
	}
}

// connected runs one attempt with a client of its own: the authorities that it trusts may be replaced between two attempts.
func (s *Store) connected(attempt func(*http.Client) error) error {
	client, err := s.client()
	if err != nil {
		return fmt.Errorf("%w: %w", errDone, err)
	}
	defer client.CloseIdleConnections()
	return attempt(client)
}

// client trusts only the certificates in the CA file. It follows no redirects, so that other hosts never get the bearer
// token.
func (s *Store) client() (*http.Client, error) {
	if s.config.Server == "" {
		return nil, errors.New("no image server is configured; start the daemon with --image-server")
	}
	pem, err := os.ReadFile(s.config.CAFile)
	if err != nil {
		return nil, fmt.Errorf("read certificates of the image server: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("read certificates of the image server: %s holds none in PEM", s.config.CAFile)
	}
	d := dialer{tls: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12, Time: s.config.Now}, addressFile: s.config.AddressFile}
	return &http.Client{
		Transport:     &http.Transport{DialTLSContext: d.dial, ResponseHeaderTimeout: s.config.StallTimeout},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

// attempt requests the missing part once and verifies the image when it is complete.
func (s *Store) attempt(ctx context.Context, client *http.Client, digest inventory.Digest) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	part, err := s.open(s.partial(digest))
	if err != nil {
		return fmt.Errorf("open partial image: %w", err)
	}
	defer part.Close()
	sum := sha256.New()
	have, err := io.Copy(sum, part)
	if err != nil {
		return fmt.Errorf("read partial image: %w", err)
	}
	if inventory.Digest(sum.Sum(nil)) == digest { // interrupted after the last byte, before the file got its name
		return s.verify(part, sum, have, digest)
	}
	res, err := s.request(ctx, client, digest, have) //nolint:bodyclose // closed below; the linter does not see through request
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusOK && have > 0 {
		if have, err = 0, restart(part); err != nil {
			return err
		}
		sum.Reset()
	}
	whole := res.ContentLength
	if whole >= 0 {
		whole += have
	}
	if err := s.makeRoom(digest, res.ContentLength, whole); err != nil {
		return err
	}
	stall := time.AfterFunc(s.config.StallTimeout, func() {
		cancel(fmt.Errorf("received nothing for %s", s.config.StallTimeout))
	})
	defer stall.Stop()
	body := readerFunc(func(p []byte) (int, error) {
		n, err := res.Body.Read(p)
		stall.Reset(s.config.StallTimeout)
		return n, err
	})
	n, err := io.Copy(io.MultiWriter(part, sum), io.LimitReader(body, s.config.MaxImageBytes-have+1))
	if err != nil {
		return errors.Join(fmt.Errorf("receive image: %w", err), context.Cause(ctx), part.Sync())
	}
	return s.verify(part, sum, have+n, digest)
}

func (s *Store) request(ctx context.Context, client *http.Client, digest inventory.Digest, have int64) (*http.Response, error) {
	token, err := os.ReadFile(s.config.TokenFile)
	if err != nil {
		return nil, fmt.Errorf("read token for the image server: %w", err)
	}
	url := strings.TrimSuffix(s.config.Server, "/") + "/images/" + digest.String()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, fmt.Errorf("%w: make request: %w", errDone, err)
	}
	req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	if have > 0 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", have))
	}
	res, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("request image: %w", err)
	}
	switch {
	case res.StatusCode == http.StatusOK, res.StatusCode == http.StatusPartialContent && have > 0:
		return res, nil
	}
	defer res.Body.Close()
	return nil, s.refused(res, digest)
}

// refused returns the error for an answer other than the image.
func (s *Store) refused(res *http.Response, digest inventory.Digest) error {
	after, busy := askedToWait(res.Header, s.config.Now())
	switch code := res.StatusCode; {
	case busy && (code == http.StatusServiceUnavailable || code == http.StatusTooManyRequests):
		return &busyError{res.Status, after}
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		return fmt.Errorf("the image server refused the daemon's token (%s); check its audience and service account", res.Status)
	case code == http.StatusNotFound:
		return fmt.Errorf("%w: the image server does not hold the image; check that its FirmwareSource is Ready", errDone)
	case code == http.StatusRequestedRangeNotSatisfiable:
		if err := os.Remove(s.partial(digest)); err != nil {
			return fmt.Errorf("%w: remove partial image: %w", errDone, err)
		}
		return fmt.Errorf("the image server holds less than was received; starting again")
	case code >= 500 || code == http.StatusTooManyRequests:
		return fmt.Errorf("the image server answered %s", res.Status)
	default:
		return fmt.Errorf("%w: the image server answered %s", errDone, res.Status)
	}
}

// verify compares the received file with the digest, and deletes a wrong one.
func (s *Store) verify(part partial, sum hash.Hash, size int64, digest inventory.Digest) error {
	var problem error
	if size > s.config.MaxImageBytes {
		problem = driver.Rejectf("it is larger than %d bytes", s.config.MaxImageBytes)
	} else if got := inventory.Digest(sum.Sum(nil)); got != digest {
		problem = fmt.Errorf("%w: its digest is %s", errWrong, got)
	}
	if problem != nil {
		if err := os.Remove(part.Name()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove rejected image: %w", err)
		}
		return problem
	}
	if err := part.Sync(); err != nil {
		return fmt.Errorf("sync image: %w", err)
	}
	return nil
}

// received is the number of bytes left by an interrupted fetch.
func (s *Store) received(digest inventory.Digest) int64 {
	info, err := os.Stat(s.partial(digest))
	if err != nil {
		return 0
	}
	return info.Size()
}

// restart empties the partial file, for a server that sends the whole image instead of the rest.
func restart(part partial) error {
	if err := part.Truncate(0); err != nil {
		return fmt.Errorf("empty partial image: %w", err)
	}
	if _, err := part.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("rewind partial image: %w", err)
	}
	return nil
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

const (
	// leastPause and mostPause bound what an answer may ask for with Retry-After, before a jitter of up to half of it.
	leastPause, mostPause = time.Second, time.Minute
	// maxBusy is how often in a row the server may ask to come again: for about a quarter of an hour, if it asks for the half of a minute.
	maxBusy = 30
)

// busyError is the answer of a server that says when to come again. It is up, and has others to serve.
type busyError struct {
	status string
	after  time.Duration
}

func (b *busyError) Error() string {
	return fmt.Sprintf("the image server answered %s and asked to retry in %v", b.status, b.after)
}

// askedToWait is how long an answer asks to wait, within bounds. It is not ok where it does not say.
func askedToWait(h http.Header, now time.Time) (after time.Duration, ok bool) {
	after, ok = pause.Asked(h, now)
	return min(max(after, leastPause), mostPause), ok
}

// tries are the attempts of one fetch that ended without what was wanted.
type tries struct {
	store *Store
	// idle and busy are how many in a row made no progress, and how many in a row found the server busy.
	idle, busy int
}

// progress forgets the attempts before one that received something.
func (t *tries) progress() { t.idle, t.busy = 0, 0 }

// pause waits until the next attempt, after one that ended with err. A server that says when to come again is believed within bounds, and
// asked a little later than that, by chance: many nodes were told the same. Its answers do not count as failures, and their number is bounded
// too. It returns an error that wraps ErrUnavailable when there is to be no further attempt.
func (t *tries) pause(ctx context.Context, err error) error {
	config := t.store.config
	if b := (*busyError)(nil); errors.As(err, &b) {
		if t.busy++; t.busy >= maxBusy {
			return fmt.Errorf("%w: gave up after it was busy %d times: %w", ErrUnavailable, t.busy, err)
		}
		jitter := time.Duration(config.Random() * float64(b.after) / 2)
		return unavailable(config.Sleep(ctx, b.after+jitter))
	}
	if t.idle++; t.idle >= config.Attempts {
		return fmt.Errorf("%w: gave up after %d attempts: %w", ErrUnavailable, t.idle, err)
	}
	return unavailable(config.Wait(ctx, t.idle))
}

func unavailable(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}

// connectTimeout is how long one way to the server may take: to look its name up, to connect and to agree on a key.
const connectTimeout = 10 * time.Second

// dialer connects to the image server. The host of the server's URL is where it should be, and what its certificate has to be for,
// whatever the way: a host network has no cluster DNS where the node's resolver comes first, and no route to a Service where nothing
// on the node provides one. The operator's own address needs neither.
type dialer struct {
	tls         *tls.Config
	addressFile string
}

// dial tries the host of the URL, and then the address that the operator published.
func (d dialer) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	conn, err := d.connect(ctx, network, addr, host)
	if err == nil || ctx.Err() != nil {
		return conn, err
	}
	published, err2 := publishedAddress(d.addressFile)
	if err2 == nil && published == "" {
		return nil, err
	}
	if err2 == nil {
		if conn, err2 = d.connect(ctx, network, published, host); err2 == nil {
			return conn, nil
		}
		err2 = fmt.Errorf("the operator's own address: %w", err2)
	}
	return nil, errors.Join(err, err2)
}

// connect returns a connection to the server that the certificate is for; nothing was sent over it yet.
func (d dialer) connect(ctx context.Context, network, addr, name string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	config := d.tls.Clone()
	config.ServerName = name
	return (&tls.Dialer{Config: config}).DialContext(ctx, network, addr)
}

// maxAddress bounds what is read of an address in bytes.
const maxAddress = 256

// publishedAddress reads IP:port from a file; empty when it names none.
func publishedAddress(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read the operator's address: %w", err)
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxAddress))
	if err != nil {
		return "", fmt.Errorf("read the operator's address: %w", err)
	}
	text := strings.TrimSpace(string(raw))
	if text == "" {
		return "", nil
	}
	address, err := netip.ParseAddrPort(text)
	if err != nil {
		return "", fmt.Errorf("read the operator's address: %s: %w", path, err)
	}
	return address.String(), nil
}
