package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote"
)

// newDigest is what the registry of the tests names for every tag.
var newDigest = "sha256:" + strings.Repeat("5a", 32)

// hub is a registry that hands out a token for a scope and answers for that scope alone.
func hub(t *testing.T, digest string) *remote.Registry {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /token", func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte(`{"token":"` + r.URL.Query().Get("scope") + `"}`))
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	mux.HandleFunc("GET /v2/", func(w http.ResponseWriter, r *http.Request) {
		repository, _, found := strings.Cut(strings.TrimPrefix(r.URL.Path, "/v2/"), "/manifests/")
		scope := "repository:" + repository + ":pull"
		if found && r.Header.Get("Authorization") != "Bearer "+scope {
			w.Header().Set("WWW-Authenticate", `Bearer realm="`+server.URL+`/token",service="test",scope="`+scope+`"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Header().Set("Docker-Content-Digest", digest)
		w.Header().Set("Content-Type", "application/vnd.oci.image.index.v1+json")
		w.Header().Set("Content-Length", "1")
	})
	return at(t, server.URL)
}

// at is the registry with an address.
func at(t *testing.T, url string) *remote.Registry {
	t.Helper()
	r := newHub()
	r.Reference.Registry, r.PlainHTTP = strings.TrimPrefix(url, "http://"), true
	return r
}

// checkout is a directory with copies of the Dockerfiles.
func checkout(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range dockerfiles {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(read(t, name)), 0o600))
	}
	return dir
}

func TestUpdatesEveryDockerfile(t *testing.T) {
	dir := checkout(t)
	r := hub(t, newDigest)
	require.NoError(t, r.Ping(t.Context()))
	require.NoError(t, updateBases(t.Context(), dir, r))
	for _, name := range dockerfiles {
		raw, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		assert.Equal(t, pinned.ReplaceAllString(read(t, name), "$1$2:$3@"+newDigest), string(raw), "only the digests are others")
		assert.Equal(t, 2, strings.Count(string(raw), newDigest), name)
	}
}

func TestBadDigestChangesNothing(t *testing.T) {
	dir := checkout(t)
	err := updateBases(t.Context(), dir, hub(t, "sha256:short"))
	require.ErrorContains(t, err, "sha256:short")
	for _, name := range dockerfiles {
		raw, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		assert.Equal(t, read(t, name), string(raw))
	}
	assert.ErrorContains(t, updateBases(t.Context(), t.TempDir(), hub(t, newDigest)), "root of the checkout")
}

func TestARegistryThatRefusesEverybodyIsNotReached(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	r := at(t, server.URL)
	require.ErrorIs(t, r.Ping(t.Context()), errdef.ErrNotFound)
	server.Close()
	assert.Error(t, r.Ping(t.Context()))
}

// Images for tests must not reach a registry because another one did not answer.
func TestWhatIsPushedIsNotBuiltOnStandInsByItself(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	b := builder{settings: settings{bases: basesAuto, push: true}, hub: at(t, server.URL)}
	_, err := b.prepare(t.Context(), t.TempDir())
	require.ErrorContains(t, err, "nothing was built")
	require.ErrorIs(t, err, errdef.ErrNotFound)
}
