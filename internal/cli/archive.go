package cli

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/nodefirmware/node-firmware-operator/internal/node/archive"
	"github.com/nodefirmware/node-firmware-operator/internal/node/state"
	"github.com/nodefirmware/node-firmware-operator/internal/version"
	"github.com/nodefirmware/node-firmware-operator/pkg/durable"
)

// ArchiveList is what is archived on this machine, for printing.
type ArchiveList struct {
	Images []ArchivedImage `json:"images"`
}

// ArchivedImage is one archived image, for printing.
type ArchivedImage struct {
	// Entry is the name that the archive commands take.
	Entry    string    `json:"entry"`
	UniqueID string    `json:"uniqueID,omitempty"`
	Class    string    `json:"class,omitempty"`
	Model    string    `json:"model,omitempty"`
	BoardID  string    `json:"boardID,omitempty"`
	Version  string    `json:"version,omitempty"`
	BootID   string    `json:"bootID,omitempty"`
	Source   string    `json:"source,omitempty"`
	Job      string    `json:"job,omitempty"`
	Time     time.Time `json:"time,omitzero"`
	Digest   string    `json:"digest,omitempty"`
	Size     int64     `json:"size,omitempty"`
	Pinned   bool      `json:"pinned,omitempty"`
	// Unhealthy images are evidence of a failed update and never restored.
	Unhealthy bool `json:"unhealthy,omitempty"`
	// Problem says why the image cannot be used; empty when its manifest is sound.
	Problem string `json:"problem,omitempty"`
}

// ListArchive lists what is archived in the state directory, also while another process has it open. The images themselves
// are not read.
func ListArchive(stateDir string) (ArchiveList, error) {
	entries, err := archive.New(filepath.Join(stateDir, state.ArchiveDir), durable.OS{}).List()
	return ArchiveList{archived(entries)}, err
}

// Pin keeps an archived image from being removed when newer ones come, until Unpin.
func Pin(stateDir, entry string) error {
	return withState(stateDir, func(s *state.State) error { return s.Archive.Pin(entry) })
}

// Unpin undoes Pin.
func Unpin(stateDir, entry string) error {
	return withState(stateDir, func(s *state.State) error { return s.Archive.Unpin(entry) })
}

func withState(dir string, do func(*state.State) error) error {
	s, err := state.Open(dir, state.Options{Daemon: version.Current()})
	if err != nil {
		return err
	}
	return errors.Join(do(s), s.Close())
}

func archived(entries []archive.Entry) []ArchivedImage {
	out := []ArchivedImage{}
	for _, e := range entries {
		image := ArchivedImage{Entry: e.Name, Pinned: e.Pinned, Unhealthy: e.Unhealthy}
		if e.Err != nil {
			image.Problem = e.Err.Error()
			out = append(out, image)
			continue
		}
		m := e.Manifest
		image.UniqueID, image.Class, image.Model, image.BoardID = m.UniqueID, string(m.Class), m.Model, m.BoardID
		image.Version, image.BootID, image.Source, image.Job = string(m.Version), m.BootID, m.Rollback.String(), m.Job
		image.Time, image.Digest, image.Size = m.Time, m.Digest, m.Size
		out = append(out, image)
	}
	return out
}

func (l ArchiveList) table(w io.Writer) error {
	var rows [][]string
	for _, i := range l.Images {
		at := ""
		if !i.Time.IsZero() {
			at = i.Time.UTC().Format(time.RFC3339)
		}
		note := i.Problem
		switch {
		case note != "":
			note = "damaged: " + note
		case i.Unhealthy:
			note = "evidence, never restored"
		case i.Pinned:
			note = "pinned"
		}
		rows = append(rows, []string{i.Entry, i.Class, i.Model, i.BoardID, i.Version, i.Source, at, orElse(i.Job, "by hand"), count(int(i.Size)), note})
	}
	if len(rows) == 0 {
		_, err := fmt.Fprintln(w, "Nothing is archived.")
		return err
	}
	return columns(w, []string{"ENTRY", "CLASS", "MODEL", "BOARD", "VERSION", "SOURCE", "TIME", "JOB", "BYTES", "NOTE"}, rows)
}
