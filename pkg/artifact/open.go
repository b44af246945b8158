package artifact

import (
	"context"
	"errors"
	"io"
	"net/url"
	"sync"
	"sync/atomic"
	"time"
)

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
