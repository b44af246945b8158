package source

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// As many sources as there are workers name a server that never answers.
func TestHangingServerDelaysNobody(t *testing.T) { // R001-19
	b := newBench(t)
	asked, hang := make(chan struct{}, concurrency), make(chan struct{})
	origin := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		asked <- struct{}{}
		<-hang
	}))
	defer origin.Close()
	release := sync.OnceFunc(func() { close(hang) })
	defer release()
	sound := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("B")) }))
	defer sound.Close()
	for i := range concurrency {
		b.create(fmt.Sprintf("hangs-%d", i), remote(fmt.Sprintf("%s/%d", origin.URL, i), "A"))
	}
	b.create("local", b.file("b", "LOCAL"))
	b.create("sound", remote(sound.URL, "B"))

	// The workers of the controller, which take the sources in the order in which they came.
	queue := make(chan string, concurrency+2)
	for i := range concurrency {
		queue <- fmt.Sprintf("hangs-%d", i)
	}
	queue <- "local"
	queue <- "sound"
	close(queue)
	later := make(chan string, concurrency)
	done := make(chan string, concurrency+2)
	var workers sync.WaitGroup
	for range concurrency {
		workers.Go(func() {
			for name := range queue {
				result, _ := b.reconcile(name)
				if result.RequeueAfter == fetchSoon {
					later <- name
				}
				done <- name
			}
		})
	}
	for range fetchesPerHost {
		<-asked
	}
	for range concurrency - fetchesPerHost + 2 { // all others come to an end while these hang
		<-done
	}
	assert.Len(t, later, concurrency-fetchesPerHost, "they give their places back, and come again soon")
	assert.Empty(t, asked, "and the server is not asked for more at once")
	b.requireStatus("local", status.CurrentStatus)
	b.requireStatus("sound", status.CurrentStatus)
	waits := <-later
	b.requireStatus(waits, status.InProgressStatus)

	release()
	workers.Wait()
	_, err := b.reconcile(waits)
	require.NoError(t, err, "the digest is another one, which a person has to correct")
	assert.Equal(t, "False DigestMismatch", b.reason(waits, "Ready"))
}

func TestFetchesAreBounded(t *testing.T) {
	var l lanes
	var leave []func()
	for i := range fetches {
		end, ok := l.enter(fmt.Sprintf("https://host-%d.example/fw.bin", i/fetchesPerHost))
		require.True(t, ok, i)
		leave = append(leave, end)
	}
	_, ok := l.enter("https://another.example/fw.bin")
	assert.False(t, ok, "as many as may run")
	_, ok = l.enter("file:///srv/fw.bin")
	assert.True(t, ok, "what is on this machine waits for no server")
	leave[0]()
	_, ok = l.enter("oci://HOST-1.example/fw@sha256:0")
	assert.False(t, ok, "the server has its number, however it is spelled")
	end, ok := l.enter("https://another.example/fw.bin")
	require.True(t, ok)
	end()
	for _, f := range leave[1:] {
		f()
	}
	assert.Zero(t, l.all)
	assert.Empty(t, l.hosts)
}

// A source that waits for its turn costs nothing but a look at what runs, as often as it is looked at.
func TestASourceThatWaitsNeitherProbesTheStoreNorReadsSecrets(t *testing.T) {
	b := newBench(t)
	asked, hang := make(chan struct{}), make(chan struct{})
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/hangs") {
			asked <- struct{}{}
			<-hang
		}
		_, _ = w.Write([]byte("A"))
	}))
	defer origin.Close()
	release := sync.OnceFunc(func() { close(hang) })
	defer release()
	var hanging sync.WaitGroup
	for i := range fetchesPerHost {
		name := fmt.Sprintf("hangs-%d", i)
		b.create(name, remote(origin.URL+"/"+name, "A"))
		hanging.Go(func() { _, _ = b.reconcile(name) })
		<-asked
	}
	require.NoError(t, b.client.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "product", Name: "mirror"},
		Data: map[string][]byte{"hosts": []byte("mirror.example"), "token": []byte("t")}}))
	b.create("waits", remote(origin.URL+"/a", "A"))
	s := b.get("waits")
	s.Spec.SecretRef = &v1alpha1.LocalReference{Name: "mirror"}
	require.NoError(t, b.client.Update(t.Context(), s))
	secrets := 0
	b.reconciler.Reader = interceptor.NewClient(b.client, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			secrets++
			return c.Get(ctx, key, o, opts...)
		},
	})
	look := func() time.Duration {
		result, err := b.reconcile("waits")
		require.NoError(t, err)
		return result.RequeueAfter
	}
	require.Equal(t, fetchSoon, look())
	b.requireStatus("waits", status.InProgressStatus)

	// A file that is made and removed again changes the time of its directory.
	blobs, before := filepath.Dir(b.store.Path(inventory.Digest{})), time.Unix(1e9, 0)
	require.NoError(t, os.Chtimes(blobs, before, before))
	seen := secrets
	for range 3 {
		require.Equal(t, fetchSoon, look())
	}
	now, err := os.Stat(blobs)
	require.NoError(t, err)
	assert.True(t, before.Equal(now.ModTime()), "the store was written to")
	assert.Equal(t, seen, secrets, "the Secret was read")

	s = b.get("waits")
	s.Spec.Files, s.Generation = []v1alpha1.FirmwareFile{b.file("local", "A")}, 2
	require.NoError(t, b.client.Update(t.Context(), s))
	require.Equal(t, lookAgain, look(), "another spec waits for nothing")
	b.requireStatus("waits", status.CurrentStatus)

	b.create("waits-too", remote(origin.URL+"/b", "A"))
	result, err := b.reconcile("waits-too")
	require.NoError(t, err)
	require.Equal(t, fetchSoon, result.RequeueAfter)
	b.create("goes", remote(origin.URL+"/c", "A"))
	_, err = b.reconcile("goes")
	require.NoError(t, err)
	require.Contains(t, b.reconciler.fetching.waiting, "goes")
	require.NoError(t, b.client.Delete(t.Context(), b.get("goes")))
	_, err = b.reconcile("goes")
	require.NoError(t, err)
	release()
	hanging.Wait()
	result, err = b.reconcile("waits-too")
	require.NoError(t, err)
	require.Equal(t, lookAgain, result.RequeueAfter)
	b.requireStatus("waits-too", status.CurrentStatus)
	assert.Empty(t, b.reconciler.fetching.waiting, "nothing is remembered of those that wait no longer")
}
