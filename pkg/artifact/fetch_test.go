package artifact

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

func digestOf(b []byte) inventory.Digest { return sha256.Sum256(b) }

func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

func loopback(c FetchConfig) *Fetcher {
	c.AllowLoopback = true
	if c.Wait == nil {
		c.Wait = func(ctx context.Context, _ time.Duration) error { return ctx.Err() }
	}
	return NewFetcher(c)
}

func TestFetchTakesOnlyTheBytesThatWerePromised(t *testing.T) { // R001-14
	image := bytes.Repeat([]byte("firmware"), 1000)
	good := func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(image) }
	for name, tc := range map[string]struct {
		handler   http.HandlerFunc
		config    FetchConfig
		reason    Reason
		transient bool
		message   string
	}{
		"the right file": {handler: good},
		"an error page with status 404": {
			handler: func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "not found", http.StatusNotFound) },
			reason:  DownloadFailed, message: "404 Not Found",
		},
		"an error page with status 200": {
			handler: func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>sorry</html>") },
			reason:  DigestMismatch, message: "correct the URL or the sha256",
		},
		"a server in trouble is asked again": {
			handler: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) },
			reason:  DownloadFailed, transient: true, message: "502",
		},
		"a connection that breaks off": {
			handler: func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Length", fmt.Sprint(len(image)))
				_, _ = w.Write(image[:100])
				w.(http.Flusher).Flush()
				panic(http.ErrAbortHandler)
			},
			reason: DownloadFailed, transient: true, message: "interrupted",
		},
		"a file that announces itself too large": {
			handler: func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Length", fmt.Sprint(len(image)))
				_, _ = w.Write(image)
			},
			config: FetchConfig{MaxBytes: 100}, reason: DownloadFailed, message: "the limit is 100",
		},
		"a file that turns out too large": {
			handler: func(w http.ResponseWriter, _ *http.Request) {
				w.(http.Flusher).Flush()
				_, _ = w.Write(image)
			},
			config: FetchConfig{MaxBytes: 100}, reason: DownloadFailed, message: "limit of 100 bytes",
		},
		"a server without TLS that wants credentials": {
			handler: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) },
			reason:  DownloadFailed, message: "credentials are sent over https only",
		},
		"a server that stops talking": {
			handler: func(w http.ResponseWriter, r *http.Request) {
				_, _ = w.Write(image[:10])
				w.(http.Flusher).Flush()
				<-r.Context().Done()
			},
			config: FetchConfig{StallTimeout: time.Second}, reason: DownloadFailed, transient: true, message: "interrupted after 10 bytes: no data for 1s",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			err := loopback(tc.config).Fetch(t.Context(), serve(t, tc.handler)+"/fw.bin", digestOf(image), &out)
			if tc.reason == "" {
				require.NoError(t, err)
				assert.Equal(t, image, out.Bytes())
				return
			}
			reason, again := ReasonOf(err)
			assert.Equal(t, tc.reason, reason)
			assert.Equal(t, tc.transient, again)
			assert.ErrorContains(t, err, tc.message)
		})
	}
}

func TestFetchRefusesAddressesOfThisMachineAndOfInstanceMetadata(t *testing.T) {
	target := serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "internal") })
	err := NewFetcher(FetchConfig{}).Fetch(t.Context(), target, digestOf(nil), &bytes.Buffer{})
	reason, again := ReasonOf(err)
	assert.Equal(t, DownloadFailed, reason)
	assert.False(t, again)
	assert.ErrorContains(t, err, "on this machine")
	for address, allowed := range map[string]bool{
		"169.254.169.254:80": false, "[fe80::1]:80": false, "0.0.0.0:80": false, "[::ffff:169.254.169.254]:80": false,
		"[fd00:ec2::254]:80": false, "100.100.100.200:80": false, "168.63.129.16:80": false,
		"192.0.0.192:80": false, "0.1.2.3:80": false, "255.255.255.255:80": false,
		"[64:ff9b::a9fe:a9fe]:80": false, "[64:ff9b::a01:1]:80": true, "[64:ff9b:1::a9fe:a9fe]:80": false, "[64:ff9b::6440:1]:80": false,
		"[2002:a9fe:a9fe::1]:80": false, "[::a9fe:a9fe]:80": false, "[2001:0:1::1]:80": false, "[2001:db8::1]:443": true,
		"10.1.2.3:443": true, "10.2.2.3:443": false, "192.168.0.1:443": false, "172.16.0.1:443": false, "[fd12::1]:443": false, "[64:ff9b::a02:1]:80": false,
		"198.18.0.1:443": false, "198.19.1.1:443": true, "240.0.0.1:443": false, "192.0.0.10:443": false, "[fec0::1]:443": false, "[::ffff:0:a9fe:a9fe]:80": false,
		"100.65.0.1:443": false, "192.0.2.7:443": true, "127.0.0.1:80": true, "[::1]:80": true, "100.64.0.1:80": false, "[fe80::1%eth0]:80": false,
	} {
		permitted := addresses{loopback: true, private: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("100.64.0.0/16"), netip.MustParsePrefix("198.19.0.0/16")},
			refused: []netip.Prefix{netip.MustParsePrefix("100.64.0.0/10")}}
		assert.Equal(t, allowed, permitted.permitDialed(address) == nil, address)
	}
}

// A proxy may reach what the operator may not.
func TestFetchThroughAProxyIsRefusedTheSameAddresses(t *testing.T) {
	asked := 0
	proxy := serve(t, func(w http.ResponseWriter, _ *http.Request) { asked++; fmt.Fprint(w, "internal") })
	f := loopback(FetchConfig{Proxy: func(*http.Request) (*url.URL, error) { return url.Parse(proxy) }, Refused: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/12")}})
	for _, target := range []string{"http://169.254.169.254/x", "http://[64:ff9b::a9fe:a9fe]/x", "http://10.96.0.1/x", "http://192.168.1.1/x"} {
		err := f.Fetch(t.Context(), target, digestOf(nil), &bytes.Buffer{})
		_, again := ReasonOf(err)
		assert.False(t, again, target)
		assert.ErrorContains(t, err, "refused", target)
	}
	assert.Zero(t, asked)
	require.NoError(t, f.Fetch(t.Context(), "http://192.0.2.7/x", digestOf([]byte("internal")), &bytes.Buffer{}))
	assert.Equal(t, 1, asked)
}

// Who may write a source must not learn from its status which ports of the operator's network are open, and what is behind them.
func TestErrorsDoNotSayWhatAnswered(t *testing.T) {
	noHTTP, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go func() {
		for {
			c, err := noHTTP.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte("SSH-2.0-secret\r\n"))
			_ = c.Close()
		}
	}()
	t.Cleanup(func() { _ = noHTTP.Close() })
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	var log bytes.Buffer
	f := loopback(FetchConfig{Log: slog.New(slog.NewTextHandler(&log, nil))})
	said := map[string]bool{}
	for _, l := range []net.Listener{noHTTP, closed} {
		err := f.Fetch(t.Context(), "http://"+l.Addr().String()+"/x", digestOf(nil), &bytes.Buffer{})
		_, again := ReasonOf(err)
		assert.True(t, again)
		said[strings.ReplaceAll(err.Error(), l.Addr().String(), "HOST")] = true
	}
	assert.Len(t, said, 1, "%v", said)
	assert.Contains(t, log.String(), "connection refused", "the log says it")
}

func TestFetchFollowsNoRedirectFromHTTPSToHTTP(t *testing.T) {
	https, _ := url.Parse("https://a/")
	plain, _ := url.Parse("http://b/")
	assert.ErrorIs(t, checkRedirect(&http.Request{URL: plain}, []*http.Request{{URL: https}}), errRefused)
	assert.NoError(t, checkRedirect(&http.Request{URL: https}, []*http.Request{{URL: plain}}))
	assert.ErrorIs(t, checkRedirect(&http.Request{URL: https}, []*http.Request{{URL: https}, {}, {}, {}, {}, {}}), errRefused)
}

func TestFetchStaysBelowItsRoot(t *testing.T) {
	root := t.TempDir()
	secret := filepath.Join(t.TempDir(), "secret")
	content := []byte("image")
	require.NoError(t, os.WriteFile(secret, content, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(root, "fw.bin"), content, 0o600))
	require.NoError(t, os.Symlink(secret, filepath.Join(root, "link")))
	f := loopback(FetchConfig{FileRoot: root})

	require.NoError(t, f.Fetch(t.Context(), "file://"+root+"/fw.bin", digestOf(content), &bytes.Buffer{}))
	for _, bad := range []string{"file://" + root + "/link", "file://" + secret, "file://" + root + "/../x", "file://host" + root + "/fw.bin", "file://" + root, "ftp://h/x"} {
		assert.Error(t, f.Fetch(t.Context(), bad, digestOf(content), &bytes.Buffer{}), bad)
	}
	err := f.Fetch(t.Context(), "file://"+root+"/gone.bin", digestOf(content), &bytes.Buffer{})
	assert.EqualError(t, err, "fetch file://"+root+"/gone.bin: file does not exist: put it there, or correct the URL")
	err = NewFetcher(FetchConfig{}).Fetch(t.Context(), "file://"+root+"/fw.bin", digestOf(content), &bytes.Buffer{})
	assert.ErrorContains(t, err, "file URLs are disabled")
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

func TestFetchTellsAFullDiskFromABrokenDownload(t *testing.T) {
	target := serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "image") })
	reason, again := ReasonOf(loopback(FetchConfig{}).Fetch(t.Context(), target, digestOf([]byte("image")), fullDisk{}))
	assert.Equal(t, StorageFailed, reason)
	assert.True(t, again)
}

func TestFetchEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	target := serve(t, func(w http.ResponseWriter, r *http.Request) { cancel(); <-r.Context().Done() })
	assert.ErrorIs(t, loopback(FetchConfig{}).Fetch(ctx, target, digestOf(nil), &bytes.Buffer{}), context.Canceled)
}
