package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestWithoutABuilderTheErrorSaysWhatToInstall: a client without its daemon is no builder.
func TestWithoutABuilderTheErrorSaysWhatToInstall(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "docker"), []byte("#!/bin/sh\necho 'Cannot connect to the Docker daemon' >&2\nexit 1\n"), 0o700))
	_, err := findEngine(t.Context(), "", t.TempDir(), os.Stderr)
	require.ErrorContains(t, err, install)
	require.ErrorContains(t, err, "Cannot connect to the Docker daemon")
	_, err = findEngine(t.Context(), "kaniko", t.TempDir(), os.Stderr)
	require.ErrorContains(t, err, "name buildah, podman or docker")
}

// TestTakesFirstWorkingBuilder: and storage that would copy every layer only where nothing else works.
func TestTakesFirstWorkingBuilder(t *testing.T) {
	dir, cache := t.TempDir(), t.TempDir()
	t.Setenv("PATH", dir)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "podman"), []byte("#!/bin/sh\ncase \"$*\" in *overlay*) echo not supported >&2; exit 1;; esac\n"), 0o700))
	e, err := findEngine(t.Context(), "", cache, os.Stderr)
	require.NoError(t, err)
	assert.Equal(t, "podman", e.name)
	assert.Contains(t, strings.Join(e.global, " "), "--storage-driver vfs")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "buildah"), []byte("#!/bin/sh\n"), 0o700))
	e, err = findEngine(t.Context(), "", cache, os.Stderr)
	require.NoError(t, err)
	assert.Equal(t, "buildah", e.name)
	assert.Contains(t, strings.Join(e.global, " "), "--storage-driver overlay --root", "images of this project are kept apart")
}
