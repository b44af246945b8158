package artifact

import (
	"bytes"
	"context"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// noon is the time of a patient fetcher.
var noon = time.Date(2026, time.July, 1, 12, 0, 0, 0, time.UTC)

// patient is a fetcher that notes how long it would wait.
func patient(waited *[]time.Duration) *Fetcher {
	return loopback(FetchConfig{Now: func() time.Time { return noon }, Wait: func(_ context.Context, d time.Duration) error { *waited = append(*waited, d); return nil }})
}

func TestAnInterruptedTransferGoesOnWhereItEnded(t *testing.T) { // R001-14
	image := bytes.Repeat([]byte("firmware"), 1000)
	breakOff := func(w http.ResponseWriter, from, to int) {
		_, _ = w.Write(image[from:to])
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
	refuseRange := func(w http.ResponseWriter, length string) {
		w.Header().Set("Content-Range", length)
		w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
	}
	for name, tc := range map[string]struct {
		answer func(w http.ResponseWriter, r *http.Request, n int)
		asked  []string // the ranges, in order
		waited []time.Duration
		fails  string
		again  bool // only asked where fails is set
	}{
		"the server can resume": {
			answer: func(w http.ResponseWriter, r *http.Request, n int) {
				from := 0
				if _, err := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &from); err == nil {
					w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(image)-1, len(image)))
					w.WriteHeader(http.StatusPartialContent)
				}
				if n < 3 {
					breakOff(w, from, from+1000)
				}
				_, _ = w.Write(image[from:])
			},
			asked: []string{"", "bytes=1000-", "bytes=2000-"}, waited: []time.Duration{time.Second, time.Second},
		},
		"the server begins again": {
			answer: func(w http.ResponseWriter, _ *http.Request, n int) {
				if n == 1 {
					breakOff(w, 0, 1000)
				}
				_, _ = w.Write(image)
			},
			asked: []string{"", "bytes=1000-"}, waited: []time.Duration{time.Second},
		},
		"the file is another one by now": {
			answer: func(w http.ResponseWriter, _ *http.Request, n int) {
				if n == 1 {
					breakOff(w, 0, 1000)
				}
				_, _ = w.Write(bytes.ToUpper(image))
			},
			asked: []string{"", "bytes=1000-"}, waited: []time.Duration{time.Second}, fails: "its digest is",
		},
		"the server sends another part": {
			answer: func(w http.ResponseWriter, _ *http.Request, n int) {
				if n == 1 {
					breakOff(w, 0, 1000)
				}
				w.Header().Set("Content-Range", "bytes 999-7999/8000")
				w.WriteHeader(http.StatusPartialContent)
				_, _ = w.Write(image[999:])
			},
			asked: []string{"", "bytes=1000-"}, waited: []time.Duration{time.Second}, fails: "a part that nobody asked for",
		},
		"the server sends a part at once": {
			answer: func(w http.ResponseWriter, _ *http.Request, _ int) { w.WriteHeader(http.StatusPartialContent) },
			asked:  []string{""}, fails: "a part that nobody asked for",
		},
		"the server is in trouble, and says for how long": {
			answer: func(w http.ResponseWriter, _ *http.Request, n int) {
				switch n {
				case 1:
					w.Header().Set("Retry-After", "30")
				case 2:
					w.Header().Set("Retry-After", "99999999999999999999")
				}
				w.WriteHeader(http.StatusServiceUnavailable)
			},
			asked: []string{"", "", "", ""}, waited: []time.Duration{30 * time.Second, time.Minute, 4 * time.Second}, fails: "503", again: true,
		},
		"the server is in trouble, and says until when": {
			answer: func(w http.ResponseWriter, _ *http.Request, n int) {
				w.Header().Set("Retry-After", noon.Add([]time.Duration{45 * time.Second, -time.Hour, 24 * time.Hour, 0}[n-1]).Format(http.TimeFormat))
				w.WriteHeader(http.StatusTooManyRequests)
			},
			asked: []string{"", "", "", ""}, waited: []time.Duration{45 * time.Second, 2 * time.Second, time.Minute}, fails: "429", again: true,
		},
		"the connection broke at the very end": {
			answer: func(w http.ResponseWriter, _ *http.Request, n int) {
				if n == 1 {
					breakOff(w, 0, len(image))
				}
				refuseRange(w, "bytes */8000")
			},
			asked: []string{"", "bytes=8000-"}, waited: []time.Duration{time.Second},
		},
		"the file is another one of this length by now": {
			answer: func(w http.ResponseWriter, _ *http.Request, n int) {
				if n == 1 {
					_, _ = w.Write(bytes.ToUpper(image))
					w.(http.Flusher).Flush()
					panic(http.ErrAbortHandler)
				}
				refuseRange(w, "bytes */8000")
			},
			asked: []string{"", "bytes=8000-"}, waited: []time.Duration{time.Second}, fails: "its digest is",
		},
		"the server has no such range, and the file after all": {
			answer: func(w http.ResponseWriter, _ *http.Request, n int) {
				switch n {
				case 1:
					breakOff(w, 0, 5000)
				case 2:
					refuseRange(w, "bytes */4000")
				case 3: // this connection breaks too, before what is held
					breakOff(w, 0, 4000)
				default:
					_, _ = w.Write(image)
				}
			},
			asked: []string{"", "bytes=5000-", "", ""}, waited: []time.Duration{time.Second, 2 * time.Second, 4 * time.Second},
		},
		"the server has no such range, and does not say how long the file is": {
			answer: func(w http.ResponseWriter, r *http.Request, n int) {
				switch {
				case n == 1:
					breakOff(w, 0, len(image))
				case r.Header.Get("Range") != "":
					refuseRange(w, "")
				default:
					_, _ = w.Write(image)
				}
			},
			asked: []string{"", "bytes=8000-", ""}, waited: []time.Duration{time.Second, 2 * time.Second},
		},
		"the file is shorter by now": {
			answer: func(w http.ResponseWriter, r *http.Request, n int) {
				switch {
				case n == 1:
					breakOff(w, 0, 5000)
				case r.Header.Get("Range") != "":
					refuseRange(w, "bytes */4000")
				default:
					_, _ = w.Write(image[:4000])
				}
			},
			asked: []string{"", "bytes=5000-", "", ""}, waited: []time.Duration{time.Second, 2 * time.Second, 4 * time.Second}, fails: "shorter than the 5000 bytes", again: true,
		},
		"the server has no range that nobody asked for": {
			answer: func(w http.ResponseWriter, _ *http.Request, _ int) { refuseRange(w, "bytes */0") },
			asked:  []string{""}, fails: "416",
		},
		"there is no such file": {
			answer: func(w http.ResponseWriter, _ *http.Request, _ int) { w.WriteHeader(http.StatusNotFound) },
			asked:  []string{""}, fails: "404",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var asked []string
			target := serve(t, func(w http.ResponseWriter, r *http.Request) {
				asked = append(asked, r.Header.Get("Range"))
				tc.answer(w, r, len(asked))
			})
			var out bytes.Buffer
			var waited []time.Duration
			err := patient(&waited).Fetch(t.Context(), target, digestOf(image), &out)
			assert.Equal(t, tc.asked, asked)
			assert.Equal(t, tc.waited, waited)
			if tc.fails != "" {
				require.ErrorContains(t, err, tc.fails)
				_, again := ReasonOf(err)
				assert.Equal(t, tc.again, again)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, image, out.Bytes())
		})
	}
}

func TestEndlessBodyOrRedirectEnds(t *testing.T) {
	var target string
	loop := serve(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, target, http.StatusFound) })
	target = loop
	err := loopback(FetchConfig{}).Fetch(t.Context(), loop, digestOf(nil), &bytes.Buffer{})
	require.ErrorContains(t, err, "more than 5 redirects")

	endless := serve(t, func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			_, _ = w.Write(make([]byte, 4096))
		}
	})
	err = loopback(FetchConfig{MaxBytes: 1 << 20}).Fetch(t.Context(), endless, digestOf(nil), &bytes.Buffer{})
	reason, again := ReasonOf(err)
	assert.Equal(t, DownloadFailed, reason)
	assert.False(t, again)

	// A byte now and then keeps a transfer alive, but not for longer than it may take as a whole.
	slow := serve(t, func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			_, _ = w.Write([]byte("x"))
			w.(http.Flusher).Flush()
			select {
			case <-r.Context().Done():
			case <-time.After(5 * time.Millisecond):
			}
		}
	})
	err = loopback(FetchConfig{Timeout: 300 * time.Millisecond}).Fetch(t.Context(), slow, digestOf(nil), &bytes.Buffer{})
	reason, again = ReasonOf(err)
	assert.Equal(t, DownloadFailed, reason)
	assert.True(t, again)
}

func TestChecksRedirectAddresses(t *testing.T) {
	for _, target := range []string{"http://169.254.169.254/latest", "http://[64:ff9b::a9fe:a9fe]/", "http://10.0.0.1/", "http://2852039166/", "http://0x7f.1/"} {
		from := serve(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, target, http.StatusFound) })
		err := loopback(FetchConfig{Timeout: 5 * time.Second}).Fetch(t.Context(), from, digestOf(nil), &bytes.Buffer{})
		assert.ErrorContains(t, err, "refused", target)
	}
}

func TestTheProxyItselfMayBePrivate(t *testing.T) {
	proxy := serve(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.URL.Host) })
	f := NewFetcher(FetchConfig{Proxy: func(r *http.Request) (*url.URL, error) { return url.Parse(proxy) }})
	require.NoError(t, f.Fetch(t.Context(), "http://192.0.2.7/x", digestOf([]byte("192.0.2.7")), &bytes.Buffer{}), "the proxy is on loopback")
	assert.ErrorContains(t, f.Fetch(t.Context(), "http://10.0.0.1/x", digestOf(nil), &bytes.Buffer{}), "--allow-source-networks")
	assert.ErrorContains(t, f.Fetch(t.Context(), proxy, digestOf(nil), &bytes.Buffer{}), "refused", "nobody fetches from the proxy")
	allowed := NewFetcher(FetchConfig{Proxy: func(r *http.Request) (*url.URL, error) { return url.Parse(proxy) }, Private: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}})
	require.NoError(t, allowed.Fetch(t.Context(), "http://10.0.0.1/x", digestOf([]byte("10.0.0.1")), &bytes.Buffer{}))
}

func TestCredentialsGoToTheirHostsOnlyAndOverTLS(t *testing.T) {
	content := []byte("image")
	got := map[string][]string{}
	record := func(name string, then http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			got[name] = append(got[name], r.Header.Get("Authorization"))
			then(w, r)
		}
	}
	send := func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(content) }
	ca := func(s *httptest.Server) []byte {
		return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	}
	other := httptest.NewTLSServer(record("other", send))
	t.Cleanup(other.Close)
	own := httptest.NewTLSServer(record("own", func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Authorization") != "Bearer s3cret":
			w.WriteHeader(http.StatusUnauthorized)
		case r.URL.Path == "/elsewhere":
			http.Redirect(w, r, other.URL, http.StatusFound)
		default:
			send(w, r)
		}
	}))
	t.Cleanup(own.Close)
	plain := serve(t, record("plain", send))
	host := strings.TrimPrefix(own.URL, "https://")
	fetch := func(a *Access, target string) error {
		f, release, err := loopback(FetchConfig{}).with(a)
		require.NoError(t, err)
		defer release()
		return f.Fetch(t.Context(), target, digestOf(content), &bytes.Buffer{})
	}
	trusted := append(ca(own), ca(other)...)
	access := &Access{CA: trusted, Token: "s3cret", Hosts: []string{host, strings.TrimPrefix(plain, "http://")}}

	require.NoError(t, fetch(access, own.URL))
	require.NoError(t, fetch(access, own.URL+"/elsewhere"))
	assert.Equal(t, []string{""}, got["other"], "a redirect takes no credentials along")
	require.NoError(t, fetch(access, plain))
	assert.Equal(t, []string{""}, got["plain"])
	assert.ErrorContains(t, fetch(&Access{CA: trusted}, own.URL), "secretRef")
	assert.ErrorContains(t, fetch(&Access{Token: "s3cret", Hosts: []string{host}}, own.URL), "caRef")
	assert.ErrorContains(t, fetch(&Access{CA: trusted, Username: "u", Password: "p", Hosts: []string{host}}, own.URL), "401")
	assert.Equal(t, "Basic dTpw", got["own"][len(got["own"])-1])
	assert.NotContains(t, fmt.Sprintf("%v %+v %#v", *access, access, access), "s3cret")

	_, _, err := loopback(FetchConfig{}).with(&Access{CA: []byte("no PEM")})
	reason, again := ReasonOf(err)
	assert.Equal(t, InvalidSpec, reason)
	assert.False(t, again)
}
