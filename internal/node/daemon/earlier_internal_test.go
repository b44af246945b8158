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
	o.Config.StateDir = dir
	host, err := openState(o, time.Second)
	require.NoError(t, err)
	require.NoError(t, host.Close())
	assert.Contains(t, log.String(), filepath.Join(dir, "earlier-1"))
	assert.FileExists(t, filepath.Join(dir, "earlier-1", journal.FileName))
	shown, err := cli.ReadState(dir, "boot")
	require.NoError(t, err)
	assert.Equal(t, []string{"earlier-1"}, shown.Earlier)
}
