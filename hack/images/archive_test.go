package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
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
		if m.mode.IsDir() {
			h = &tar.Header{Typeflag: tar.TypeDir, Name: m.name, Mode: 0o755}
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

// saved writes an image of some layers, from the base upwards, as buildah does, with the uppermost compressed. The layers are named aa, bb, ….
func saved(t *testing.T, layers ...[]byte) string {
	t.Helper()
	return savedWith(t, "{}", layers...)
}

// savedWith is saved with what the image's configuration says about how it is run, as JSON.
func savedWith(t *testing.T, config string, layers ...[]byte) string {
	t.Helper()
	var members []member
	var names, digests []string
	for i, raw := range layers {
		name, content := strings.Repeat(string(rune('a'+i)), 2), string(raw)
		if i == len(layers)-1 {
			content = compressed(t, raw)
		}
		members = append(members, member{name + ".tar", content, 0o644})
		names, digests = append(names, name+".tar"), append(digests, "sha256:"+name)
	}
	manifest, err := json.Marshal([]map[string]any{{"Config": "0c0ff33.json", "Layers": names}})
	require.NoError(t, err)
	whole, err := json.Marshal(map[string]any{"config": json.RawMessage(config), "rootfs": map[string]any{"diff_ids": digests}})
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "image.tar")
	members = append(members, member{"old/layer.tar", "../aa.tar", fs.ModeSymlink},
		member{"0c0ff33.json", string(whole), 0o644}, member{"manifest.json", string(manifest), 0o644})
	require.NoError(t, os.WriteFile(path, pack(t, members...), 0o600))
	return path
}

func TestReadsArchiveLayerByLayer(t *testing.T) {
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

func TestReadsOnlyVisibleFiles(t *testing.T) {
	const file, dir = fs.FileMode(0o644), fs.ModeDir
	below := []member{
		{"usr/", "", dir}, {"usr/bin/", "", dir}, {"usr/bin/kept", "1", file}, {"usr/bin/changed", "1", file}, {"usr/bin/removed", "1", file},
		{"usr/lib/", "", dir}, {"usr/lib/tool/a", "1", file}, {"usr/lib/tool/deep/b", "1", file}, {"opt/x", "1", file}, {"opt/deep/y", "1", file},
	}
	for name, c := range map[string]struct {
		above [][]member
		want  []string
	}{
		"one layer": {nil, []string{
			"opt/deep/y=1", "opt/x=1", "usr/bin/changed=1", "usr/bin/kept=1", "usr/bin/removed=1", "usr/lib/tool/a=1", "usr/lib/tool/deep/b=1"}},
		"files and a directory are removed": {[][]member{{
			{"./usr/bin/.wh.removed", "", file}, {"usr/bin/changed", "2", file}, {"usr/lib/.wh.tool", "", file}, {".wh.opt", "", file}}},
			[]string{"usr/bin/changed=2", "usr/bin/kept=1"}},
		"what has a similar name stays": {[][]member{{{"usr/bin/.wh.remove", "", file}, {"usr/.wh.li", "", file}, {".wh.op", "", file}}}, []string{
			"opt/deep/y=1", "opt/x=1", "usr/bin/changed=1", "usr/bin/kept=1", "usr/bin/removed=1", "usr/lib/tool/a=1", "usr/lib/tool/deep/b=1"}},
		"a directory begins anew, with what its own layer has": {[][]member{{
			{"usr/", "", dir}, {"usr/bin/new", "2", file}, {"usr/.wh..wh..opq", "", file}, {"usr/lib/c", "2", file}}},
			[]string{"opt/deep/y=1", "opt/x=1", "usr/bin/new=2", "usr/lib/c=2"}},
		"the whole root begins anew": {[][]member{{{"only", "2", file}, {".wh..wh..opq", "", file}}}, []string{"only=2"}},
		"bookkeeping of AUFS removes nothing": {[][]member{{{".wh..wh.plnk/", "", dir}, {".wh..wh.aufs", "", file}}}, []string{
			"opt/deep/y=1", "opt/x=1", "usr/bin/changed=1", "usr/bin/kept=1", "usr/bin/removed=1", "usr/lib/tool/a=1", "usr/lib/tool/deep/b=1"}},
		"a link replaces a directory, a directory a file": {[][]member{{
			{"usr/lib", "../opt", fs.ModeSymlink}, {"opt/x/", "", dir}, {"usr/bin/kept", "changed", fs.ModeSymlink}}},
			[]string{"opt/deep/y=1", "usr/bin/changed=1", "usr/bin/removed=1"}},
		"what was removed comes back": {[][]member{
			{{"usr/bin/.wh.removed", "", file}, {"usr/lib/.wh.tool", "", file}, {"opt/.wh..wh..opq", "", file}},
			{{"usr/bin/removed", "3", file}, {"usr/lib/tool/a", "3", file}}},
			[]string{"usr/bin/changed=1", "usr/bin/kept=1", "usr/bin/removed=3", "usr/lib/tool/a=3"}},
	} {
		t.Run(name, func(t *testing.T) {
			layers := [][]byte{pack(t, below...)}
			for _, members := range c.above {
				layers = append(layers, pack(t, members...))
			}
			a, err := openArchive(saved(t, layers...))
			require.NoError(t, err)
			defer a.close()
			var seen []string
			require.NoError(t, a.files(func(name string, _ *tar.Header, content io.Reader) error {
				raw, err := io.ReadAll(content)
				seen = append(seen, name+"="+string(raw))
				return err
			}))
			slices.Sort(seen)
			assert.Equal(t, c.want, seen)
		})
	}
}

func TestRefusesNonArchive(t *testing.T) {
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
