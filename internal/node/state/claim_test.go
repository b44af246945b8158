package state_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/node/state"
)

func TestClaimIsSeenUntilTheLastClaimantIsGone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	claimed := func() bool {
		ok, err := state.Claimed(dir)
		require.NoError(t, err)
		return ok
	}
	assert.False(t, claimed(), "the directory is not there yet")
	first, err := state.Claim(dir)
	require.NoError(t, err)
	second, err := state.Claim(dir)
	require.NoError(t, err, "two daemons may be there while one replaces the other")
	assert.True(t, claimed())
	require.NoError(t, first.Close())
	assert.True(t, claimed())
	require.NoError(t, second.Close())
	assert.False(t, claimed())

	again, err := state.Claim(dir)
	require.NoError(t, err)
	open, err := state.Open(dir, state.Options{Daemon: today})
	require.NoError(t, err)
	assert.True(t, open.FirstRun, "a claim is no state")
	assert.Empty(t, open.Leftover)
	require.NoError(t, open.Close())
	require.NoError(t, again.Close())
}
