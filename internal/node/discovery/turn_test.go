package discovery_test

import (
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/node/discovery"
	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
)

func TestWhoHasNotTheTurnNeitherReadsNorPublishes(t *testing.T) {
	b := newBench(t)
	mine, taken := true, 0
	b.Discovery = discovery.New(discovery.Config{
		Node: node, Interval: 5 * time.Minute, Host: b.host, Look: b.host.look, Journal: b.book, Writes: b.busy, Client: b.client, Log: logr.Discard(),
		Turn: func() (func(), bool, error) {
			if !mine {
				return nil, false, nil
			}
			taken++
			return func() { taken-- }, true, nil
		},
	})
	mine = false
	require.ErrorIs(t, b.Refresh(t.Context()), discovery.ErrBusy)
	assert.Zero(t, b.scans(), "another process reads the hardware")
	mine = true
	b.seen(t)
	assert.Zero(t, taken, "the turn is given back")
	published := b.written()

	mine = false
	b.change(func() { b.host.found.Devices = nil })
	require.NoError(t, b.Publish(t.Context()))
	assert.Equal(t, published, b.written(), "who executes a job reports what it reads")

	mine = true
	b.change(func() { b.book.view = journal.View{Jobs: []journal.Job{{Name: "a", UID: "1"}}} })
	require.NoError(t, b.Publish(t.Context()))
	assert.Equal(t, published, b.written(), "what was read before a job is not published after it")
	b.seen(t)
	assert.Empty(t, b.names(t), "but what is read now")
	assert.Zero(t, taken)
}

// The journal is read anew each time: what it holds is equal, and never the same in memory.
func TestJournalThatIsReadAgainIsTheOneOfTheScan(t *testing.T) {
	b := newBench(t)
	b.Discovery = discovery.New(discovery.Config{
		Node: node, Interval: 5 * time.Minute, Host: b.host, Look: b.host.look, Journal: b.book, Writes: b.busy, Client: b.client, Log: logr.Discard(),
		Turn: func() (func(), bool, error) { return func() {}, true, nil },
	})
	read := func() journal.View {
		ended := time.Date(2026, 11, 22, 13, 0, 0, 0, time.UTC)
		return journal.View{Jobs: []journal.Job{{Name: "a", UID: "1", Accepted: ended.Add(-time.Hour), Finished: &ended}}}
	}
	b.change(func() { b.book.view = read() })
	require.NoError(t, b.Refresh(t.Context()))
	b.change(func() { b.book.view = read() })
	require.NoError(t, b.Publish(t.Context()))
	assert.NotEmpty(t, b.names(t), "what was read is published, because no job ran since")
}
