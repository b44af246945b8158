package artifact

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// tag points a tag at an artifact with one layer and returns the digest of its manifest.
func (h *hub) tag(name, layer, annotation string) inventory.Digest {
	_, plain := h.push(layer)
	text := strings.Replace(string(h.blobs["/v2/fw/cx/manifests/"+plain.String()]), "{", `{"annotations":{"for":"`+annotation+`"},`, 1)
	h.blobs["/v2/fw/cx/manifests/"+name] = []byte(text)
	return digestOf([]byte(text))
}

func (h *hub) list(names ...string) {
	text, _ := json.Marshal(map[string]any{"name": "fw/cx", "tags": names})
	h.blobs["/v2/fw/cx/tags/list"] = text
}

func (h *hub) repository() string { return "oci://" + h.host() + "/fw/cx" }

// collect lists all tags, or returns the error.
func collect(ctx context.Context, f *Fetcher, url string, a *Access) ([]Tag, error) {
	var out []Tag
	for tag, err := range f.Tags(ctx, url, a) {
		if err != nil {
			return nil, err
		}
		out = append(out, tag)
	}
	return out, nil
}

func TestTagsAreResolvedToDigests(t *testing.T) {
	h := newHub(t)
	h.private = true
	h.list("v1", "gone", "v2", "several")
	a := h.access()
	a.Username, a.Password, a.Hosts = "u", "s3cret", []string{h.host()}
	first, second := h.tag("v1", "ONE", "a"), h.tag("v2", "TWO", "b")
	h.blobs["/v2/fw/cx/manifests/several"] = []byte(`{"layers":[]}`)
	list := func() []Tag {
		out, err := collect(t.Context(), loopback(FetchConfig{}), h.repository(), a)
		require.NoError(t, err)
		return out
	}
	assert.Equal(t, []Tag{
		{Name: "v1", Manifest: first, File: digestOf([]byte("ONE")), Annotations: map[string]string{"for": "a"}},
		{Name: "v2", Manifest: second, File: digestOf([]byte("TWO")), Annotations: map[string]string{"for": "b"}},
		{Name: "several", Manifest: digestOf([]byte(`{"layers":[]}`))},
	}, list())
	moved := h.tag("v1", "ANOTHER", "a")
	assert.Equal(t, moved, list()[0].Manifest, "a tag that is moved shows another digest")
}

func TestRejectsBadTagListing(t *testing.T) {
	for name, tc := range map[string]struct {
		change  func(h *hub)
		url     func(h *hub) string
		reason  Reason
		message string
	}{
		"a tag in the URL":     {url: func(h *hub) string { return h.repository() + ":v1" }, reason: InvalidSpec, message: "without a tag"},
		"no repository":        {url: func(h *hub) string { return "oci://" + h.host() }, reason: InvalidSpec, message: "without a tag"},
		"no registry":          {url: func(h *hub) string { return "https://" + h.host() + "/fw/cx" }, reason: InvalidSpec, message: "oci://"},
		"no such repository":   {change: func(h *hub) { delete(h.blobs, "/v2/fw/cx/tags/list") }, reason: DownloadFailed, message: "404"},
		"a page of HTML":       {change: func(h *hub) { h.blobs["/v2/fw/cx/tags/list"] = []byte("<html>") }, reason: UnpackFailed, message: "something else"},
		"a name that is none":  {change: func(h *hub) { h.list("v1", "../../v2") }, reason: UnpackFailed, message: "is no tag"},
		"a name for terminals": {change: func(h *hub) { h.list("\x1b[2J") }, reason: UnpackFailed, message: "is no tag"},
		"tags without end":     {change: func(h *hub) { h.list(strings.Fields(strings.Repeat("v1 ", maxTags+1))...) }, reason: DownloadFailed, message: "more than 1000"},
		"a list without end":   {change: func(h *hub) { h.blobs["/v2/fw/cx/tags/list"] = []byte(`{"tags":["` + strings.Repeat("x", maxManifest)) }, reason: UnpackFailed},
		"a manifest of HTML":   {change: func(h *hub) { h.blobs["/v2/fw/cx/manifests/v1"] = []byte("<html>") }, reason: UnpackFailed, message: "cannot be read"},
		"a password":           {change: func(h *hub) { h.private = true }, reason: DownloadFailed},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHub(t)
			h.list("v1")
			h.tag("v1", "ONE", "a")
			url := h.repository()
			if tc.url != nil {
				url = tc.url(h)
			}
			if tc.change != nil {
				tc.change(h)
			}
			_, err := collect(t.Context(), loopback(FetchConfig{}), url, h.access())
			require.Error(t, err)
			reason, _ := ReasonOf(err)
			assert.Equal(t, tc.reason, reason, "%v", err)
			assert.ErrorContains(t, err, tc.message)
		})
	}
}

func TestTagListingIsBounded(t *testing.T) {
	var asked atomic.Int32
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", fmt.Sprintf(`</v2/fw/cx/tags/list?last=%d>; rel="next"`, asked.Add(1)))
		fmt.Fprint(w, `{"tags":[]}`)
	}))
	t.Cleanup(server.Close)
	h := &hub{Server: server}
	_, err := collect(t.Context(), loopback(FetchConfig{}), h.repository(), h.access())
	reason, _ := ReasonOf(err)
	assert.Equal(t, DownloadFailed, reason, "%v", err)
	assert.LessOrEqual(t, asked.Load(), int32(maxTagPages+1))

	h = newHub(t)
	h.list("v1", "v2")
	h.tag("v1", "ONE", "a")
	h.tag("v2", "TWO", "a")
	_, err = collect(t.Context(), loopback(FetchConfig{MaxBytes: 300}), h.repository(), h.access())
	reason, _ = ReasonOf(err)
	assert.Equal(t, DownloadFailed, reason, "%v", err)
}

// A registry that hangs, in the list or in a manifest, does so for the time of a stall.
func TestARegistryThatHangsIsLeft(t *testing.T) {
	for _, path := range []string{"/v2/fw/cx/tags/list", "/v2/fw/cx/manifests/v1"} {
		t.Run(path, func(t *testing.T) {
			hang := make(chan struct{})
			h := newHub(t)
			h.list("v1")
			h.tag("v1", "ONE", "a")
			inner := h.Config.Handler
			h.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == path {
					w.Header().Set("Content-Length", "1000")
					_, _ = w.Write([]byte("{"))
					w.(http.Flusher).Flush()
					<-hang
					return
				}
				inner.ServeHTTP(w, r)
			})
			t.Cleanup(func() { close(hang) })
			_, err := collect(t.Context(), loopback(FetchConfig{StallTimeout: 500 * time.Millisecond}), h.repository(), h.access())
			require.Error(t, err)
			reason, again := ReasonOf(err)
			assert.Equal(t, DownloadFailed, reason, "%v", err)
			assert.True(t, again)
		})
	}
}

// The rules for addresses are those of sources, and a registry cannot have the password sent without TLS.
func TestARegistryLeadsNowhereElse(t *testing.T) {
	h := newHub(t)
	h.list("v1")
	_, err := collect(t.Context(), NewFetcher(FetchConfig{}), h.repository(), h.access())
	require.ErrorContains(t, err, "refused", "a registry on this machine")

	told := make(chan string, 10)
	plain := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { told <- r.Header.Get("Authorization") }))
	t.Cleanup(plain.Close)
	h.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Www-Authenticate", fmt.Sprintf(`Bearer realm="%s/token",service="hub"`, plain.URL))
		w.WriteHeader(http.StatusUnauthorized)
	})
	a := h.access()
	a.Username, a.Password, a.Hosts = "u", "s3cret", []string{strings.TrimPrefix(plain.URL, "http://"), h.host()}
	_, err = collect(t.Context(), loopback(FetchConfig{}), h.repository(), a)
	require.ErrorContains(t, err, "not permitted")
	assert.Empty(t, told)
}
