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

// tree is a part of the host's files as it should be: paths from the root of the machine.
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

// renderHost brings the host tree in line with the state, writing only what differs.
func (m *Machine) renderHost(s *state) error {
	t := tree{}
	renderProc(t, s)
	renderDMI(t, s)
	renderESRT(t, s)
	renderNet(t, s)
	renderNVMe(t, s)
	renderSCSI(t, s)
	for _, root := range []string{"sys", "proc"} {
		if err := m.removeStale(root, t); err != nil {
			return err
		}
	}
	for p, e := range t {
		if err := m.writeEntry(filepath.Join(m.dir, p), e); err != nil {
			return err
		}
	}
	return nil
}

func (m *Machine) writeEntry(at string, e entry) error {
	if e.link != "" {
		if have, err := os.Readlink(at); err == nil && have == e.link {
			return nil
		}
	} else if have, err := os.ReadFile(at); err == nil && bytes.Equal(have, e.data) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return err
	}
	if e.link == "" {
		return m.replace(at, e.data, e.mode)
	}
	if err := os.Remove(at); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.Symlink(e.link, at)
}

// removeStale removes what is in the directory and not in the tree. Links go first, so that nothing dangles for long.
func (m *Machine) removeStale(root string, t tree) error {
	dirs := map[string]bool{root: true}
	for p := range t {
		for d := path.Dir(p); d != "."; d = path.Dir(d) {
			dirs[d] = true
		}
	}
	var stale []string
	err := filepath.WalkDir(filepath.Join(m.dir, root), func(p string, d fs.DirEntry, err error) error {
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
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, p := range stale {
		if err := os.RemoveAll(p); err != nil {
			return err
		}
	}
	return nil
}
