package images_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/node/images"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// shelf is an image server whose answers a test chooses. It keeps the tokens and ranges it was asked with.
type shelf struct {
	answer         http.HandlerFunc
	tokens, ranges []string
}

func (s *shelf) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.tokens = append(s.tokens, r.Header.Get("Authorization"))
	s.ranges = append(s.ranges, r.Header.Get("Range"))
	s.answer(w, r)
}

// scene is a store of a machine and the server it fetches from.
type scene struct {
	*images.Store
	config images.Config
	shelf  *shelf
	waits  int
}

func newScene(t *testing.T, answer http.HandlerFunc, change ...func(*images.Config)) *scene {
	t.Helper()
	s := &scene{shelf: &shelf{answer: answer}}
	server := httptest.NewTLSServer(s.shelf)
	t.Cleanup(server.Close)
	dir := t.TempDir()
	s.config = images.Config{
		Dir: filepath.Join(dir, "images"), Server: server.URL, CAFile: filepath.Join(dir, "ca.crt"),
		TokenFile: filepath.Join(dir, "token"), StallTimeout: time.Minute,
		Wait: func(ctx context.Context, _ int) error { s.waits++; return ctx.Err() },
	}
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	require.NoError(t, os.WriteFile(s.config.CAFile, block, 0o600))
	require.NoError(t, os.WriteFile(s.config.TokenFile, []byte("first\n"), 0o600))
	for _, f := range change {
		f(&s.config)
	}
	var err error
	s.Store, err = images.Open(s.config)
	require.NoError(t, err)
	return s
}

var content = bytes.Repeat([]byte("firmware"), 64<<10)

func digest(b []byte) inventory.Digest { return sha256.Sum256(b) }

func serve(b []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(b))
	}
}

func TestFetchGivesTheVerifiedImage(t *testing.T) {
	s := newScene(t, serve(content))
	path, size, err := s.Fetch(t.Context(), digest(content))
	require.NoError(t, err)
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, content, got)
	assert.EqualValues(t, len(content), size)
	d := digest(content)
	assert.Equal(t, filepath.Join(s.config.Dir, hex.EncodeToString(d[:])), path)
	assert.Equal(t, []string{"Bearer first"}, s.shelf.tokens)
}

func TestFetchUsesAnImageAgainOnlyAfterHashingIt(t *testing.T) {
	s := newScene(t, serve(content))
	path, _, err := s.Fetch(t.Context(), digest(content))
	require.NoError(t, err)
	_, _, err = s.Fetch(t.Context(), digest(content))
	require.NoError(t, err)
	assert.Len(t, s.shelf.tokens, 1, "an image that is here is not fetched")

	require.NoError(t, os.WriteFile(path, []byte("bit rot"), 0o600))
	path, _, err = s.Fetch(t.Context(), digest(content))
	require.NoError(t, err)
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, content, got, "a damaged image is fetched again")
	assert.Len(t, s.shelf.tokens, 2)
}

func TestFetchResumesAfterCutOff(t *testing.T) {
	const half = 1 << 18
	s := newScene(t, nil)
	s.shelf.answer = func(w http.ResponseWriter, r *http.Request) {
		if len(s.shelf.ranges) == 1 {
			w.Header().Set("Content-Length", "524288")
			_, _ = w.Write(content[:half])
			panic(http.ErrAbortHandler)
		}
		require.NoError(t, os.WriteFile(s.config.TokenFile, []byte("renewed"), 0o600))
		serve(content)(w, r)
	}
	_, size, err := s.Fetch(t.Context(), digest(content))
	require.NoError(t, err)
	assert.EqualValues(t, len(content), size)
	require.Len(t, s.shelf.ranges, 2)
	assert.Empty(t, s.shelf.ranges[0])
	assert.Regexp(t, `^bytes=\d+-$`, s.shelf.ranges[1])
	assert.NotEqual(t, "bytes=0-", s.shelf.ranges[1])
}

func TestReadsTokenForEachRequest(t *testing.T) {
	s := newScene(t, nil)
	s.shelf.answer = func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer renewed" {
			require.NoError(t, os.WriteFile(s.config.TokenFile, []byte("renewed"), 0o600))
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		serve(content)(w, r)
	}
	_, _, err := s.Fetch(t.Context(), digest(content))
	require.NoError(t, err)
	assert.Equal(t, []string{"Bearer first", "Bearer renewed"}, s.shelf.tokens)
}

func TestFetchStartsAgainWhenTheServerKnowsNoRanges(t *testing.T) {
	s := newScene(t, nil)
	s.shelf.answer = func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "524288")
		if len(s.shelf.ranges) == 1 {
			_, _ = w.Write(content[:1<<18])
			panic(http.ErrAbortHandler)
		}
		_, _ = w.Write(content)
	}
	_, _, err := s.Fetch(t.Context(), digest(content))
	require.NoError(t, err)
}

func TestFetchRecoversFromAPartialFileThatIsWrong(t *testing.T) {
	s := newScene(t, serve(content))
	d := digest(content)
	partial := filepath.Join(s.config.Dir, hex.EncodeToString(d[:])+".partial")
	for name, left := range map[string][]byte{
		"other bytes": []byte("garbage"), "longer than the image": append(bytes.Clone(content), 'x'), "all of it": content,
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, os.WriteFile(partial, left, 0o600))
			path, _, err := s.Fetch(t.Context(), d)
			require.NoError(t, err)
			assert.NoFileExists(t, partial)
			require.NoError(t, os.Remove(path))
		})
	}
}

// errRejected stands for any *driver.RejectedError in a table.
var errRejected = errors.New("rejected")

func TestFetchSaysWhyThereIsNoImage(t *testing.T) {
	answer := func(code int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code); _, _ = w.Write([]byte(body)) }
	}
	for name, tc := range map[string]struct {
		answer http.HandlerFunc
		change func(*images.Config)
		class  error
		says   string
		asked  int
	}{
		"wrong bytes":            {answer: serve([]byte("not the firmware")), class: images.ErrUnavailable, says: "its digest is", asked: 1},
		"an error page with 200": {answer: answer(200, "<html>"), class: images.ErrUnavailable, says: "its digest is", asked: 1},
		"not there":              {answer: answer(404, "<html>"), class: images.ErrUnavailable, says: "does not hold the image", asked: 1},
		"token refused":          {answer: answer(401, ""), class: images.ErrUnavailable, says: "refused the daemon's token", asked: 5},
		"server broken":          {answer: answer(503, ""), class: images.ErrUnavailable, says: "503", asked: 5},
		"redirect": {answer: func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://elsewhere.example/", http.StatusFound)
		}, class: images.ErrUnavailable, says: "302", asked: 1},
		"too large": {answer: serve(content), class: errRejected, says: "larger than 1000 bytes", asked: 1,
			change: func(c *images.Config) { c.MaxImageBytes = 1000 }},
		"unknown authority": {answer: serve(content), class: images.ErrUnavailable, says: "certificate", asked: 0,
			change: func(c *images.Config) {
				other := httptest.NewTLSServer(nil)
				defer other.Close()
				cert := *other.Certificate()
				cert.Raw[len(cert.Raw)-1] ^= 1 // another certificate than the one all httptest servers share
				_ = os.WriteFile(c.CAFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw}), 0o600)
			}},
		"no CA file":    {answer: serve(content), class: images.ErrUnavailable, says: "no such file", change: func(c *images.Config) { c.CAFile += "x" }},
		"empty CA file": {answer: serve(content), class: images.ErrUnavailable, says: "holds none in PEM", change: func(c *images.Config) { _ = os.WriteFile(c.CAFile, nil, 0o600) }},
		"no server":     {answer: serve(content), class: images.ErrUnavailable, says: "--image-server", change: func(c *images.Config) { c.Server = "" }},
		"stalls": {answer: func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "524288")
			w.WriteHeader(200)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}, class: images.ErrUnavailable, says: "received nothing for 1s", asked: 2,
			change: func(c *images.Config) { c.StallTimeout, c.Attempts = time.Second, 2 }},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.change == nil {
				tc.change = func(*images.Config) {}
			}
			s := newScene(t, tc.answer, tc.change)
			_, _, err := s.Fetch(t.Context(), digest(content))
			if errors.Is(tc.class, errRejected) {
				require.ErrorAs(t, err, new(*driver.RejectedError))
			} else {
				require.ErrorIs(t, err, tc.class)
			}
			assert.ErrorContains(t, err, tc.says)
			assert.Len(t, s.shelf.tokens, tc.asked)
			d := digest(content)
			assert.NoFileExists(t, filepath.Join(s.config.Dir, hex.EncodeToString(d[:])), "nothing unverified has the name of an image")
		})
	}
}

func TestFetchEndsWithItsContext(t *testing.T) {
	s := newScene(t, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(503) })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err := s.Fetch(ctx, digest(content))
	require.ErrorIs(t, err, images.ErrUnavailable)
	require.ErrorIs(t, err, context.Canceled)
}

func TestDirLimitEvictsOldImages(t *testing.T) {
	s := newScene(t, serve(content), func(c *images.Config) { c.MaxDirBytes = int64(len(content)) + 20 })
	put := func(name string, age time.Duration) string {
		path := filepath.Join(s.config.Dir, strings.Repeat(name, 64))
		require.NoError(t, os.WriteFile(path, []byte("0123456789"), 0o600))
		when := time.Now().Add(-age)
		require.NoError(t, os.Chtimes(path, when, when))
		return path
	}
	oldest, older, fresh := put("a", 3*time.Hour), put("b", 2*time.Hour), put("c", time.Minute)
	_, _, err := s.Fetch(t.Context(), digest(content))
	require.NoError(t, err)
	assert.NoFileExists(t, oldest)
	assert.FileExists(t, older)
	assert.FileExists(t, fresh)
}
