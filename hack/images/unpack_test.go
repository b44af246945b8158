package main

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// unpack writes the file system of an image into an empty directory. Devices are left out: a container gets its own.
func (a *archive) unpack(dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("unpack image: %w", err)
	}
	defer root.Close()
	for _, l := range a.Layers {
		content, err := a.layer(l)
		if err != nil {
			return err
		}
		for r := tar.NewReader(content); ; {
			h, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err == nil {
				err = place(root, h, r)
			}
			if err != nil {
				return fmt.Errorf("unpack layer %s: %w", l.DiffID, err)
			}
		}
	}
	return nil
}

// place writes one member of a layer over what is there.
func place(root *os.Root, h *tar.Header, content io.Reader) error {
	name := strings.TrimPrefix(path.Clean("/"+h.Name), "/")
	if name == "" {
		return nil
	}
	parent, base := path.Split(name)
	if err := root.MkdirAll(path.Clean("./"+parent), 0o755); err != nil {
		return err
	}
	mode := h.FileInfo().Mode()
	switch {
	case base == opaque:
		entries, err := fs.ReadDir(root.FS(), path.Clean(parent))
		for _, e := range entries {
			err = errors.Join(err, root.RemoveAll(path.Join(parent, e.Name())))
		}
		return err
	case strings.HasPrefix(base, whiteout):
		return root.RemoveAll(path.Join(parent, strings.TrimPrefix(base, whiteout)))
	case h.Typeflag == tar.TypeDir:
		if info, err := root.Lstat(name); err == nil && info.IsDir() {
			return root.Chmod(name, mode&(fs.ModePerm|fs.ModeSticky))
		}
	}
	if err := root.RemoveAll(name); err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeDir:
		return errors.Join(root.Mkdir(name, 0o700), root.Chmod(name, mode&(fs.ModePerm|fs.ModeSticky)))
	case tar.TypeSymlink:
		return root.Symlink(h.Linkname, name)
	case tar.TypeLink:
		return root.Link(strings.TrimPrefix(path.Clean("/"+h.Linkname), "/"), name)
	case tar.TypeReg:
		f, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		_, err = io.Copy(f, content)
		return errors.Join(err, f.Chmod(mode.Perm()|mode&(fs.ModeSetuid|fs.ModeSetgid)), f.Close())
	}
	return nil
}

// runConfig is how the programs of an image are run where a container does not say otherwise.
type runConfig struct {
	User       string
	Env        []string
	Entrypoint []string
}

func (a *archive) runConfig() (runConfig, error) {
	var manifest []struct{ Config string }
	var config struct {
		Config runConfig `json:"config"`
	}
	err := a.unmarshal("manifest.json", &manifest)
	if err == nil {
		err = a.unmarshal(manifest[0].Config, &config)
	}
	return config.Config, err
}

func TestUnpacksImageByLayers(t *testing.T) {
	lower := pack(t, member{"usr/bin/tool", "old", 0o755}, member{"usr/bin/gone", "x", 0o644}, member{"etc/dir/below", "x", 0o644},
		member{"bin", "usr/bin", fs.ModeSymlink | 0o777})
	upper := pack(t, member{"usr/bin/tool", "new", 0o4755}, member{"usr/bin/.wh.gone", "", 0o644}, member{"etc/dir/.wh..wh..opq", "", 0o644},
		member{"etc/dir/above", "y", 0o600})
	config, err := json.Marshal(map[string]any{"Env": []string{"PATH=/usr/bin"}, "User": "0:0"})
	require.NoError(t, err)
	a, err := openArchive(savedWith(t, string(config), lower, upper))
	require.NoError(t, err)
	defer a.close()
	dir := t.TempDir()
	require.NoError(t, a.unpack(dir))
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		return string(text)
	}
	assert.Equal(t, "new", read("usr/bin/tool"))
	assert.Equal(t, "new", read("bin/tool"), "through a link of the layer below")
	assert.Equal(t, "y", read("etc/dir/above"))
	for _, gone := range []string{"usr/bin/gone", "etc/dir/below", "usr/bin/.wh.gone", "etc/dir/.wh..wh..opq"} {
		assert.NoFileExists(t, filepath.Join(dir, gone))
	}
	c, err := a.runConfig()
	require.NoError(t, err)
	assert.Equal(t, runConfig{User: "0:0", Env: []string{"PATH=/usr/bin"}}, c)
}
