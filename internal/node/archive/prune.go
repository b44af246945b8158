package archive

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nodefirmware/node-firmware-operator/pkg/durable"
)

const (
	// kept is how many entries of a device are kept, and how many more as evidence, not counting pinned ones.
	kept = 2
	// absentDays is on how many days a device must be found absent before its entries are removed.
	absentDays = 90
	absentFile = "absent.json"
)

// pruneKept removes the oldest entries of a device beyond the kept ones, of the kind that was just archived.
func (s *Store) pruneKept(just Manifest) error {
	entries, err := s.entries(filepath.Join(s.dir, deviceDir(just.UniqueID)))
	if err != nil {
		return err
	}
	entries = slices.DeleteFunc(entries, func(e Entry) bool { // the age of a damaged entry is not known
		return e.Err != nil || e.Pinned || e.Unhealthy != just.Unhealthy || e.name == just.name() || e.Name == just.Spares
	})
	slices.SortFunc(entries, newestFirst)
	for _, e := range entries[min(len(entries), kept-1):] {
		err = errors.Join(err, s.remove(e))
	}
	return err
}

// remove renames the entry first, so that it is never seen without its image.
func (s *Store) remove(e Entry) error {
	dir := filepath.Dir(e.dir)
	temp := filepath.Join(dir, durable.TempPrefix+removedPrefix+filepath.Base(e.dir))
	if err := s.fs.Rename(e.dir, temp); err != nil {
		return fmt.Errorf("remove archive %s: %w", e.Name, err)
	}
	if err := errors.Join(s.fs.SyncDir(dir), s.fs.RemoveAll(temp)); err != nil {
		return fmt.Errorf("remove archive %s: %w", e.Name, err)
	}
	return nil
}

// Sweep removes the remains of interrupted operations.
func (s *Store) Sweep() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	devices, err := s.devices()
	for _, dir := range devices {
		err = errors.Join(err, s.sweep(dir))
	}
	return err
}

func (s *Store) sweep(dir string) error {
	names, err := s.fs.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("list archive: %w", err)
	}
	for _, n := range names {
		if !leftover(n.Name()) {
			continue
		}
		if err := s.fs.RemoveAll(filepath.Join(dir, n.Name())); err != nil {
			return fmt.Errorf("remove leftovers from the archive: %w", err)
		}
	}
	return nil
}

// removedPrefix follows that of temporary files in the name of what is being removed.
const removedPrefix = "removed-"

// leftover reports whether the name is a temporary one of an operation that creates or removes an entry.
func leftover(name string) bool {
	name, temporary := strings.CutPrefix(name, durable.TempPrefix)
	name = strings.TrimPrefix(name, removedPrefix)
	_, known := parseName(name)
	return temporary && (known || name == absentFile)
}

// absence records since when a device is absent. Days are counted and not subtracted, so that a clock that jumps adds
// at most one day.
type absence struct {
	Days int    `json:"days"`
	Last string `json:"last"`
}

// Prune removes the entries of devices that were absent on 90 days, except pinned ones. Present lists the unique ids of
// the devices of this machine after a complete scan.
func (s *Store) Prune(present []string, now time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	here := map[string]bool{}
	for _, id := range present {
		here[deviceDir(id)] = true
	}
	devices, err := s.devices()
	if err != nil {
		return err
	}
	for _, dir := range devices {
		if err := s.pruneDevice(dir, here[filepath.Base(dir)], now); err != nil {
			return fmt.Errorf("prune archive %s: %w", filepath.Base(dir), err)
		}
	}
	return nil
}

func (s *Store) pruneDevice(dir string, here bool, now time.Time) error {
	marker := filepath.Join(dir, absentFile)
	if here {
		if err := s.fs.Remove(marker); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	entries, err := s.entries(dir)
	if err != nil {
		return err
	}
	entries = slices.DeleteFunc(entries, func(e Entry) bool { return e.Err != nil || e.Pinned })
	if len(entries) == 0 {
		return nil
	}
	a, err := s.readAbsence(marker)
	if err != nil {
		return err
	}
	if today := now.UTC().Format(time.DateOnly); a.Last != today {
		a.Days, a.Last = a.Days+1, today
		raw, err := json.Marshal(a)
		if err != nil {
			return err
		}
		if err := durable.WriteFile(s.fs, marker, raw); err != nil {
			return err
		}
	}
	if a.Days <= absentDays {
		return nil
	}
	for _, e := range entries {
		if err := s.remove(e); err != nil {
			return err
		}
	}
	return s.fs.Remove(marker)
}

// readAbsence starts a new count if the old one cannot be read.
func (s *Store) readAbsence(path string) (absence, error) {
	f, err := s.fs.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return absence{}, nil
	}
	if err != nil {
		return absence{}, err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxManifest))
	if err != nil {
		return absence{}, err
	}
	var a absence
	if json.Unmarshal(raw, &a) != nil {
		return absence{}, nil
	}
	return a, nil
}

// Pin keeps an entry from being removed, until Unpin.
func (s *Store) Pin(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, err := s.entry(name)
	if err != nil || e.Pinned {
		return err
	}
	return pin(s.fs, e.dir)
}

// Unpin undoes Pin.
func (s *Store) Unpin(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, err := s.entry(name)
	if err != nil || !e.Pinned {
		return err
	}
	if err := errors.Join(s.fs.Remove(filepath.Join(e.dir, pinFile)), s.fs.SyncDir(e.dir)); err != nil {
		return fmt.Errorf("unpin %s: %w", name, err)
	}
	return nil
}

func pin(fsys durable.FS, dir string) error {
	if err := durable.WriteFile(fsys, filepath.Join(dir, pinFile), nil); err != nil {
		return fmt.Errorf("pin %s: %w", dir, err)
	}
	return nil
}
