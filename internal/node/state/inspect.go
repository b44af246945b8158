package state

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/internal/node/archive"
	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/pkg/durable"
)

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
