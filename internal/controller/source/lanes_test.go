package source

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// As many sources as there are workers name a server that never answers.
func TestAServerThatHangsHoldsUpNobodyElse(t *testing.T) { // R001-19
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
