package images_test

import (
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/nodefirmware/node-firmware-operator/internal/imageserver"
	"github.com/nodefirmware/node-firmware-operator/internal/node/images"
)

// cluster is the operator's image server with its own certificates, and a clock that a test moves.
type cluster struct {
	t     *testing.T
	api   client.Client
	now   time.Time
	certs *imageserver.Certificates
}

// newCluster starts the server and a daemon's store. The store has no authority yet.
func newCluster(t *testing.T, answer http.HandlerFunc) (*cluster, *scene) {
	t.Helper()
	c := &cluster{t: t, api: fake.NewClientBuilder().Build(), now: time.Now()}
	c.certs = &imageserver.Certificates{Client: c.api, Namespace: "ns", Names: []string{"127.0.0.1"}, Now: func() time.Time { return c.now }}
	require.NoError(t, c.certs.Ensure(t.Context()))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- (&imageserver.Server{Listener: listener, Certificate: c.certs.Get, Handler: answer}).Start(ctx)
	}()
	t.Cleanup(func() { stop(); assert.NoError(t, <-ended) })
	s := newScene(t, nil, func(config *images.Config) {
		config.Server, config.Now = "https://"+listener.Addr().String(), func() time.Time { return c.now }
	})
	return c, s
}

// published is what daemons are to trust, after the operator has looked at its certificates.
func (c *cluster) published() []byte {
	c.t.Helper()
	require.NoError(c.t, c.certs.Ensure(context.WithoutCancel(c.t.Context())))
	var cm corev1.ConfigMap
	require.NoError(c.t, c.api.Get(context.WithoutCancel(c.t.Context()), client.ObjectKey{Namespace: "ns", Name: imageserver.ConfigMapName}, &cm))
	return []byte(cm.Data[imageserver.CAKey])
}

// A daemon that is up over the replacement of the authority, and receives each publication a day late, fetches every day.
func TestADaemonFetchesWhileTheAuthorityIsReplaced(t *testing.T) {
	c, s := newCluster(t, serve(content))
	const day, authorityFor = 24 * time.Hour, 10 * 365 * 24 * time.Hour
	c.now = c.now.Add(authorityFor - 40*day)
	received, seen := c.published(), map[string]bool{}
	for range 60 {
		now := c.published()
		require.NoError(t, os.WriteFile(s.config.CAFile, received, 0o600))
		require.NoError(t, os.RemoveAll(s.config.Dir))
		require.NoError(t, os.MkdirAll(s.config.Dir, 0o700))
		_, _, err := s.Fetch(t.Context(), digest(content))
		require.NoError(t, err, "on %s", c.now)
		received, seen[string(now)] = now, true
		c.now = c.now.Add(day)
	}
	assert.Len(t, seen, 4, "the first, the first with the next, the second with the previous, the second")
}

// Where an authority was lost and replaced at once, a fetch that is under way goes on as soon as the node has the new one.
func TestAFetchGoesOnWithAnAuthorityThatWasReplacedMeanwhile(t *testing.T) {
	asked := 0
	var c *cluster
	var s *scene
	c, s = newCluster(t, func(w http.ResponseWriter, r *http.Request) {
		if asked++; asked > 1 {
			serve(content)(w, r)
			return
		}
		w.Header().Set("Content-Length", "524288")
		_, _ = w.Write(content[:1<<18])
		var secret corev1.Secret
		if !assert.NoError(c.t, c.api.Get(r.Context(), client.ObjectKey{Namespace: "ns", Name: imageserver.SecretName}, &secret)) {
			return
		}
		secret.Data[imageserver.CAKey] = []byte("lost")
		assert.NoError(c.t, c.api.Update(r.Context(), &secret))
		assert.NoError(c.t, os.WriteFile(s.config.CAFile, c.published(), 0o600))
		panic(http.ErrAbortHandler)
	})
	require.NoError(t, os.WriteFile(s.config.CAFile, c.published(), 0o600))
	path, _, err := s.Fetch(t.Context(), digest(content))
	require.NoError(t, err)
	assert.Equal(t, 2, asked)
	assert.Equal(t, s.config.Dir, filepath.Dir(path))
}
