package state_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/internal/node/state"
)

// TestGuestAndExecutorTakeTurns proves R000-54.
func TestGuestAndExecutorTakeTurns(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	guest, other := state.NewGuest(dir, state.Machine{}), state.NewGuest(dir, state.Machine{})
	view, err := guest.View()
	require.NoError(t, err, "before the first job there is nothing")
	assert.Empty(t, view.Jobs)

	done, ok, err := guest.Share()
	require.NoError(t, err)
	require.True(t, ok)
	doneToo, ok, err := other.Share()
	require.NoError(t, err)
	require.True(t, ok, "guests do not exclude each other")
	doneToo()
	_, err = state.Open(dir, state.Options{Daemon: "v1.0.0", Patience: time.Millisecond})
	require.ErrorIs(t, err, state.ErrLocked)
	done()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1, "a guest leaves nothing but the lock")

	s, err := state.Open(dir, state.Options{Daemon: "v1.0.0"})
	require.NoError(t, err)
	assert.True(t, s.FirstRun, "a guest is no first run")
	require.NoError(t, s.Journal.Save(journal.Job{Name: "a", UID: "1"}))
	_, ok, err = guest.Share()
	require.NoError(t, err)
	assert.False(t, ok, "who executes jobs has the machine")
	view, err = guest.View()
	require.NoError(t, err)
	assert.Len(t, view.Jobs, 1, "the journal can be read all the same")
	require.NoError(t, s.Close())
	done, ok, err = guest.Share()
	require.NoError(t, err)
	require.True(t, ok)
	done()
}
