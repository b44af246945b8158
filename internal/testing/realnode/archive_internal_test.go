package realnode

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPauseImageNamesLayerDigest(t *testing.T) {
	dir := t.TempDir()
	program, archive := filepath.Join(dir, "program"), filepath.Join(dir, "pause.tar")
	require.NoError(t, os.WriteFile(program, []byte("binary"), 0o600))
	require.NoError(t, writePause(archive, program))
	names, err := imageNames(archive)
	require.NoError(t, err)
	assert.Equal(t, []image{{"localhost/node-firmware-lab/pause", "1"}}, names)

	files := map[string][]byte{}
	raw, err := os.ReadFile(archive)
	require.NoError(t, err)
	for r := tar.NewReader(bytes.NewReader(raw)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		files[h.Name], err = io.ReadAll(r)
		require.NoError(t, err)
	}
	var config struct {
		RootFS struct {
			DiffIDs []string `json:"diff_ids"`
		} `json:"rootfs"`
	}
	require.NoError(t, json.Unmarshal(files["config.json"], &config))
	sum := sha256.Sum256(files["layer.tar"])
	assert.Equal(t, []string{"sha256:" + hex.EncodeToString(sum[:])}, config.RootFS.DiffIDs)
}

func TestImagesAreFoundByTheirNames(t *testing.T) {
	archive := func(tags ...string) string {
		manifest, err := json.Marshal([]archivedImage{{RepoTags: tags}})
		require.NoError(t, err)
		raw, err := tarOf(entry{"other", 0o644, []byte("x")}, entry{archiveManifest, 0o644, manifest})
		require.NoError(t, err)
		path := filepath.Join(t.TempDir(), "images.tar")
		require.NoError(t, os.WriteFile(path, raw, 0o600))
		return path
	}
	operator, daemon, err := findImages([]string{archive("registry.example:5000/fw/daemon:v1"), archive("registry.example:5000/fw/operator:v2")})
	require.NoError(t, err)
	assert.Equal(t, "registry.example:5000/fw/operator:v2", operator.String())
	assert.Equal(t, image{"registry.example:5000/fw/daemon", "v1"}, daemon)

	_, _, err = findImages([]string{archive("registry.example/daemon:v1")})
	require.ErrorContains(t, err, "run make images")
	_, _, err = findImages([]string{archive("registry.example:5000/daemon")})
	require.ErrorContains(t, err, "has no tag")
	empty := filepath.Join(t.TempDir(), "empty.tar")
	raw, err := tarOf()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(empty, raw, 0o600))
	_, _, err = findImages([]string{empty})
	require.ErrorContains(t, err, "holds no manifest.json")
}
