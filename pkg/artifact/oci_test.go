package artifact

import (
	"bytes"
	"cmp"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// hub is a registry with one repository, which wants a token that it gives to who has the password.
type hub struct {
	*httptest.Server
	blobs   map[string][]byte // by path
	private bool
	tokens  string // where its tokens are given out; empty for the registry itself
	asked   []string
	cutOnce bool
}

func newHub(t *testing.T) *hub {
	h := &hub{blobs: map[string][]byte{}}
	h.Server = httptest.NewTLSServer(h)
	t.Cleanup(h.Close)
	return h
}

func (h *hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.asked = append(h.asked, r.URL.Path+" "+r.Header.Get("Range"))
	if r.URL.Path == "/token" {
		if _, password, _ := r.BasicAuth(); password != "s3cret" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		fmt.Fprintf(w, `{"token":"t-%s"}`, r.URL.Query().Get("scope"))
		return
	}
	if h.private && r.Header.Get("Authorization") != "Bearer t-repository:fw/cx:pull" {
		w.Header().Set("Www-Authenticate", fmt.Sprintf(`Bearer realm="%s/token",service="hub",scope="repository:fw/cx:pull"`, cmp.Or(h.tokens, h.URL)))
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	content, ok := h.blobs[r.URL.Path]
	if !ok {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	if strings.Contains(r.URL.Path, "/manifests/") {
		w.Header().Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
	}
	if h.cutOnce && strings.Contains(r.URL.Path, "/blobs/") {
		h.cutOnce = false
		w.Header().Set("Content-Length", fmt.Sprint(len(content)))
		_, _ = w.Write(content[:3])
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
}

// push stores a manifest with these layers and returns its reference.
func (h *hub) push(layers ...string) (ref string, manifest inventory.Digest) {
	type descriptor struct {
		MediaType string `json:"mediaType"`
		Digest    string `json:"digest"`
		Size      int    `json:"size"`
	}
	list := []descriptor{}
	for _, l := range layers {
		d := digestOf([]byte(l))
		h.blobs["/v2/fw/cx/blobs/"+d.String()] = []byte(l)
		list = append(list, descriptor{"application/octet-stream", d.String(), len(l)})
	}
	text, _ := json.Marshal(map[string]any{"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "layers": list})
	manifest = digestOf(text)
	h.blobs["/v2/fw/cx/manifests/"+manifest.String()] = text
	return "oci://" + h.host() + "/fw/cx@" + manifest.String(), manifest
}

func (h *hub) host() string { return strings.TrimPrefix(h.URL, "https://") }

func (h *hub) access() *Access {
	return &Access{CA: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: h.Certificate().Raw})}
}

func TestAnArtifactOfARegistryIsFetchedByItsDigest(t *testing.T) { // R001-14
	h := newHub(t)
	h.private, h.cutOnce = true, true
	ref, _ := h.push("FIRMWARE")
	s := newShop(t)
	s.store.fetcher = loopback(FetchConfig{})
	a := h.access()
	a.Username, a.Password, a.Hosts = "u", "s3cret", []string{h.host()}
	f := File{URL: ref, Images: []Description{nic("", "1", "MT_1")}, Access: a}
	images, err := s.publish("src", f)
	require.NoError(t, err)
	require.Len(t, images, 1)
	assert.Equal(t, "FIRMWARE", s.content(images[0].Digest))
	assert.Contains(t, h.asked, "/v2/fw/cx/blobs/"+digestOf([]byte("FIRMWARE")).String()+" bytes=3-", "it is resumed")

	assert.Empty(t, s.store.Missing("src", []File{f}), "it need not be fetched again")
	other := f
	other.Digest = digestOf([]byte("x"))
	assert.NotEmpty(t, s.store.Missing("src", []File{other}))
	assert.ErrorContains(t, s.store.Download(t.Context(), "src", other), "the source says")
}

// A registry says itself which server gives out its tokens.
func TestThePasswordForARegistryGoesToItsHostsOnly(t *testing.T) {
	h, tokens := newHub(t), newHub(t)
	h.private, h.tokens = true, tokens.URL
	ref, _ := h.push("FIRMWARE")
	a := h.access()
	a.Username, a.Password, a.Hosts = "u", "s3cret", []string{h.host()}
	fetch := func() error {
		f, release, err := loopback(FetchConfig{}).with(a)
		require.NoError(t, err)
		defer release()
		_, err = f.fetchOCI(t.Context(), ref, &bytes.Buffer{})
		return err
	}
	err := fetch()
	require.ErrorContains(t, err, tokens.host()+", which is not among the hosts of the Secret")
	assert.NotContains(t, err.Error(), "s3cret")
	reason, again := ReasonOf(err)
	assert.Equal(t, DownloadFailed, reason)
	assert.False(t, again)
	assert.Empty(t, tokens.asked)

	_, err = collect(t.Context(), loopback(FetchConfig{}), h.repository(), a)
	require.ErrorContains(t, err, "not among the hosts", "nor where tags are listed")
	assert.Empty(t, tokens.asked)

	a.Hosts = append(a.Hosts, tokens.host())
	require.NoError(t, fetch())

	h.tokens = "http://" + tokens.host()
	require.ErrorContains(t, fetch(), "server for tokens that is not permitted")
}

func TestARegistryIsNotBelieved(t *testing.T) {
	for name, tc := range map[string]struct {
		change  func(h *hub, manifest, layer string) (ref string)
		reason  Reason
		message string
	}{
		"a tag, which may move": {func(h *hub, _, _ string) string { return "oci://" + h.host() + "/fw/cx:v1" }, InvalidSpec, "may move a tag"},
		"no repository":         {func(h *hub, _, _ string) string { return "oci://" + h.host() }, InvalidSpec, "parse"},
		"another algorithm": {func(h *hub, _, _ string) string {
			return "oci://" + h.host() + "/fw/cx@sha512:" + strings.Repeat("a", 128)
		}, InvalidSpec, "may move a tag"},
		"no such manifest":                 {func(h *hub, m, _ string) string { delete(h.blobs, m); return "" }, DownloadFailed, "no such artifact"},
		"no such layer":                    {func(h *hub, _, l string) string { delete(h.blobs, l); return "" }, DownloadFailed, "404"},
		"another manifest":                 {func(h *hub, m, _ string) string { h.blobs[m] = []byte(`{"layers":[]}`); return "" }, DownloadFailed, "another manifest than was asked for"},
		"another layer of the same length": {func(h *hub, _, l string) string { h.blobs[l] = []byte("EVILWARE"); return "" }, DigestMismatch, "its manifest names"},
		"a longer layer":                   {func(h *hub, _, l string) string { h.blobs[l] = []byte("FIRMWARE AND MORE"); return "" }, DownloadFailed, "limit"},
		"a shorter layer":                  {func(h *hub, _, l string) string { h.blobs[l] = []byte("FIRM"); return "" }, DigestMismatch, "its manifest names"},
		"two layers":                       {func(h *hub, _, _ string) string { ref, _ := h.push("A", "B"); return ref }, UnpackFailed, "2 layers"},
		"no layer, as in an index":         {func(h *hub, _, _ string) string { ref, _ := h.push(); return ref }, UnpackFailed, "0 layers"},
		"a huge layer": {func(h *hub, _, _ string) string {
			text := []byte(`{"layers":[{"digest":"` + digestOf(nil).String() + `","size":99999999999}]}`)
			h.blobs["/v2/fw/cx/manifests/"+digestOf(text).String()] = text
			return "oci://" + h.host() + "/fw/cx@" + digestOf(text).String()
		}, DownloadFailed, "99999999999"},
		"a manifest that is none": {func(h *hub, _, _ string) string {
			text := []byte(`<html>`)
			h.blobs["/v2/fw/cx/manifests/"+digestOf(text).String()] = text
			return "oci://" + h.host() + "/fw/cx@" + digestOf(text).String()
		}, UnpackFailed, "cannot be read"},
		"a registry that wants a password": {func(h *hub, _, _ string) string { h.private = true; return "" }, DownloadFailed, ""},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHub(t)
			ref, manifest := h.push("FIRMWARE")
			if other := tc.change(h, "/v2/fw/cx/manifests/"+manifest.String(), "/v2/fw/cx/blobs/"+digestOf([]byte("FIRMWARE")).String()); other != "" {
				ref = other
			}
			f, release, err := loopback(FetchConfig{}).with(h.access())
			require.NoError(t, err)
			defer release()
			_, err = f.fetchOCI(t.Context(), ref, &bytes.Buffer{})
			require.Error(t, err)
			reason, _ := ReasonOf(err)
			assert.Equal(t, tc.reason, reason, "%v", err)
			assert.ErrorContains(t, err, tc.message)
		})
	}
}
