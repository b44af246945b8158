package state

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/pkg/durable"
)

const leftoverPrefix = "leftover-"

// contents is the relevant content of a directory. Locks, temporary files and leftovers are not state; downloaded
// images are fetched again.
type contents struct {
	temporary []string
	// journal says that a journal exists, and empty that it has no content.
	journal, empty bool
	archive        bool
	// aside is the highest number of a directory of leftovers.
	aside int
}

func look(fsys durable.FS, dir string) (contents, error) {
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return contents{}, fmt.Errorf("list directory: %w", err)
	}
	var c contents
	for _, e := range entries {
		switch name := e.Name(); {
		case strings.HasPrefix(name, durable.TempPrefix):
			c.temporary = append(c.temporary, name)
		case name == journal.FileName:
			info, err := e.Info()
			if err != nil {
				return contents{}, fmt.Errorf("check journal: %w", err)
			}
			c.journal, c.empty = true, info.Size() == 0
		case name == ArchiveDir:
			below, err := fsys.ReadDir(filepath.Join(dir, name))
			if err != nil {
				return contents{}, fmt.Errorf("list archive: %w", err)
			}
			c.archive = len(below) > 0
		case strings.HasPrefix(name, leftoverPrefix):
			if n, err := strconv.Atoi(strings.TrimPrefix(name, leftoverPrefix)); err == nil {
				c.aside = max(c.aside, n)
			}
		}
	}
	return c, nil
}

// putAside moves incomplete files into a new directory of leftovers, or into the one that this start has made, and deletes none of them.
func (s *State) putAside(fsys durable.FS, dir string, found contents, names ...string) error {
	if len(names) == 0 {
		return nil
	}
	var err error
	if s.Leftover == "" {
		s.Leftover = leftoverPrefix + strconv.Itoa(found.aside+1)
		err = fsys.Mkdir(filepath.Join(dir, s.Leftover))
	}
	if err == nil {
		err = fsys.SyncDir(dir)
	}
	to := filepath.Join(dir, s.Leftover)
	for _, name := range names {
		if err == nil {
			err = fsys.Rename(filepath.Join(dir, name), filepath.Join(to, name))
		}
	}
	if err == nil {
		err = errors.Join(fsys.SyncDir(to), fsys.SyncDir(dir))
	}
	if err != nil {
		return fmt.Errorf("move incomplete files aside: %w", err)
	}
	return nil
}
