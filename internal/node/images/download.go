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
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// errDone marks an error that a further attempt would not change.
var errDone = errors.New("not retried")

// errWrong marks an image that was received whole and has another digest. It says nothing about the image that is wanted:
// what lies on the way, or the disk of the image server, is at fault.
var errWrong = errors.New("the image server sent something else than the image; nothing was flashed, and it is fetched again after a pause")

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
