package state

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"github.com/nodefirmware/node-firmware-operator/internal/node/archive"
	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/pkg/durable"
)

// Options are how a state directory is opened.
type Options struct {
	// Daemon is the version of this daemon, as version.Current.
	Daemon string
	// Machine is this one; without ids, the state of any machine is taken for its own.
	Machine Machine
	// FS is nil for the file system of this machine. The journal is not written through it.
	FS durable.FS
	// Patience is how long to wait for another process that has the directory open; zero for 2 s.
	Patience time.Duration
}

// State is an open state directory. One process has it open at a time.
type State struct {
	Journal *journal.Journal
	Archive *archive.Store
	// Before is the former stamp of the directory; nil when it had none.
	Before *Stamp
	// FirstRun says that the directory held nothing of an earlier daemon.
	FirstRun bool
	// Leftover is the directory into which incomplete files were moved; empty when there were none.
	Leftover string
	// Earlier is the directory into which the state of a development build was moved; empty when there was none.
	Earlier string
	// Foreign is the directory into which the state of another machine was moved, and Notice says so for people; both are empty when
	// there was none.
	Foreign, Notice string
	// Unswept says why the remains of an interrupted archiving could not be removed; nil when there are none.
	Unswept error

	lock *flock.Flock
}

// ArchiveDir is the name of the archive in the directory.
const ArchiveDir = "archive"

// Open opens the directory, and creates it if it is missing. Nothing is written to one that a newer daemon has opened.
// The stamp is written last, so that it never names a daemon that could not read the content. It returns an error that
// wraps ErrLocked, ErrNewer or journal.ErrDamaged in those cases.
func Open(dir string, o Options) (*State, error) {
	if o.FS == nil {
		o.FS = durable.OS{}
	}
	s := &State{Archive: archive.New(filepath.Join(dir, ArchiveDir), o.FS)}
	if err := s.open(dir, o); err != nil {
		return nil, errors.Join(fmt.Errorf("open state directory %s: %w", dir, err), s.Close())
	}
	return s, nil
}

func (s *State) open(dir string, o Options) (err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	if s.lock, err = lock(dir, cmp.Or(o.Patience, lockPatience)); err != nil {
		return err
	}
	if s.Before, err = readStamp(o.FS, dir); err != nil {
		return err
	}
	if s.Before != nil {
		if err := s.Before.check(o.Daemon); err != nil {
			return err
		}
	}
	was := o.Machine
	if s.Before != nil && o.Machine.isOther(s.Before.Machine) {
		if err := s.setForeignAside(dir, o); err != nil {
			return err
		}
	} else if s.Before != nil {
		was = s.Before.Machine
	}
	if s.Before != nil && s.Before.Schema < schema {
		if err := s.setEarlierAside(dir, o.FS); err != nil {
			return err
		}
	}
	err = s.openJournal(dir, o.FS)
	if errors.Is(err, journal.ErrEarlier) {
		if err = s.setEarlierAside(dir, o.FS); err == nil {
			err = s.openJournal(dir, o.FS)
		}
	}
	if err == nil && s.Earlier != "" {
		err = s.Journal.Note("The state of a development build of firmware-daemon was moved to " + filepath.Join(dir, s.Earlier) +
			": this version does not read it. Nothing in it was changed; a job that was running then is not continued.")
	}
	if err == nil && s.Notice != "" {
		err = s.Journal.Note(s.Notice)
	}
	if err != nil {
		return err
	}
	s.Unswept = s.Archive.Sweep()                                               // remains must not prevent finishing a job
	if err := o.FS.SyncFile(filepath.Join(dir, journal.FileName)); err != nil { // everything the stamp covers is on disk
		return fmt.Errorf("sync journal: %w", err)
	}
	return Stamp{Schema: schema, Daemon: o.Daemon, Machine: o.Machine.or(was)}.write(o.FS, dir, s.Before)
}

// openJournal moves the remains of an interrupted first run aside and opens the journal.
func (s *State) openJournal(dir string, fsys durable.FS) error {
	found, err := look(fsys, dir)
	if err != nil {
		return err
	}
	fresh := s.Before == nil && !found.archive
	switch {
	case found.empty && !fresh: // only a first run leaves an empty one
		return fmt.Errorf("journal %s is empty: %w", journal.FileName, journal.ErrDamaged)
	case found.empty:
		found.temporary, found.journal = append(found.temporary, journal.FileName), false
	}
	if s.Before == nil {
		if err := s.putAside(fsys, dir, found, found.temporary...); err != nil {
			return err
		}
	}
	s.Journal, err = openChecked(dir)
	if fresh && found.journal && errors.Is(err, journal.ErrDamaged) {
		if err := s.putAside(fsys, dir, found, journal.FileName); err != nil {
			return err
		}
		found.journal = false
		s.Journal, err = openChecked(dir)
	}
	s.FirstRun = fresh && !found.journal
	return err
}

func openChecked(dir string) (*journal.Journal, error) {
	j, err := journal.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := j.Check(); err != nil {
		return nil, errors.Join(err, j.Close())
	}
	return j, nil
}

// Close lets other processes open the directory.
func (s *State) Close() error {
	var errs []error
	if s.Journal != nil {
		errs = append(errs, s.Journal.Close())
	}
	if s.lock != nil {
		errs = append(errs, s.lock.Close())
	}
	return errors.Join(errs...)
}

// Inspection is the content of a state directory at one moment.
type Inspection struct {
	// Stamp is nil if there is none.
	Stamp *Stamp
	// Locked says that a daemon, or a command, has the directory open.
	Locked bool
	// Journal is empty before the first run.
	Journal journal.View
	Archive []archive.Entry
	// Leftovers are the directories of incomplete files that were moved aside.
	Leftovers []string
	// Earlier are the directories with the state of a development build.
	Earlier []string
	// Foreign are the directories with the state of other machines.
	Foreign []string
	// Problems says what could not be read, and why.
	Problems []string
}

// Inspect reads a state directory even while another process has it open, and changes nothing. Unreadable parts are
// problems in the result; a missing directory is an error that matches fs.ErrNotExist.
func Inspect(dir string) (Inspection, error) {
	fsys := durable.OS{}
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return Inspection{}, fmt.Errorf("read state directory: %w", err)
	}
	var out Inspection
	for _, e := range entries {
		switch {
		case strings.HasPrefix(e.Name(), leftoverPrefix):
			out.Leftovers = append(out.Leftovers, e.Name())
		case strings.HasPrefix(e.Name(), earlierPrefix):
			out.Earlier = append(out.Earlier, e.Name())
		case strings.HasPrefix(e.Name(), foreignPrefix):
			out.Foreign = append(out.Foreign, e.Name())
		}
	}
	note := func(err error) {
		if err != nil {
			out.Problems = append(out.Problems, err.Error())
		}
	}
	out.Stamp, err = readStamp(fsys, dir)
	note(err)
	out.Locked, err = Locked(dir)
	note(err)
	out.Journal, err = journal.Peek(dir)
	if !errors.Is(err, fs.ErrNotExist) {
		note(err)
	}
	out.Archive, err = archive.New(filepath.Join(dir, ArchiveDir), fsys).List()
	note(err)
	return out, nil
}
