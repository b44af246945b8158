package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// member is a file of an archive.
type member struct {
	name, content string
	mode          fs.FileMode
}

func pack(t *testing.T, members ...member) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, m := range members {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: m.name, Mode: int64(m.mode), Size: int64(len(m.content))}
		if m.mode&fs.ModeSymlink != 0 {
			h = &tar.Header{Typeflag: tar.TypeSymlink, Name: m.name, Linkname: m.content}
		}
		require.NoError(t, w.WriteHeader(h))
		if h.Typeflag == tar.TypeReg {
			_, err := w.Write([]byte(m.content))
			require.NoError(t, err)
		}
	}
	require.NoError(t, w.Close())
	return out.Bytes()
}

func compressed(t *testing.T, raw []byte) string {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err := w.Write(raw)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return out.String()
}

// saved writes an image of two layers as buildah does, the upper one compressed.
func saved(t *testing.T, lower, upper []byte) string {
	t.Helper()
	return savedWith(t, "{}", lower, upper)
}

// savedWith is saved with what the image's configuration says about how it is run, as JSON.
func savedWith(t *testing.T, config string, lower, upper []byte) string {
	t.Helper()
	manifest, err := json.Marshal([]map[string]any{{"Config": "0c0ff33.json", "Layers": []string{"aa.tar", "bb.tar"}}})
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "image.tar")
	raw := pack(t, member{"aa.tar", string(lower), 0o644}, member{"bb.tar", compressed(t, upper), 0o644},
		member{"old/layer.tar", "../aa.tar", fs.ModeSymlink},
		member{"0c0ff33.json", `{"config":` + config + `,"rootfs":{"diff_ids":["sha256:aa","sha256:bb"]}}`, 0o644},
		member{"manifest.json", string(manifest), 0o644})
	require.NoError(t, os.WriteFile(path, raw, 0o600))
	return path
}

func TestAnArchiveIsReadLayerByLayer(t *testing.T) {
	lower, upper := pack(t, member{"etc/motd", "below", 0o644}), pack(t, member{"etc/motd", "above", 0o644})
	a, err := openArchive(saved(t, lower, upper))
	require.NoError(t, err)
	defer a.close()
	assert.Equal(t, "sha256:0c0ff33", a.ID)
	assert.Equal(t, []layer{
		{DiffID: "sha256:aa", Size: int64(len(lower)), member: "aa.tar"}, {DiffID: "sha256:bb", Size: int64(len(upper)), member: "bb.tar"},
	}, a.Layers)
	assert.Equal(t, int64(len(lower)+len(upper)), a.size())
}

func TestAnArchiveThatIsNoneIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "image.tar")
	for says, raw := range map[string][]byte{
		"no manifest.json":         pack(t, member{"hello", "world", 0o644}),
		"holds 0 images":           pack(t, member{"manifest.json", "[]", 0o644}),
		"no c.json":                pack(t, member{"manifest.json", `[{"Config":"c.json"}]`, 0o644}),
		"names 1 layers":           pack(t, member{"manifest.json", `[{"Config":"c"}]`, 0o644}, member{"c", `{"rootfs":{"diff_ids":["sha256:aa"]}}`, 0o644}),
		"no layer l":               pack(t, member{"manifest.json", `[{"Config":"c","Layers":["l"]}]`, 0o644}, member{"c", `{"rootfs":{"diff_ids":["sha256:aa"]}}`, 0o644}),
		"invalid tar header":       bytes.Repeat([]byte("x"), 1024),
		"read manifest.json: inva": pack(t, member{"manifest.json", "x", 0o644}),
	} {
		require.NoError(t, os.WriteFile(path, raw, 0o600))
		_, err := openArchive(path)
		assert.ErrorContains(t, err, says)
		assert.ErrorContains(t, err, path)
	}
}

func TestDifferentLayersAreNamed(t *testing.T) {
	one := []layer{{DiffID: "a"}, {DiffID: "b"}, {DiffID: "c"}}
	assert.Empty(t, differences(one, []layer{{DiffID: "a"}, {DiffID: "b"}, {DiffID: "c"}}))
	assert.Equal(t, []string{"layer 2", "layer 3"}, differences(one, []layer{{DiffID: "a"}, {DiffID: "x"}, {DiffID: "y"}}))
	assert.Equal(t, []string{"the number of layers (3 and 2)"}, differences(one, one[:2]))
}
