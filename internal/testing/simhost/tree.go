package simhost

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// tree is the desired state of a part of the host's files: paths from the root of the machine.
type tree map[string]entry

type entry struct {
	data []byte
	mode os.FileMode
	// link is the target of a symbolic link, from the directory of the link.
	link string
}

// attr adds a file as sysfs has them: one line.
func (t tree) attr(dir, name, value string) { t.file(dir, name, value+"\n", 0o444) }

// secret adds a file only root may read.
func (t tree) secret(dir, name, value string) { t.file(dir, name, value+"\n", 0o400) }

func (t tree) attrs(dir string, pairs ...string) {
	for i := 0; i+1 < len(pairs); i += 2 {
		t.attr(dir, pairs[i], pairs[i+1])
	}
}

func (t tree) file(dir, name, content string, mode os.FileMode) {
	t[path.Join(dir, name)] = entry{data: []byte(content), mode: mode}
}

// link adds a relative symbolic link to a path of the tree.
func (t tree) link(at, target string) {
	rel, err := filepath.Rel(path.Dir(at), target)
	if err != nil {
		panic("link " + at + ": " + err.Error()) // both are relative to the root
	}
	t[at] = entry{link: rel}
}

// render is the host tree of a state.
func render(s *state) tree {
	t := tree{}
	renderProc(t, s)
	renderDMI(t, s)
	renderESRT(t, s)
	renderVariables(t, s)
	renderESPs(t, s)
	renderBIOSSettings(t, s)
	renderNet(t, s)
	renderNVMe(t, s)
	renderSCSI(t, s)
	renderSATA(t, s)
	return t
}

// unfinished marks a host tree that a killed process may have left half changed.
const unfinished = "tree-unfinished"

// changeTree changes the files from the old tree to the new one. It writes only the differences.
func (m *Machine) changeTree(old, wanted tree) error {
	_, err := os.Stat(m.path(unfinished))
	if broken := err == nil; broken {
		old = nil
	}
	changed, gone := false, false
	for p, e := range wanted {
		changed = changed || !e.equal(old[p])
	}
	for p := range old {
		_, kept := wanted[p]
		gone = gone || !kept
	}
	if !changed && !gone {
		return nil
	}
	if err := os.WriteFile(m.path(unfinished), nil, 0o644); err != nil {
		return err
	}
	if gone || old == nil {
		if err := m.removeStale(wanted); err != nil {
			return err
		}
	}
	made := map[string]bool{}
	for p, e := range wanted {
		if e.equal(old[p]) {
			continue
		}
		if dir := path.Dir(p); !made[dir] {
			if err := os.MkdirAll(filepath.Join(m.dir, dir), 0o755); err != nil {
				return err
			}
			made[dir] = true
		}
		at := filepath.Join(m.dir, p)
		if old == nil && e.link == "" && createFile(at, e) {
			continue // nobody reads the files of a machine that is being created
		}
		if err := m.writeEntry(at, e); err != nil {
			return err
		}
	}
	return os.Remove(m.path(unfinished))
}

func (e entry) equal(other entry) bool {
	return e.mode == other.mode && e.link == other.link && bytes.Equal(e.data, other.data)
}

// createFile makes a file that does not exist, and reports whether it did.
func createFile(at string, e entry) bool {
	f, err := os.OpenFile(at, os.O_CREATE|os.O_EXCL|os.O_WRONLY, e.mode)
	if err != nil {
		return false
	}
	_, err = f.Write(e.data)
	return errors.Join(err, f.Close()) == nil
}

func (m *Machine) writeEntry(at string, e entry) error {
	if e.link == "" {
		return m.replace(at, e.data, e.mode)
	}
	if err := os.Remove(at); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.Symlink(e.link, at)
}

// removeStale removes files of the host's directories that are not in the tree. Links are removed first, so that they
// do not dangle for long.
func (m *Machine) removeStale(t tree) error {
	dirs := map[string]bool{}
	for p := range t {
		for d := path.Dir(p); d != "."; d = path.Dir(d) {
			dirs[d] = true
		}
	}
	var stale []string
	visit := func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel := strings.TrimPrefix(p, m.dir+"/")
		if _, ok := t[rel]; ok || dirs[rel] {
			return nil
		}
		if d.IsDir() {
			stale = append(stale, p)
			return fs.SkipDir
		}
		stale = append([]string{p}, stale...)
		return nil
	}
	for _, root := range []string{"sys", "proc", "run/udev"} {
		err := filepath.WalkDir(filepath.Join(m.dir, root), visit)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	for _, p := range stale {
		if err := os.RemoveAll(p); err != nil {
			return err
		}
	}
	return nil
}
