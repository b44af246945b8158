package archive_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/node/archive"
)

// TestKeepsLastTwoAndPinned proves R002-58, R002-76.
func TestKeepsLastTwoAndPinned(t *testing.T) {
	s, _ := newStore(t)
	keep(t, s, manifest("1", "b"))
	require.NoError(t, s.Pin(card+"/1_b"))
	require.NoError(t, s.Pin(card+"/1_b"), "again is no error")
	for _, version := range []string{"2", "3", "4"} {
		keep(t, s, manifest(version, "b"))
	}
	assert.Equal(t, []string{"4_b", "3_b", "1_b"}, names(t, s))
	require.NoError(t, s.Unpin(card+"/1_b"))
	keep(t, s, manifest("5", "b"))
	assert.Equal(t, []string{"5_b", "4_b"}, names(t, s))
	require.ErrorIs(t, s.Pin(card+"/1_b"), archive.ErrUnknown)
	for _, name := range []string{"", "/", "..", "../x_y", card, card + "/" + "image", card + "/../" + card + "/5_b", "./5_b"} {
		require.ErrorIs(t, s.Pin(name), archive.ErrUnknown, name)
	}
}

// An entry that is used again is needed now, however old it is.
func TestWhatWasJustKeptIsNotPruned(t *testing.T) {
	s, _ := newStore(t)
	for _, version := range []string{"1", "2"} {
		keep(t, s, manifest(version, "b"))
	}
	keep(t, s, manifest("1", "b"))
	assertImage(t, s, "1")
}

// strange are directories and files of people.
func strange(t *testing.T, dir string) []string {
	t.Helper()
	paths := []string{
		filepath.Join(dir, "from-bob", "image"), filepath.Join(dir, "from-bob", ".tmp-mine", "image"), filepath.Join(dir, card, "notes", "x"),
		filepath.Join(dir, card, "1_b_sick", "image"), filepath.Join(dir, card, "mine.txt"), filepath.Join(dir, card, "9_b", "image"),
	}
	for _, path := range paths {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte("precious"), 0o600))
	}
	return paths
}

// TestLeavesUnknownDirectories proves R002-30.
func TestLeavesUnknownDirectories(t *testing.T) {
	s, dir := newStore(t)
	keep(t, s, manifest("1", "b"))
	paths := strange(t, dir)
	for _, version := range []string{"2", "3", "4"} {
		keep(t, s, manifest(version, "b"))
	}
	require.NoError(t, s.Sweep())
	for day := range 200 {
		require.NoError(t, s.Prune(nil, noon.AddDate(0, 0, day)))
	}
	for _, path := range paths {
		assert.FileExists(t, path)
	}
}

// TestPrunesLongAbsentDevices proves R002-60.
func TestPrunesLongAbsentDevices(t *testing.T) {
	s, _ := newStore(t)
	other := manifest("7", "b")
	other.UniqueID = "other"
	keep(t, s, manifest("1", "b"))
	keep(t, s, manifest("2", "b"))
	keep(t, s, other)
	require.NoError(t, s.Pin(card+"/1_b"))

	require.NoError(t, s.Prune([]string{"other"}, noon))
	require.NoError(t, s.Prune([]string{"other"}, noon.AddDate(10, 0, 0)), "the clock jumps")
	require.NoError(t, s.Prune([]string{"other"}, noon.AddDate(-10, 0, 0)))
	assert.Len(t, names(t, s), 3, "nothing is old because a clock is wrong")
	for range 1000 { // scans of one day
		require.NoError(t, s.Prune([]string{"other"}, noon.Add(time.Minute)))
	}
	assert.Len(t, names(t, s), 3)

	require.NoError(t, s.Prune([]string{"other", card}, noon), "it is back, and the count starts again")
	for day := range 90 {
		require.NoError(t, s.Prune([]string{"other"}, noon.AddDate(0, 0, day)))
	}
	assert.Len(t, names(t, s), 3)
	require.NoError(t, s.Prune([]string{"other"}, noon.AddDate(0, 0, 90)))
	assert.Equal(t, []string{"1_b", "7_b"}, names(t, s), "the pinned one and the device that is there stay")
}
