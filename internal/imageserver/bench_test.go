package imageserver

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/bench"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// TestBenchmarks: each benchmark runs.
func TestBenchmarks(t *testing.T) { bench.Once(t) }

// BenchmarkServe100Nodes lets 100 nodes fetch an image at once over TLS and loopback, each by a connection of its own. Nodes and server
// are in this process, so that peak-MiB, the most memory that the heap took beyond what it had before, is that of both. It
// must not grow with the image.
func BenchmarkServe100Nodes(b *testing.B) {
	for _, mib := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("%dMiB", mib), func(b *testing.B) { benchmarkServe(b, bench.Size(100, 2), int64(mib)<<20) })
	}
}

func benchmarkServe(b *testing.B, nodes int, size int64) {
	url, pool := serving(b, size)
	runtime.GC()
	peak := watchHeap()
	b.SetBytes(int64(nodes) * size)
	for b.Loop() {
		var all sync.WaitGroup
		for i := range nodes {
			all.Go(func() {
				if err := fetch(b.Context(), url, pool, fmt.Sprintf("node-%d", i), size); err != nil {
					b.Error(err)
				}
			})
		}
		all.Wait()
	}
	b.ReportMetric(float64(peak())/(1<<20), "peak-MiB")
	b.ReportMetric(float64(nodes), "nodes")
}

// serving starts the operator's server with an image of that size, which is never in memory.
func serving(b *testing.B, size int64) (url string, pool *x509.CertPool) {
	b.Helper()
	dir, sum := directory(b.TempDir()), sha256.New()
	f, err := os.Create(filepath.Join(string(dir), "image"))
	require.NoError(b, err)
	require.NoError(b, f.Truncate(size))
	_, err = io.Copy(sum, f)
	require.NoError(b, err)
	require.NoError(b, f.Close())
	digest := inventory.Digest(sum.Sum(nil))
	require.NoError(b, os.Rename(f.Name(), filepath.Join(string(dir), digest.String())))

	api := fake.NewClientBuilder().Build()
	certs := &Certificates{Client: api, Namespace: "ns", Names: []string{"127.0.0.1"}, Now: time.Now}
	require.NoError(b, certs.Ensure(b.Context()))
	var cm corev1.ConfigMap
	require.NoError(b, api.Get(b.Context(), client.ObjectKey{Namespace: "ns", Name: ConfigMapName}, &cm))
	pool = x509.NewCertPool()
	require.True(b, pool.AppendCertsFromPEM([]byte(cm.Data[CAKey])))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	ctx, stop := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	server := &Server{Listener: listener, Certificate: certs.Get, Handler: Handler(dir, welcome{}, logr.Discard(), Limits{Patience: time.Hour})}
	go func() { ended <- server.Start(ctx) }()
	b.Cleanup(func() {
		stop()
		require.NoError(b, <-ended)
	})
	return "https://" + listener.Addr().String() + PathPrefix + digest.String(), pool
}

func fetch(ctx context.Context, url string, pool *x509.CertPool, node string, size int64) error {
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+ofNode(node))
	res, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if n, err := io.Copy(io.Discard, res.Body); err != nil || n != size || res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %d of %d bytes: %w", res.Status, n, size, err)
	}
	return nil
}

// watchHeap returns a function that ends the watch and returns the most bytes that the heap had more than at its beginning.
func watchHeap() (peak func() uint64) {
	now := func() uint64 {
		sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/unused:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
		metrics.Read(sample)
		return sample[0].Value.Uint64() + sample[1].Value.Uint64() + sample[2].Value.Uint64()
	}
	before, most := now(), uint64(0)
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				most = max(most, now())
			}
		}
	}()
	return func() uint64 {
		close(stop)
		<-done
		return most - min(before, most)
	}
}
