package durabletest

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
)

// node is a file or a directory, independent of its name.
type node struct {
	// synced is the content of a file as of its last sync; nil when there was none.
	synced []byte
	// gone is the content of a file whose last name was removed.
	gone []byte
	// live holds the names a directory shows, and safe the names that are certainly on disk. Both are nil for files.
	live map[string]*node
	safe map[string]entry
}

// entry is the node of a name in a directory, nil when there is no such name, as of a change.
type entry struct {
	node *node
	seq  int
}

func newDir() *node { return &node{live: map[string]*node{}, safe: map[string]entry{}} }

// change is one operation on names that is not synced. It reaches the disk as a whole or not at all.
type change struct {
	seq  int
	sets []assignment
}

type assignment struct {
	dir  *node
	name string
	node *node
}

func (c change) touches(dir *node) bool {
	return slices.ContainsFunc(c.sets, func(a assignment) bool { return a.dir == dir })
}

// place is a path and the node it should name.
type place struct {
	path string
	node *node
}

// set records that the path names the node from now on.
func (f *FS) set(path string, n *node) error { return f.record(place{path, n}) }

func (f *FS) record(places ...place) error {
	f.seq++
	c := change{seq: f.seq}
	for _, p := range places {
		dir, err := f.find(filepath.Dir(p.path))
		if err != nil {
			return err
		}
		name := filepath.Base(p.path)
		if p.node == nil {
			delete(dir.live, name)
		} else {
			dir.live[name] = p.node
		}
		c.sets = append(c.sets, assignment{dir, name, p.node})
	}
	f.changes = append(f.changes, c)
	return nil
}

// find returns the node that a path names.
func (f *FS) find(path string) (*node, error) {
	parts, err := f.split(path)
	if err != nil {
		return nil, err
	}
	n := f.tree
	for _, part := range parts {
		if n = n.live[part]; n == nil {
			return nil, &fs.PathError{Op: "find", Path: path, Err: fs.ErrNotExist}
		}
	}
	return n, nil
}

// keepContent remembers the content of a file that is about to lose its name.
func (f *FS) keepContent(path string) error {
	n, err := f.find(path)
	if err != nil || n.live != nil {
		return nil // the operation itself reports it
	}
	n.gone, err = os.ReadFile(path)
	return err
}

// settle marks changes as safe on disk.
func (f *FS) settle(which func(change) bool) {
	f.changes = slices.DeleteFunc(f.changes, func(c change) bool {
		if !which(c) {
			return false
		}
		for _, a := range c.sets {
			if a.dir.safe[a.name].seq <= c.seq {
				a.dir.safe[a.name] = entry{a.node, c.seq}
			}
		}
		return true
	})
}

// adopt records files that other programs created or removed.
func (f *FS) adopt() error { return f.adoptDir(f.tree, f.root) }

func (f *FS) adoptDir(dir *node, path string) error {
	entries, err := os.ReadDir(path)
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, e := range entries {
		seen[e.Name()] = true
		below := filepath.Join(path, e.Name())
		if dir.live[e.Name()] == nil {
			n := &node{}
			if e.IsDir() {
				n = newDir()
			}
			if err := f.set(below, n); err != nil {
				return err
			}
		}
		if n := dir.live[e.Name()]; n.live != nil {
			if err := f.adoptDir(n, below); err != nil {
				return err
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(dir.live)) {
		if !seen[name] {
			if err := f.set(filepath.Join(path, name), nil); err != nil {
				return err
			}
		}
	}
	return nil
}

func (f *FS) eachFile(dir *node, path string, do func(string, *node) error) error {
	for name, n := range dir.live {
		below := filepath.Join(path, name)
		var err error
		if n.live == nil {
			err = do(below, n)
		} else {
			err = f.eachFile(n, below, do)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Cut writes into the new directory to one state that a power cut at this moment may leave: each operation on names
// that was not synced is there or not, and content that was not synced is old, torn or new. The file system itself is
// not changed, so that one moment can be cut many times.
func (f *FS) Cut(random *rand.Rand, to string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.adopt(); err != nil {
		return fmt.Errorf("cut power: %w", err)
	}
	c := cut{random: random, names: map[*node]map[string]entry{}, content: map[*node][]byte{}}
	if err := f.eachFile(f.tree, f.root, func(path string, n *node) (err error) {
		c.content[n], err = os.ReadFile(path)
		return err
	}); err != nil {
		return fmt.Errorf("cut power: %w", err)
	}
	survives := []func() bool{
		func() bool { return true }, func() bool { return false }, func() bool { return random.IntN(2) == 0 },
	}[random.IntN(3)]
	for _, change := range f.changes {
		if survives() {
			c.apply(change)
		}
	}
	if err := c.write(f.tree, to); err != nil {
		return fmt.Errorf("cut power: %w", err)
	}
	return nil
}

// cut is one state that a power cut may leave.
type cut struct {
	random *rand.Rand
	// names of the directories that a surviving change touched.
	names map[*node]map[string]entry
	// content that the files show.
	content map[*node][]byte
}

func (c *cut) apply(ch change) {
	for _, a := range ch.sets {
		if c.names[a.dir] == nil {
			c.names[a.dir] = maps.Clone(a.dir.safe)
		}
		if c.names[a.dir][a.name].seq <= ch.seq {
			c.names[a.dir][a.name] = entry{a.node, ch.seq}
		}
	}
}

func (c *cut) write(dir *node, to string) error {
	if err := os.MkdirAll(to, 0o700); err != nil {
		return err
	}
	names := c.names[dir]
	if names == nil {
		names = dir.safe
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		n, path := names[name].node, filepath.Join(to, name)
		var err error
		switch {
		case n == nil:
		case n.live != nil:
			err = c.write(n, path)
		default:
			err = os.WriteFile(path, c.left(n), 0o600)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// block is the unit a disk writes atomically, in bytes.
const block = 512

// left returns the remaining content of a file: what was synced, a prefix of what was written, all of it, or all of it
// with holes for blocks that were never written.
func (c *cut) left(n *node) []byte {
	now, live := c.content[n]
	if !live {
		now = n.gone
	}
	if bytes.Equal(n.synced, now) {
		return now
	}
	same := 0
	for same < min(len(n.synced), len(now)) && n.synced[same] == now[same] {
		same++
	}
	switch c.random.IntN(4) {
	case 0:
		return n.synced
	case 1:
		return now[:same+c.random.IntN(len(now)-same+1)]
	case 2:
		torn := bytes.Clone(now)
		for at := same; at < len(torn); at += block {
			if c.random.IntN(2) == 0 {
				clear(torn[at:min(at+block, len(torn))])
			}
		}
		return torn
	}
	return now
}
