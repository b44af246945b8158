package durable_test

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/durable"
	"github.com/nodefirmware/node-firmware-operator/pkg/durable/durabletest"
)

var (
	oldContent = strings.Repeat("old", 700)
	newContent = strings.Repeat("newer", 900)
)

// withOld is a file system with the old content in a file.
func withOld(t *testing.T) (fsys *durabletest.FS, path string) {
	t.Helper()
	dir := t.TempDir()
	path = filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(path, []byte(oldContent), 0o600))
	fsys, err := durabletest.New(dir)
	require.NoError(t, err)
	return fsys, path
}

// cuts are how often one moment is cut.
const cuts = 40

// TestPowerCutAnywhereLeavesOldOrNewContent proves R002-33.
func TestPowerCutAnywhereLeavesOldOrNewContent(t *testing.T) {
	fsys, path := withOld(t)
	require.NoError(t, durable.WriteFile(fsys, path, []byte(newContent)))
	operations := fsys.Operations()
	require.Greater(t, operations, 4)
	for at := range operations + 1 {
		fsys, path := withOld(t)
		fsys.CutAt(at)
		err := durable.WriteFile(fsys, path, []byte(newContent))
		require.Equal(t, at < operations, errors.Is(err, durabletest.ErrPower), "cut at %d: %v", at, err)
		random := rand.New(rand.NewPCG(uint64(at), 1))
		for range cuts {
			to := t.TempDir()
			require.NoError(t, fsys.Cut(random, to))
			content, err := os.ReadFile(filepath.Join(to, "file"))
			require.NoError(t, err, "cut at %d", at)
			if at == operations {
				require.Equal(t, newContent, string(content), "what returned nil is durable")
			}
			require.Contains(t, []string{oldContent, newContent}, string(content), "cut at %d", at)
			require.NoError(t, durable.WriteFile(durable.OS{}, filepath.Join(to, "file"), []byte(newContent)), "leftovers do not matter")
		}
	}
}

func TestFailureLeavesOldOrNew(t *testing.T) { // F5
	for at := range 6 {
		fsys, path := withOld(t)
		fsys.FailAt(at, syscall.EIO)
		err := durable.WriteFile(fsys, path, []byte(newContent))
		content, readErr := os.ReadFile(path)
		require.NoError(t, readErr)
		switch {
		case err == nil:
			assert.Equal(t, newContent, string(content))
		default:
			assert.Contains(t, []string{oldContent, newContent}, string(content))
		}
		require.NoError(t, durable.WriteFile(fsys, path, []byte(newContent)), "the next one succeeds")
	}
}

func TestUnwritableDiskKeepsContent(t *testing.T) { // F5
	for _, room := range []int64{0, 1, 511, int64(len(newContent)) - 1} {
		fsys, path := withOld(t)
		fsys.Full(room)
		err := durable.WriteFile(fsys, path, []byte(newContent))
		require.ErrorIs(t, err, syscall.ENOSPC)
		require.ErrorContains(t, err, path)
		assertOnlyOld(t, path)
	}
	fsys, path := withOld(t)
	fsys.ReadOnly()
	require.ErrorIs(t, durable.WriteFile(fsys, path, []byte(newContent)), syscall.EROFS)
	assertOnlyOld(t, path)
}

func assertOnlyOld(t *testing.T, path string) {
	t.Helper()
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, oldContent, string(content))
	entries, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	assert.Len(t, entries, 1, "nothing is left behind")
}
