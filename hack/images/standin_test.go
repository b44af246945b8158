package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Whoever has an image that was built on a stand-in is told which base was never pulled.
func TestReplacedBasesAreNamed(t *testing.T) {
	root := filepath.Join("..", "..")
	said, err := replaced(root, []string{"DEBIAN_IMAGE=" + standInDebian, "GO_IMAGE=" + standInGo + "1.26-1"})
	require.NoError(t, err)
	require.Len(t, said, 2)
	assert.Regexp(t, `^docker\.io/library/golang:\S+@sha256:[0-9a-f]{64} was not pulled: the stand-in localhost/node-firmware-stand-in/golang:1\.26-1 is in its place$`, said[0])
	assert.Regexp(t, `^docker\.io/library/debian:bookworm-slim@sha256:[0-9a-f]{64} was not pulled: the stand-in localhost/\S+ is in its place$`, said[1])

	_, err = replaced(root, []string{"ALPINE_IMAGE=localhost/alpine"})
	require.ErrorContains(t, err, "do not name the bases")

	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "Dockerfile.a"), []byte("ARG GO_IMAGE=docker.io/library/golang:1@sha256:a\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "Dockerfile.b"), []byte("ARG GO_IMAGE=docker.io/library/golang:1@sha256:b\n"), 0o600))
	_, err = replaced(dir, []string{"GO_IMAGE=localhost/go"})
	require.ErrorContains(t, err, "once each", "two Dockerfiles with two bases cannot have one stand-in")
}
