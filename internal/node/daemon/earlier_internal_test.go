package daemon

import (
	"bytes"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	"github.com/nodefirmware/node-firmware-operator/internal/cli"
	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/simhost"
)

// A daemon that finds the state of a development build starts, says so in its log, and the state command shows where it is.
func TestStartOverAnEarlierBuild(t *testing.T) {
	dir := t.TempDir()
	db, err := bbolt.Open(filepath.Join(dir, journal.FileName), 0o600, nil)
	require.NoError(t, err)
	require.NoError(t, db.Update(func(tx *bbolt.Tx) error {
		meta, err := tx.CreateBucket([]byte("meta"))
		require.NoError(t, err)
		return meta.Put([]byte("schema"), []byte("1"))
	}))
	require.NoError(t, db.Close())

	var log bytes.Buffer
	o := Options{Log: slog.New(slog.NewTextHandler(&log, nil))}
	o.Config.StateDir, o.Config.HostRoot = dir, t.TempDir()
	host, err := openState(o, time.Second)
	require.NoError(t, err)
	require.NoError(t, host.Close())
	assert.Contains(t, log.String(), filepath.Join(dir, "earlier-1"))
	assert.FileExists(t, filepath.Join(dir, "earlier-1", journal.FileName))
	shown, err := cli.ReadState(dir, "boot")
	require.NoError(t, err)
	assert.Equal(t, []string{"earlier-1"}, shown.Earlier)
}

// A daemon on a copy of another machine's disk says so and does nothing of what it finds. It takes a machine whose main board was
// replaced for another one too.
func TestCloneDoesNothing(t *testing.T) {
	root := t.TempDir()
	_, err := simhost.Create(filepath.Join(root, "n1"), simhost.DefaultSpec("n1", 1))
	require.NoError(t, err)
	_, err = simhost.Create(filepath.Join(root, "n2"), simhost.DefaultSpec("n2", 2))
	require.NoError(t, err)
	var log bytes.Buffer
	o := Options{Log: slog.New(slog.NewTextHandler(&log, nil))}
	o.Config.StateDir, o.Config.HostRoot = t.TempDir(), filepath.Join(root, "n1")
	first, err := openState(o, time.Second)
	require.NoError(t, err)
	require.NoError(t, first.Journal.Save(journal.Job{Name: "j", UID: "u"}))
	require.NoError(t, first.Close())
	again, err := openState(o, time.Second)
	require.NoError(t, err)
	assert.Empty(t, again.Foreign, "it is the same machine")
	require.NoError(t, again.Close())

	o.Config.HostRoot = filepath.Join(root, "n2")
	clone, err := openState(o, time.Second)
	require.NoError(t, err)
	view, err := clone.Journal.View()
	require.NoError(t, err)
	require.NoError(t, clone.Close())
	assert.Nil(t, view.Active())
	assert.Contains(t, view.LastError(), "is of another machine")
	assert.Contains(t, log.String(), filepath.Join(o.Config.StateDir, "foreign-1"))
	shown, err := cli.ReadState(o.Config.StateDir, "boot")
	require.NoError(t, err)
	assert.Equal(t, []string{"foreign-1"}, shown.Foreign)
	assert.Nil(t, shown.Job)
}
