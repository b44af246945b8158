package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strconv"

	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/internal/version"
	"github.com/nodefirmware/node-firmware-operator/pkg/durable"
)

const (
	stampFile = "version"
	// schema is the version of the directory's layout. The journal has a schema of its own. A directory with a lower one is of a
	// development build from before the first release: it is set aside.
	schema = 2
	// oldestSchema is assumed of data without a stamp. The journal's own schema is looked at all the same.
	oldestSchema = 2
	// maxStamp bounds a stamp in bytes.
	maxStamp = 4 << 10
)

// Stamp says which daemon opened the directory last.
type Stamp struct {
	// Schema of the directory.
	Schema int `json:"schema"`
	// Daemon is the version of the daemon; empty where that is not known.
	Daemon string `json:"daemon,omitempty"`
	// Machine is the one that the directory is of; without ids where nobody has asked.
	Machine Machine `json:"machine,omitzero"`
}

// ErrNewer says that the directory was written by a newer daemon.
var ErrNewer = journal.ErrNewer

// errTruncated says that a stamp is incomplete. That is ignored, because the other checks still apply.
var errTruncated = errors.New("the stamp is incomplete")

// parseStamp tolerates unknown fields and surrounding blanks. It returns an error that wraps errTruncated for an
// incomplete stamp, and another error for one it does not understand.
func parseStamp(raw []byte) (Stamp, error) {
	var s struct {
		Schema  json.RawMessage `json:"schema"`
		Daemon  string          `json:"daemon"`
		Machine Machine         `json:"machine"`
	}
	if err := json.Unmarshal(raw, &s); err != nil {
		if wrong := (*json.UnmarshalTypeError)(nil); errors.As(err, &wrong) {
			return Stamp{}, fmt.Errorf("parse stamp: %w", err)
		}
		return Stamp{}, errTruncated
	}
	n, err := strconv.Atoi(string(s.Schema))
	switch {
	case errors.Is(err, strconv.ErrRange) && s.Schema[0] != '-':
		return Stamp{}, fmt.Errorf("schema %s: %w", s.Schema, ErrNewer)
	case err != nil || n < 1:
		return Stamp{}, fmt.Errorf("parse stamp: unknown schema %q", s.Schema)
	}
	return Stamp{Schema: n, Daemon: s.Daemon, Machine: s.Machine}, nil
}

// readStamp returns nil when there is none.
func readStamp(fsys durable.FS, dir string) (*Stamp, error) {
	f, err := fsys.Open(filepath.Join(dir, stampFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open stamp: %w", err)
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxStamp))
	if err != nil {
		return nil, fmt.Errorf("read stamp: %w", err)
	}
	s, err := parseStamp(raw)
	if errors.Is(err, errTruncated) {
		return &Stamp{Schema: oldestSchema}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%w (%s); if no newer daemon wrote it, move the file away", err, filepath.Join(dir, stampFile))
	}
	return &s, nil
}

// check refuses a directory that a newer daemon has opened.
func (s Stamp) check(daemon string) error {
	theirs, okTheirs := version.Major(s.Daemon)
	ours, okOurs := version.Major(daemon)
	switch {
	case s.Schema > schema:
		return fmt.Errorf("schema %d of daemon %q: %w", s.Schema, s.Daemon, ErrNewer)
	case okTheirs && okOurs && theirs > ours:
		return fmt.Errorf("daemon %s opened it, this is %s: %w", s.Daemon, daemon, ErrNewer)
	}
	return nil
}

// write stamps the directory, unless it already has the same stamp.
func (s Stamp) write(fsys durable.FS, dir string, was *Stamp) error {
	if was != nil && *was == s {
		return nil
	}
	raw, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("encode stamp: %w", err)
	}
	return durable.WriteFile(fsys, filepath.Join(dir, stampFile), append(raw, '\n'))
}
