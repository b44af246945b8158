package imageserver

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

func begun(t *ticket) bool {
	select {
	case <-t.begin:
		return true
	default:
		return false
	}
}

// Whatever comes and goes: the bounds hold, no place stays empty while somebody could have it, each node is served in the order of its own
// requests, and while a node waits that has room no other node gets two places.
func TestTransfersBeginInTurn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limits := Limits{
			Transfers: rapid.IntRange(1, 4).Draw(t, "transfers"), PerNode: rapid.IntRange(1, 3).Draw(t, "per node"),
			Waiting: rapid.IntRange(1, 12).Draw(t, "waiting"), WaitingPerNode: rapid.IntRange(1, 6).Draw(t, "waiting per node"),
		}
		q := newQueue(limits)
		var waiting []*ticket
		active := map[string]int{}
		// overtaken counts, for the first request of each node that waits with room, what others began meanwhile.
		overtaken := map[*ticket]map[string]int{}
		look := func() {
			var still []*ticket
			first, sum := map[string]*ticket{}, 0
			var now []string
			for _, w := range waiting {
				if begun(w) {
					require.Nil(t, first[w.node], "in the order of its node")
					active[w.node]++
					now = append(now, w.node)
					delete(overtaken, w)
					continue
				}
				if first[w.node] == nil {
					first[w.node] = w
				}
				still = append(still, w)
			}
			waiting = still
			for node, n := range active {
				require.LessOrEqual(t, n, limits.PerNode, node)
				sum += n
			}
			require.LessOrEqual(t, sum, limits.Transfers)
			require.LessOrEqual(t, len(waiting), limits.Waiting)
			for node, w := range first {
				if active[node] >= limits.PerNode {
					delete(overtaken, w) // it waits for itself
					continue
				}
				require.Equal(t, limits.Transfers, sum, "%s waits beside an empty place", node)
				if overtaken[w] == nil {
					overtaken[w] = map[string]int{}
					continue
				}
				for _, other := range now {
					overtaken[w][other]++
					require.LessOrEqual(t, overtaken[w][other], 1, "%s began twice while %s waited", other, node)
				}
			}
		}
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			node := strconv.Itoa(rapid.IntRange(0, 4).Draw(t, "node"))
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0, 1:
				if w, err := q.join(node); err == nil {
					waiting = append(waiting, w)
				} else {
					require.ErrorIs(t, err, errFull)
				}
			case 2:
				if active[node] > 0 {
					active[node]--
					q.end(node)
				}
			case 3:
				if len(waiting) > 0 {
					i := rapid.IntRange(0, len(waiting)-1).Draw(t, "who leaves")
					require.True(t, q.leave(waiting[i]))
					delete(overtaken, waiting[i])
					waiting = append(waiting[:i:i], waiting[i+1:]...)
				}
			}
			look()
		}
		for len(active) > 0 || len(waiting) > 0 {
			look()
			for node, n := range active {
				for range n {
					q.end(node)
				}
				delete(active, node)
			}
		}
		assert.Zero(t, q.sum)
		assert.Empty(t, q.active)
		assert.Empty(t, q.waiting)
		assert.Empty(t, q.turn)
		assert.Zero(t, q.queued)
	})
}

func TestWaitEndsByPatienceOrCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(Limits{Transfers: 1, PerNode: 1}.orDefaults())
		end, err := q.enter(t.Context(), "a")
		require.NoError(t, err)
		began := time.Now()
		_, err = q.enter(t.Context(), "b")
		require.ErrorIs(t, err, errFull)
		assert.Equal(t, 15*time.Second, time.Since(began), "less than a daemon waits for an answer")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = q.enter(ctx, "b")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		go func() {
			time.Sleep(time.Second) // sleeps: in virtual time
			end()
		}()
		end, err = q.enter(t.Context(), "b")
		require.NoError(t, err)
		end()
		assert.Empty(t, q.active)
	})
}

// ofNode is a token that is bound to a node.
func ofNode(uid string) string {
	return claiming("daemon", func(c map[string]any) {
		c["kubernetes.io"] = map[string]any{"node": map[string]string{"uid": uid}, "pod": map[string]string{"uid": "pod-of-" + uid}}
	})
}

func TestTellsNodesApartByToken(t *testing.T) {
	assert.Equal(t, "node/1", nodeOf(ofNode("1"), "192.0.2.1"))
	pod := claiming("daemon", func(c map[string]any) { c["kubernetes.io"] = map[string]any{"pod": map[string]string{"uid": "2"}} })
	assert.Equal(t, "pod/2", nodeOf(pod, "192.0.2.1"))
	assert.Equal(t, "address/192.0.2.1", nodeOf(claiming("daemon", nil), "192.0.2.1"))
	assert.Equal(t, "address/192.0.2.1", nodeOf("no token", "192.0.2.1"))
}

type welcome struct{}

func (welcome) Authenticate(context.Context, string, string) (string, error) { return "daemon", nil }

// stocked serves one image of that size, and counts no bytes of it before somebody reads.
func stocked(t testing.TB, size int, limits Limits) (server *httptest.Server, url string, content []byte) {
	t.Helper()
	content = bytes.Repeat([]byte{'f'}, size)
	digest := inventory.Digest(sha256.Sum256(content))
	dir := directory(t.TempDir())
	require.NoError(t, os.WriteFile(filepath.Join(string(dir), digest.String()), content, 0o600))
	server = httptest.NewServer(Handler(dir, welcome{}, logr.Discard(), limits))
	t.Cleanup(server.Close)
	return server, server.URL + PathPrefix + digest.String(), content
}

// get requests the image in the name of a node, over a connection of its own.
func get(t testing.TB, url, node string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+ofNode(node))
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	require.NoError(t, err)
	return res
}

// more than the buffers of a connection take, so that a transfer that nobody reads does not end.
const large = 32 << 20

// A node that opens transfers without reading them keeps no other node from its image.
func TestBusyNodeStarvesNobody(t *testing.T) {
	_, url, content := stocked(t, large, Limits{Transfers: 3, PerNode: 2, WaitingPerNode: 1, Patience: time.Hour, Chunk: time.Hour})
	for range 2 {
		res := get(t, url, "greedy")
		defer res.Body.Close()
		require.Equal(t, http.StatusOK, res.StatusCode)
	}
	// Of two more one waits, whichever it is, and the other is sent away.
	ctx, cancel := context.WithCancel(t.Context())
	answers, waits := make(chan *http.Response, 2), make(chan error, 2)
	for range 2 {
		go func() {
			req, _ := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
			req.Header.Set("Authorization", "Bearer "+ofNode("greedy"))
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				waits <- err
				return
			}
			_ = res.Body.Close()
			answers <- res
		}()
	}
	refused := <-answers
	assert.Equal(t, http.StatusServiceUnavailable, refused.StatusCode)
	after, err := strconv.Atoi(refused.Header.Get("Retry-After"))
	require.NoError(t, err)
	assert.Positive(t, after)

	for i := range 5 {
		res := get(t, url, fmt.Sprintf("modest-%d", i))
		body, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		require.NoError(t, err)
		assert.Equal(t, http.StatusOK, res.StatusCode)
		assert.True(t, bytes.Equal(content, body))
	}
	cancel()
	require.ErrorIs(t, <-waits, context.Canceled)
}

// A node that stops to read gives its place back after the time for one part.
func TestANodeThatDoesNotReadGivesItsPlaceBack(t *testing.T) {
	_, url, content := stocked(t, large, Limits{Transfers: 1, PerNode: 1, Patience: time.Hour, Chunk: 100 * time.Millisecond})
	silent := get(t, url, "silent")
	defer silent.Body.Close()
	require.Equal(t, http.StatusOK, silent.StatusCode)
	res := get(t, url, "next") // waits for the place
	defer res.Body.Close()
	require.Equal(t, http.StatusOK, res.StatusCode)
	n, err := io.Copy(io.Discard, silent.Body)
	require.Error(t, err, "it was cut off")
	assert.Less(t, n, int64(len(content)))
}

// deadlines is a connection that notes its write deadlines.
type deadlines struct {
	http.ResponseWriter
	set     []time.Time
	flushed int
}

func (d *deadlines) SetWriteDeadline(t time.Time) error { d.set = append(d.set, t); return nil }
func (d *deadlines) FlushError() error                  { d.flushed++; return nil }

// The deadline is for a part and not for an image, and none is left for the next answer over the connection.
func TestEachPartHasOwnDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		d := &deadlines{ResponseWriter: httptest.NewRecorder()}
		c := newChunked(d, time.Minute)
		for range 3 {
			_, err := c.Write([]byte("part"))
			require.NoError(t, err)
			time.Sleep(50 * time.Second) // sleeps: in virtual time
		}
		c.close()
		second := func(s int) time.Time { return began.Add(time.Duration(s) * time.Second) }
		assert.Equal(t, []time.Time{second(60), second(110), second(160), second(210), {}}, d.set)
		assert.Equal(t, 1, d.flushed, "what is buffered has a deadline too")
	})
}
