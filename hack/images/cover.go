package main

import (
	"archive/tar"
	"maps"
	"path"
	"strings"
)

// Names by which a layer removes what lower layers have:
// https://github.com/opencontainers/image-spec/blob/v1.1.1/layer.md#whiteouts.
const (
	// whiteout, before a name, removes the file or directory of that name.
	whiteout = ".wh."
	// opaque, in a directory, removes everything that lower layers have in it.
	opaque = ".wh..wh..opq"
	// private begins the names of bookkeeping of AUFS, which removes nothing.
	private = ".wh..wh."
)

// cover is what layers hide of the layers below them. Paths are as in archive.files; "." is the root.
type cover struct {
	// names that exist again or are removed.
	names map[string]bool
	// trees are paths below which nothing of lower layers is left.
	trees map[string]bool
}

func newCover() *cover { return &cover{names: map[string]bool{}, trees: map[string]bool{}} }

// add notes a member of a layer, and reports whether it is one of the image and not only a mark.
func (c *cover) add(name string, kind byte) bool {
	dir, base := path.Split(name)
	switch {
	case base == opaque:
		c.trees[path.Clean(dir)] = true
		return false
	case strings.HasPrefix(base, private):
		return false
	case strings.HasPrefix(base, whiteout):
		removed := path.Join(dir, strings.TrimPrefix(base, whiteout))
		c.names[removed], c.trees[removed] = true, true
		return false
	}
	c.names[name] = true
	if kind != tar.TypeDir { // a directory keeps what a lower layer has in it
		c.trees[name] = true
	}
	return true
}

func (c *cover) merge(o *cover) {
	maps.Copy(c.names, o.names)
	maps.Copy(c.trees, o.trees)
}

// hides reports whether a file of a lower layer is not seen.
func (c *cover) hides(name string) bool {
	if c.names[name] {
		return true
	}
	for dir := path.Dir(name); ; dir = path.Dir(dir) {
		if c.trees[dir] {
			return true
		}
		if dir == "." {
			return false
		}
	}
}
