package discovery_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/utils/ptr"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// ask changes the requests of the node, and shows the object to the daemon.
func (b *bench) ask(t *testing.T, r v1alpha1.NodeRequests) {
	t.Helper()
	n := b.node(t)
	n.Spec.Requests = r
	require.NoError(t, b.client.Update(t.Context(), n))
	b.Follow(b.node(t))
	b.Changed()
}

// A request to scan is answered by a scan that began after it, once, and by another daemon as well (R000-41, R000-43, R000-44,
// R000-55).
func TestScanIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		run(t, b)
		synctest.Wait()
		require.Equal(t, 1, b.scans())
		before := b.node(t).Status.LastScanTime
		writing := journal.Job{Name: "j", Record: step.Record{Steps: []step.Step{{State: step.Running}}}}
		writing.Record.Steps[0].Kind, writing.Record.Steps[0].Device = "flash", "d"
		b.change(func() { b.book.view = journal.View{Jobs: []journal.Job{writing}} })
		b.ask(t, v1alpha1.NodeRequests{Scan: "now"})
		time.Sleep(time.Minute)
		assert.Equal(t, 1, b.scans(), "a write is not disturbed")
		assert.Empty(t, b.node(t).Status.Requests.Scan, "and the request is not answered")
		b.change(func() { b.book.view = journal.View{} })
		time.Sleep(time.Minute)
		assert.Equal(t, 2, b.scans())
		assert.Equal(t, "now", b.node(t).Status.Requests.Scan)
		assert.True(t, b.node(t).Status.LastScanTime.After(before.Time))
		b.ask(t, v1alpha1.NodeRequests{Scan: "now"})
		time.Sleep(time.Second)
		assert.Equal(t, 2, b.scans(), "it was answered")
		b.ask(t, v1alpha1.NodeRequests{Scan: "again"})
		time.Sleep(time.Second)
		assert.Equal(t, 3, b.scans())
		assert.Equal(t, "again", b.node(t).Status.Requests.Scan)
	})
}

// A text that returns is a request again where another one was answered since, and the scan of its first time does not answer it. What was
// answered last is known when the text is removed.
func TestScanTextReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		run(t, b)
		synctest.Wait()
		for n, text := range []string{"a", "b", "a"} {
			before := b.node(t).Status.LastScanTime
			time.Sleep(time.Minute)
			b.ask(t, v1alpha1.NodeRequests{Scan: text})
			time.Sleep(time.Second)
			assert.Equal(t, n+2, b.scans())
			assert.Equal(t, text, b.node(t).Status.Requests.Scan)
			assert.True(t, b.node(t).Status.LastScanTime.After(before.Time))
		}
		b.ask(t, v1alpha1.NodeRequests{})
		time.Sleep(time.Second)
		assert.Equal(t, "a", b.node(t).Status.Requests.Scan, "removing it is no answer")
		b.ask(t, v1alpha1.NodeRequests{Scan: "a"})
		time.Sleep(time.Second)
		assert.Equal(t, 4, b.scans(), "and writing it again no request")
		b.ask(t, v1alpha1.NodeRequests{Scan: "c"})
		b.ask(t, v1alpha1.NodeRequests{Scan: "a"})
		time.Sleep(time.Second)
		b.ask(t, v1alpha1.NodeRequests{Scan: "c"})
		time.Sleep(time.Second)
		assert.Equal(t, "c", b.node(t).Status.Requests.Scan)
		assert.Equal(t, 6, b.scans(), "it was taken back, and asked for anew")
	})
}

func TestNextDaemonScansNotAgain(t *testing.T) {
	b := newBench(t)
	b.ask(t, v1alpha1.NodeRequests{Scan: "now"})
	b.seen(t)
	require.Equal(t, "now", b.node(t).Status.Requests.Scan)
	b.restart()
	b.Follow(b.node(t))
	b.seen(t)
	assert.Equal(t, "now", b.node(t).Status.Requests.Scan, "it stays answered")
	b.ask(t, v1alpha1.NodeRequests{})
	b.seen(t)
	assert.Equal(t, "now", b.node(t).Status.Requests.Scan, "nor does removing the request change the answer")
}

// A node that is held shows the requests that were in force when the hold began, so that every other one is for this hold.
func TestHoldShowsItsRequests(t *testing.T) {
	b := newBench(t)
	b.ask(t, v1alpha1.NodeRequests{Retry: "old", Release: "old"})
	b.seen(t)
	assert.Equal(t, v1alpha1.NodeRequests{Retry: "old", Release: "old"}, b.node(t).Status.Requests)
	assert.Empty(t, b.node(t).Status.HeldBy)
	job := held(step.Failure{Reason: step.WriteFailed, Message: "m", Held: true})
	job.Retry, job.Release = ptr.To("old"), ptr.To("old")
	b.book.view = journal.View{Jobs: []journal.Job{job}}
	for _, r := range []v1alpha1.NodeRequests{{Retry: "old", Release: "old"}, {}, {Retry: "reseated", Release: "as it is"}} {
		b.ask(t, r)
		b.restart()
		b.seen(t)
		assert.Equal(t, "n1-1234", b.node(t).Status.HeldBy)
		assert.Equal(t, v1alpha1.NodeRequests{Retry: "old", Release: "old"}, b.node(t).Status.Requests)
	}
	b.book.view = journal.View{}
	b.seen(t)
	assert.Empty(t, b.node(t).Status.HeldBy)
	assert.Equal(t, v1alpha1.NodeRequests{Retry: "reseated", Release: "as it is"}, b.node(t).Status.Requests)
}

// A person who says how old a scan may be sees that it is no older; an idle node is otherwise written to once an hour.
func TestScanTimeFollowsThreshold(t *testing.T) {
	for name, c := range map[string]struct {
		threshold v1alpha1.Duration
		span      time.Duration
		writes    int
	}{
		"absent":           {"", time.Hour, 1},
		"ten minutes":      {"10m", time.Hour, 6},
		"a second":         {"1s", 5 * time.Minute, 5},
		"more than hourly": {"2h", 2 * time.Hour, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				n := b.node(t)
				n.Spec.ScanThreshold = c.threshold
				require.NoError(t, b.client.Update(t.Context(), n))
				b.Follow(n)
				run(t, b)
				time.Sleep(time.Minute)
				before := b.written()
				time.Sleep(c.span)
				synctest.Wait()
				assert.InDelta(t, c.writes, b.written()-before, 1)
			})
		})
	}
}
