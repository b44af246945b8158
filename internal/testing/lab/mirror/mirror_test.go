package mirror_test

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"io"
	"net/http"
	"net/url"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/lab/mirror"
	"github.com/nodefirmware/node-firmware-operator/pkg/signature"
	"github.com/nodefirmware/node-firmware-operator/pkg/unpack"
)

func start(t *testing.T, dir string) *mirror.Mirror {
	t.Helper()
	m, err := mirror.Start(dir)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	return m
}

// client reaches the mirror by its proxy, and trusts the authority.
func client(t *testing.T, m *mirror.Mirror, authority []byte) *http.Client {
	t.Helper()
	proxy, err := url.Parse(m.Proxy())
	require.NoError(t, err)
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(authority))
	transport := &http.Transport{Proxy: http.ProxyURL(proxy), TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func get(ctx context.Context, c *http.Client, address, user, password string) (code int, content []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return 0, nil, err
	}
	if user != "" {
		req.SetBasicAuth(user, password)
	}
	resp, err := c.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	content, err = io.ReadAll(resp.Body)
	return resp.StatusCode, content, err
}

func TestServesOnlyKnownAndTrusting(t *testing.T) {
	m, stranger := start(t, t.TempDir()), start(t, t.TempDir())
	a, err := m.Publish("fw.bin", []byte("FIRMWARE"))
	require.NoError(t, err)
	user, password := m.Credentials()
	c := client(t, m, m.Authority())

	code, content, err := get(t.Context(), c, a.URL, user, password)
	require.NoError(t, err)
	assert.Equal(t, http.StatusOK, code)
	sum := sha256.Sum256(content)
	assert.Equal(t, a.SHA256, hex.EncodeToString(sum[:]))

	for name, p := range map[string]string{"": "", user: "guessed", "somebody": password} {
		code, content, err := get(t.Context(), c, a.URL, name, p)
		require.NoError(t, err)
		assert.Equal(t, http.StatusUnauthorized, code, name)
		assert.NotContains(t, string(content), "FIRMWARE")
	}
	_, _, err = get(t.Context(), client(t, m, stranger.Authority()), a.URL, user, password)
	require.ErrorContains(t, err, "certificate")
	_, _, err = get(t.Context(), c, "https://192.0.2.11/fw.bin", user, password)
	require.ErrorContains(t, err, "Forbidden", "the proxy leads nowhere else")
	for _, path := range []string{"/", "/absent", "/%2e", "/..%2fminisign.key", "/../minisign.key"} {
		code, _, err := get(t.Context(), c, "https://"+mirror.Address+path, user, password)
		require.NoError(t, err)
		assert.Equal(t, http.StatusNotFound, code, path)
	}
}

func TestAnArchiveIsSignedAndTheSameEachTimeItIsPublished(t *testing.T) {
	dir := t.TempDir()
	first := start(t, dir)
	a, err := first.Publish("fw.bin", []byte("FIRMWARE"))
	require.NoError(t, err)
	packed, err := os.ReadFile(a.File)
	require.NoError(t, err)
	signed, err := os.ReadFile(a.SignatureFile)
	require.NoError(t, err)

	keys, err := signature.ParseKeys(first.PublicKey())
	require.NoError(t, err)
	assert.Equal(t, "minisign key "+first.KeyID(), keys[0].String())
	file, err := os.Open(a.File)
	require.NoError(t, err)
	defer file.Close()
	subject, err := signature.Read(file)
	require.NoError(t, err)
	require.NoError(t, subject.Verify(signature.Trust{Keys: keys}, signed, time.Now()))

	members := map[string]string{}
	require.NoError(t, unpack.Walk(t.Context(), file, unpack.TarZstd, unpack.Limits{}, func(name string, open func() (io.Reader, error)) error {
		content, err := open()
		if err != nil {
			return err
		}
		text, err := io.ReadAll(content)
		members[name] = string(text)
		return err
	}))
	assert.Len(t, members, 2)
	assert.Equal(t, "FIRMWARE", members[a.Member])

	second := start(t, dir) // as a lab that goes on in the directory of an earlier one
	again, err := second.Publish("fw.bin", []byte("FIRMWARE"))
	require.NoError(t, err)
	assert.Equal(t, a, again)
	for path, want := range map[string][]byte{a.File: packed, a.SignatureFile: signed} {
		got, err := os.ReadFile(path)
		require.NoError(t, err)
		assert.Equal(t, want, got, "a source that names it goes on to be true")
	}
}
