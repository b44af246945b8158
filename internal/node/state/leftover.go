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
	foreignPrefix  = "foreign-"
)

// contents is the relevant content of a directory. Locks, temporary files and leftovers are not state; downloaded
// images are fetched again.
type contents struct {
	temporary []string
	// journal says that a journal exists, and empty that it has no content.
	journal, empty bool
	archive        bool
	// aside is the highest number of a directory of leftovers, or of earlier or foreign state.
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
		case strings.HasPrefix(name, leftoverPrefix), strings.HasPrefix(name, earlierPrefix), strings.HasPrefix(name, foreignPrefix):
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

// setEarlierAside moves the state of a development build into a directory of its own.
func (s *State) setEarlierAside(dir string, fsys durable.FS) error {
	if err := s.setAside(dir, fsys, earlierPrefix, &s.Earlier); err != nil {
		return fmt.Errorf("set aside the state of a development build: %w", err)
	}
	return nil
}

// setForeignAside moves the state of another machine into a directory of its own: what it says of devices, and what is left to do, is
// about others.
func (s *State) setForeignAside(dir string, o Options) error {
	how := o.Machine.differs(s.Before.Machine)
	if err := s.setAside(dir, o.FS, foreignPrefix, &s.Foreign); err != nil {
		return fmt.Errorf("set aside the state of another machine: %w", err)
	}
	s.Notice = fmt.Sprintf("The state directory is of another machine (%s), such as one from which this disk was copied. It was moved to %s and "+
		"nothing in it was done. If the main board of this machine was replaced, stop the daemon and move its files back over those that are "+
		"there, except the file %s.", how, filepath.Join(dir, s.Foreign), stampFile)
	return nil
}

// setAside moves the state into a new directory, and deletes nothing. What says whose it is moves last, so that a start that is
// interrupted goes on where it ended.
func (s *State) setAside(dir string, fsys durable.FS, prefix string, made *string) error {
	found, err := look(fsys, dir)
	var names []string
	if found.archive {
		names = append(names, ArchiveDir)
	}
	if found.journal {
		names = append(names, journal.FileName)
	}
	if err == nil {
		err = moveAside(fsys, dir, prefix, made, found, names)
	}
	if err == nil && s.Before != nil {
		err = moveAside(fsys, dir, prefix, made, found, []string{stampFile})
	}
	if err == nil {
		s.Before = nil
	}
	return err
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
