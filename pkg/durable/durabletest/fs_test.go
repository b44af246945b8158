package durabletest_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/durable"
	"github.com/nodefirmware/node-firmware-operator/pkg/durable/durabletest"
)

func newFS(t *testing.T) (fsys *durabletest.FS, dir string) {
	t.Helper()
	dir = t.TempDir()
	fsys, err := durabletest.New(dir)
	require.NoError(t, err)
	return fsys, dir
}

func create(t *testing.T, fsys durable.FS, path, content string) durable.File {
	t.Helper()
	f, err := fsys.Create(path)
	require.NoError(t, err)
	_, err = f.Write([]byte(content))
	require.NoError(t, err)
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// outcomes are the different states that power cuts at this moment leave: file names with their content.
func outcomes(t *testing.T, fsys *durabletest.FS) []string {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	var out []string
	for range 100 {
		dir := filepath.Join(t.TempDir(), "cut")
		require.NoError(t, fsys.Cut(random, dir))
		var state []string
		require.NoError(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err != nil || path == dir {
				return err
			}
			name, _ := filepath.Rel(dir, path)
			if d.IsDir() {
				state = append(state, name+"/")
				return nil
			}
			content, err := os.ReadFile(path)
			state = append(state, name+"="+string(content))
			return err
		}))
		if s := strings.Join(state, " "); !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	slices.Sort(out)
	return out
}

func TestUnsyncedMayBeLostOrTorn(t *testing.T) {
	fsys, dir := newFS(t)
	f := create(t, fsys, filepath.Join(dir, "a"), "xy")
	assert.Equal(t, []string{"", "a=", "a=\x00\x00", "a=x", "a=xy"}, outcomes(t, fsys))
	require.NoError(t, f.Sync())
	assert.Equal(t, []string{"", "a=xy"}, outcomes(t, fsys), "the name is not safe yet")
	require.NoError(t, fsys.SyncDir(dir))
	assert.Equal(t, []string{"a=xy"}, outcomes(t, fsys))
}

func TestRenameIsLostOrKeptAsAWhole(t *testing.T) {
	fsys, dir := newFS(t)
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	require.NoError(t, create(t, fsys, a, "new").Sync())
	require.NoError(t, create(t, fsys, b, "old").Sync())
	require.NoError(t, fsys.SyncDir(dir))
	require.NoError(t, fsys.Rename(a, b))
	assert.Equal(t, []string{"a=new b=old", "b=new"}, outcomes(t, fsys))
	require.NoError(t, fsys.SyncDir(dir))
	assert.Equal(t, []string{"b=new"}, outcomes(t, fsys))
}

func TestRemovalIsLostOrKept(t *testing.T) {
	fsys, dir := newFS(t)
	a := filepath.Join(dir, "a")
	require.NoError(t, create(t, fsys, a, "1").Sync())
	require.NoError(t, fsys.SyncDir(dir))
	require.NoError(t, fsys.Remove(a))
	require.NoError(t, create(t, fsys, a, "2").Sync())
	assert.Equal(t, []string{"", "a=1", "a=2"}, outcomes(t, fsys))
	require.NoError(t, fsys.SyncDir(dir))
	assert.Equal(t, []string{"a=2"}, outcomes(t, fsys))
}

func TestDirectoryIsLostWithAllInItUntilItsParentIsSynced(t *testing.T) {
	fsys, dir := newFS(t)
	d := filepath.Join(dir, "d")
	require.NoError(t, fsys.Mkdir(d))
	require.NoError(t, create(t, fsys, filepath.Join(d, "a"), "1").Sync())
	require.NoError(t, fsys.SyncDir(d))
	assert.Equal(t, []string{"", "d/ d/a=1"}, outcomes(t, fsys))
	require.NoError(t, fsys.SyncDir(dir))
	assert.Equal(t, []string{"d/ d/a=1"}, outcomes(t, fsys))
	require.NoError(t, fsys.RemoveAll(d))
	assert.Equal(t, []string{"", "d/", "d/ d/a=1"}, outcomes(t, fsys))
}

func TestFilesOfOtherProgramsAreSeenAndNotSafe(t *testing.T) {
	fsys, dir := newFS(t)
	a := filepath.Join(dir, "a")
	require.NoError(t, os.WriteFile(a, []byte("x"), 0o600))
	assert.Equal(t, []string{"", "a=", "a=\x00", "a=x"}, outcomes(t, fsys))
	require.NoError(t, fsys.SyncFile(a))
	require.NoError(t, fsys.SyncDir(dir))
	assert.Equal(t, []string{"a=x"}, outcomes(t, fsys))
}

func TestNothingWorksWithoutPower(t *testing.T) {
	fsys, dir := newFS(t)
	fsys.CutAt(1)
	_, err := fsys.Create(filepath.Join(dir, "a"))
	require.NoError(t, err)
	require.ErrorIs(t, fsys.SyncDir(dir), durabletest.ErrPower)
	_, err = fsys.ReadDir(dir)
	require.ErrorIs(t, err, durabletest.ErrPower)
	assert.Equal(t, 2, fsys.Operations())
}
