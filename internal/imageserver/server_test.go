package imageserver

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

type directory string

func (d directory) Open(digest inventory.Digest) (*os.File, error) {
	return os.Open(filepath.Join(string(d), digest.String()))
}

type doorman map[string]error

func (d doorman) Authenticate(_ context.Context, token string) (string, error) {
	err, known := d[token]
	if !known {
		return "", ErrDenied
	}
	return "daemon", err
}

func TestHandlerServesImagesToAuthenticatedDaemonsOnly(t *testing.T) {
	content := []byte("0123456789")
	digest := inventory.Digest(sha256.Sum256(content))
	dir := directory(t.TempDir())
	require.NoError(t, os.WriteFile(filepath.Join(string(dir), digest.String()), content, 0o600))
	server := httptest.NewServer(Handler(dir, doorman{"good": nil, "unsure": errors.New("API server away")}, testr.New(t)))
	defer server.Close()
	other := inventory.Digest(sha256.Sum256(nil)).String()

	for name, tc := range map[string]struct {
		path, token, byteRange string
		code                   int
		body                   string
	}{
		"whole image":              {"/images/" + digest.String(), "good", "", 200, "0123456789"},
		"the rest of an image":     {"/images/" + digest.String(), "good", "bytes=7-", 206, "789"},
		"no token":                 {"/images/" + digest.String(), "", "", 401, "a bearer token is needed\n"},
		"a stranger's token":       {"/images/" + digest.String(), "bad", "", 403, ErrDenied.Error() + "\n"},
		"a token nobody can judge": {"/images/" + digest.String(), "unsure", "", 503, "the token could not be reviewed; try again\n"},
		"an unknown image":         {"/images/" + other, "good", "", 404, "no such image in store\n"},
		"no digest":                {"/images/..%2Fsecret", "good", "", 400, "parse digest \"../secret\": want sha256: and 64 lower-case hexadecimal digits\n"},
		"another path":             {"/", "good", "", 404, "404 page not found\n"},
	} {
		t.Run(name, func(t *testing.T) {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+tc.path, nil)
			require.NoError(t, err)
			if tc.token != "" {
				req.Header.Set("Authorization", "Bearer "+tc.token)
			}
			if tc.byteRange != "" {
				req.Header.Set("Range", tc.byteRange)
			}
			resp, err := http.DefaultClient.Do(req)
			require.NoError(t, err)
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			assert.Equal(t, tc.code, resp.StatusCode)
			assert.Equal(t, tc.body, string(body))
		})
	}
}

func TestTokenReviewerAsksOncePerMinuteAndTrustsOneUser(t *testing.T) {
	asked := 0
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	c := interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{
		Create: func(_ context.Context, _ client.WithWatch, obj client.Object, _ ...client.CreateOption) error {
			asked++
			tr := obj.(*authenticationv1.TokenReview)
			assert.Equal(t, []string{"images"}, tr.Spec.Audiences)
			switch tr.Spec.Token {
			case "daemon", "other":
				tr.Status.Authenticated, tr.Status.User.Username = true, tr.Spec.Token
			case "outage":
				return errors.New("connection refused")
			}
			return nil
		},
	})
	r := &TokenReviewer{Client: c, Audience: "images", User: "daemon", Now: func() time.Time { return now }}

	for range 3 {
		user, err := r.Authenticate(t.Context(), "daemon")
		require.NoError(t, err)
		assert.Equal(t, "daemon", user)
	}
	assert.Equal(t, 1, asked)
	now = now.Add(2 * time.Minute)
	_, err := r.Authenticate(t.Context(), "daemon")
	require.NoError(t, err)
	assert.Equal(t, 2, asked)

	_, err = r.Authenticate(t.Context(), "other")
	assert.ErrorIs(t, err, ErrDenied)
	_, err = r.Authenticate(t.Context(), "forged")
	assert.ErrorIs(t, err, ErrDenied)
	_, err = r.Authenticate(t.Context(), "outage")
	assert.Error(t, err)
	assert.NotErrorIs(t, err, ErrDenied)
}

func TestServerIsTrustedThroughThePublishedAuthority(t *testing.T) {
	c := fake.NewClientBuilder().Build()
	certs := &Certificates{Client: c, Namespace: "ns", Names: []string{"images.ns.svc", "127.0.0.1"}, Now: time.Now}
	require.NoError(t, certs.Ensure(t.Context()))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	server := &Server{Listener: listener, Certificate: certs.Get, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") })}
	go func() { ended <- server.Start(ctx) }()

	var authority corev1.ConfigMap
	require.NoError(t, c.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: ConfigMapName}, &authority))
	pool := x509.NewCertPool()
	require.True(t, pool.AppendCertsFromPEM([]byte(authority.Data[CAKey])))
	trusting := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	resp, err := trusting.Get("https://" + listener.Addr().String())
	require.NoError(t, err)
	_ = resp.Body.Close()
	resp, err = http.Get("https://" + listener.Addr().String())
	if err == nil {
		_ = resp.Body.Close()
	}
	assert.ErrorContains(t, err, "certificate signed by unknown authority")

	stop()
	require.NoError(t, <-ended)
}

func TestCertificatesAreKeptUntilTheyMustChange(t *testing.T) {
	now := time.Now()
	c := fake.NewClientBuilder().Build()
	names := []string{"a.svc"}
	ensure := func() (leaf, authority string) {
		certs := &Certificates{Client: c, Namespace: "ns", Names: names, Now: func() time.Time { return now }}
		require.NoError(t, certs.Ensure(t.Context()))
		pair, err := certs.Get(nil)
		require.NoError(t, err)
		var cm corev1.ConfigMap
		require.NoError(t, c.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: ConfigMapName}, &cm))
		return string(pair.Certificate[0]), cm.Data[CAKey]
	}
	leaf1, ca1 := ensure()
	leaf2, ca2 := ensure()
	assert.Equal(t, leaf1, leaf2)
	assert.Equal(t, ca1, ca2)

	names = append(names, "b.svc")
	leaf3, ca3 := ensure()
	assert.NotEqual(t, leaf2, leaf3, "a new name needs a new certificate")
	assert.Equal(t, ca2, ca3, "but no new authority")

	now = now.Add(servingFor - renewBefore + time.Hour)
	leaf4, ca4 := ensure()
	assert.NotEqual(t, leaf3, leaf4, "renewed in time")
	assert.Equal(t, ca3, ca4)

	var secret corev1.Secret
	require.NoError(t, c.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: SecretName}, &secret))
	secret.Data[CAKey] = []byte("damaged")
	require.NoError(t, c.Update(t.Context(), &secret))
	_, ca5 := ensure()
	assert.NotEqual(t, ca4, ca5)
}
