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

const (
	leftoverPrefix = "leftover-"
	earlierPrefix  = "earlier-"
)

// contents is the relevant content of a directory. Locks, temporary files and leftovers are not state; downloaded
// images are fetched again.
type contents struct {
	temporary []string
	// journal says that a journal exists, and empty that it has no content.
	journal, empty bool
	archive        bool
	// aside is the highest number of a directory of leftovers, or of earlier state.
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
		case strings.HasPrefix(name, leftoverPrefix), strings.HasPrefix(name, earlierPrefix):
			if n, err := strconv.Atoi(name[strings.Index(name, "-")+1:]); err == nil {
				c.aside = max(c.aside, n)
			}
		}
	}
	return c, nil
}

// putAside moves incomplete files into a directory of leftovers and deletes none of them.
func (s *State) putAside(fsys durable.FS, dir string, found contents, names ...string) error {
	if err := moveAside(fsys, dir, leftoverPrefix, &s.Leftover, found, names); err != nil {
		return fmt.Errorf("move incomplete files aside: %w", err)
	}
	return nil
}

// setEarlierAside moves the state of a development build into a directory of its own, and deletes nothing. What says that it is of
// such a build moves last, so that a start that is interrupted goes on where it ended.
func (s *State) setEarlierAside(dir string, fsys durable.FS) error {
	found, err := look(fsys, dir)
	var names []string
	if found.archive {
		names = append(names, ArchiveDir)
	}
	if found.journal {
		names = append(names, journal.FileName)
	}
	if s.Before != nil {
		names = append(names, stampFile)
	}
	if err == nil {
		err = moveAside(fsys, dir, earlierPrefix, &s.Earlier, found, names)
	}
	if err != nil {
		return fmt.Errorf("set aside the state of a development build: %w", err)
	}
	s.Before = nil
	return nil
}

// moveAside moves files into a new directory, or into the one that this start has made.
func moveAside(fsys durable.FS, dir, prefix string, made *string, found contents, names []string) error {
	if len(names) == 0 {
		return nil
	}
	var err error
	if *made == "" {
		*made = prefix + strconv.Itoa(found.aside+1)
		err = fsys.Mkdir(filepath.Join(dir, *made))
	}
	if err == nil {
		err = fsys.SyncDir(dir)
	}
	to := filepath.Join(dir, *made)
	for _, name := range names {
		if err == nil {
			err = fsys.Rename(filepath.Join(dir, name), filepath.Join(to, name))
		}
	}
	if err == nil {
		err = errors.Join(fsys.SyncDir(to), fsys.SyncDir(dir))
	}
	return err
}
