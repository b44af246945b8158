package archive

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/durable"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// Store keeps archived images in a directory. One process may change it at a time; it is safe for concurrent use there.
type Store struct {
	dir string
	fs  durable.FS
	mu  sync.Mutex
}

// The files of an entry.
const (
	imageFile    = "image"
	manifestFile = "manifest.json"
	pinFile      = "pinned"
)

// New returns the store of a directory, which need not exist and is not read yet. The directory must be on one file
// system with everything below it.
func New(dir string, fsys durable.FS) *Store { return &Store{dir: dir, fs: fsys} }

// Keep archives an image which fill writes to the new file it is given. A complete entry of the same device, version
// and boot is reused without calling fill; a damaged one is replaced. When Keep has returned nil, the entry survives a
// power cut. Only then are older entries of the device removed, except the latest and the pinned ones.
func (s *Store) Keep(ctx context.Context, m Manifest, fill func(ctx context.Context, path string) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := errors.Join(m.complete(), m.name().check()); err != nil {
		return fmt.Errorf("archive firmware: %w", err)
	}
	if err := s.keep(ctx, m, fill); err != nil {
		return fmt.Errorf("archive firmware %s of %s: %w", m.Version, m.UniqueID, err)
	}
	_ = s.pruneKept(m) // removal is tried again the next time; the new entry exists
	return nil
}

func (s *Store) keep(ctx context.Context, m Manifest, fill func(context.Context, string) error) error {
	dir, err := s.makeDeviceDir(m.UniqueID)
	if err != nil {
		return err
	}
	entries, err := s.entries(dir)
	if err != nil {
		return err
	}
	target := filepath.Join(dir, m.name().String())
	var old *Entry
	for i, e := range entries {
		m.Sequence = max(m.Sequence, e.Manifest.Sequence+1)
		if e.dir == target {
			old = &entries[i]
		}
	}
	if old != nil && old.reusable(m) && verifyImage(s.fs, target, old.Manifest) == nil {
		return errors.Join(old.update(s.fs, m.Settings), s.fs.SyncDir(dir)) // its creator may have died just before the sync
	}
	temp := filepath.Join(dir, durable.TempPrefix+m.name().String())
	if err := build(ctx, s.fs, temp, m, fill); err != nil {
		return errors.Join(err, s.fs.RemoveAll(temp))
	}
	if old != nil {
		return s.replace(temp, *old)
	}
	return appear(s.fs, temp, target)
}

// reusable reports whether the entry is of the same hardware as the manifest.
func (e Entry) reusable(m Manifest) bool {
	was := e.Manifest
	return e.Err == nil && was.Class == m.Class && inventory.NormalizeID(was.BoardID) == inventory.NormalizeID(m.BoardID)
}

// update makes the settings those of the entry. An entry keeps those that it has where none could be read.
func (e Entry) update(fsys durable.FS, settings []Setting) error {
	if len(settings) == 0 || slices.Equal(settings, e.Manifest.Settings) {
		return nil
	}
	m := e.Manifest
	m.Settings = settings
	return m.write(fsys, e.dir)
}

// replace replaces the files of a damaged entry with new ones. If it is interrupted, the entry is still damaged.
func (s *Store) replace(temp string, old Entry) error {
	for _, name := range []string{imageFile, manifestFile} {
		place := filepath.Join(old.dir, name)
		if err := errors.Join(s.fs.RemoveAll(place), s.fs.Rename(filepath.Join(temp, name), place)); err != nil {
			return errors.Join(fmt.Errorf("replace damaged archive: %w", err), s.fs.RemoveAll(temp))
		}
	}
	if err := errors.Join(s.fs.SyncDir(old.dir), s.fs.SyncDir(filepath.Dir(old.dir))); err != nil {
		return fmt.Errorf("replace damaged archive: %w", err)
	}
	_ = s.fs.RemoveAll(temp) // it is empty, and otherwise Sweep removes it
	return nil
}

// makeDeviceDir creates the directory of a device durably and removes the remains of an interrupted Keep.
func (s *Store) makeDeviceDir(uniqueID string) (string, error) {
	dir := filepath.Join(s.dir, deviceDir(uniqueID))
	for _, d := range []string{s.dir, dir} {
		if err := s.fs.Mkdir(d); err != nil && !errors.Is(err, fs.ErrExist) {
			return "", fmt.Errorf("make archive directory: %w", err)
		}
		if err := s.fs.SyncDir(filepath.Dir(d)); err != nil {
			return "", fmt.Errorf("make archive directory: %w", err)
		}
	}
	return dir, s.sweep(dir)
}

// Image returns the newest archived image of the version that is complete and was not archived from an unhealthy host,
// as a file to write back. It returns an error that wraps ErrNone when there is none.
func (s *Store) Image(uniqueID string, version inventory.Version) (driver.Image, Manifest, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	none := fmt.Errorf("find firmware %s of %s in the archive: %w", version, uniqueID, ErrNone)
	wanted := func(n entryName) bool { return n.version == version && !n.unhealthy }
	entries, err := s.find(filepath.Join(s.dir, deviceDir(uniqueID)), wanted) // a bad sector under another entry must not matter
	if errors.Is(err, fs.ErrNotExist) {
		return driver.Image{}, Manifest{}, none
	}
	if err != nil {
		return driver.Image{}, Manifest{}, err
	}
	slices.SortFunc(entries, newestFirst)
	for _, e := range entries {
		img, err := e.image(s.fs)
		switch whole := (*damagedError)(nil); {
		case err == nil && e.Manifest.UniqueID == uniqueID:
			return img, e.Manifest, nil
		case err == nil:
			none = fmt.Errorf("%w; %s is of another device, %s", none, e.Name, e.Manifest.UniqueID)
		case errors.As(err, &whole):
			none = fmt.Errorf("%w; %s is damaged: %w", none, e.Name, err)
		default:
			return driver.Image{}, Manifest{}, fmt.Errorf("read archive %s: %w", e.Name, err)
		}
	}
	return driver.Image{}, Manifest{}, none
}

func newestFirst(a, b Entry) int {
	return cmp.Or(cmp.Compare(b.Manifest.Sequence, a.Manifest.Sequence), strings.Compare(a.Name, b.Name))
}

// Manifest says what an archived image is.
type Manifest struct {
	// UniqueID, Class, Model and BoardID are of the hardware the image belongs to. It is not restored to other
	// hardware.
	UniqueID string          `json:"uniqueID"`
	Class    inventory.Class `json:"class"`
	Model    string          `json:"model,omitempty"`
	BoardID  string          `json:"boardID,omitempty"`
	// Version of the firmware, and BootID of the boot in which it ran.
	Version inventory.Version `json:"version"`
	BootID  string            `json:"bootID"`
	// Rollback is the origin of the image: RollbackReadBack or RollbackImage.
	Rollback inventory.Rollback `json:"rollback"`
	// Unhealthy marks firmware that ran when a job found the host unhealthy: it is kept as evidence and never restored.
	Unhealthy bool `json:"unhealthy,omitempty"`
	// Job that archived it; empty when a person did.
	Job  string    `json:"job,omitempty"`
	Time time.Time `json:"time"`
	// Settings are what the device stored of its settings when the image was last archived, without what a boot takes and what nobody can
	// change; none where it has none, or they could not be read.
	Settings []Setting `json:"settings,omitempty"`
	// Digest and Size in bytes of the image file, and Sequence, which orders the entries of a device independently of
	// the clock. The store sets them.
	Digest   string `json:"digest"`
	Size     int64  `json:"size"`
	Sequence uint64 `json:"sequence"`
	// Spares is an entry of the device that this one does not displace, because it is to be restored; empty for none.
	Spares string `json:"-"`
}

// ErrNone says that no matching image is archived.
var ErrNone = errors.New("nothing is archived")

// damagedError says what is wrong with an entry that can be read: it is incomplete, or does not match its name.
type damagedError struct{ reason string }

func (e *damagedError) Error() string { return e.reason }

func damaged(format string, args ...any) error { return &damagedError{fmt.Sprintf(format, args...)} }

// complete returns an error if a manifest lacks something that archiving needs.
func (m Manifest) complete() error {
	switch {
	case m.UniqueID == "":
		return damaged("manifest names no device")
	case m.Version == "":
		return damaged("manifest names no version")
	case m.BootID == "":
		return damaged("manifest names no boot id")
	case !slices.Contains(inventory.Classes(), m.Class):
		return damaged("manifest names unknown class %q; was it written by a newer daemon?", m.Class)
	case m.Rollback != inventory.RollbackReadBack && m.Rollback != inventory.RollbackImage:
		return damaged("manifest names unknown rollback %d; was it written by a newer daemon?", m.Rollback)
	}
	return nil
}

// maxManifest bounds a manifest in bytes.
const maxManifest = 1 << 20

// parseManifest tolerates fields it does not know and refuses values it does not understand.
func parseManifest(raw []byte) (Manifest, error) {
	var m Manifest
	if err := json.Unmarshal(raw, &m); err != nil {
		return m, damaged("manifest cannot be read: %v", err)
	}
	if err := m.complete(); err != nil {
		return m, err
	}
	if _, err := inventory.ParseDigest(m.Digest); err != nil {
		return m, damaged("manifest: %v", err)
	}
	if m.Size <= 0 {
		return m, damaged("manifest names a size of %d bytes", m.Size)
	}
	return m, nil
}

// readManifest returns a *damagedError when the manifest is missing or invalid.
func readManifest(fsys durable.FS, dir string) (Manifest, error) {
	f, err := fsys.Open(filepath.Join(dir, manifestFile))
	if errors.Is(err, fs.ErrNotExist) {
		return Manifest{}, damaged("there is no %s", manifestFile)
	}
	if err != nil {
		return Manifest{}, fmt.Errorf("open manifest: %w", err)
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxManifest+1))
	switch {
	case err != nil:
		return Manifest{}, fmt.Errorf("read manifest of %s: %w", dir, err)
	case len(raw) > maxManifest:
		return Manifest{}, damaged("manifest is larger than %d bytes", maxManifest)
	}
	return parseManifest(raw)
}
