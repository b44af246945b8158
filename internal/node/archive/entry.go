package archive

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/durable"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// Entry is one archived image.
type Entry struct {
	// Name is the path of the entry in the archive, <device>/<version>_<bootID>[_unhealthy].
	Name     string
	Manifest Manifest
	// Unhealthy entries are evidence and never restored. Pinned ones are never removed.
	Unhealthy, Pinned bool
	// Err says why the entry cannot be used; nil when its manifest is valid. The image is not read for that.
	Err error

	dir  string
	name entryName
}

// ErrUnknown says that the archive has no such entry.
var ErrUnknown = errors.New("the archive has no such entry; list it for the names")

// List lists the entries, device by device and the newest first. Other directories are skipped.
func (s *Store) List() ([]Entry, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	devices, err := s.devices()
	if err != nil {
		return nil, err
	}
	var out []Entry
	for _, dir := range devices {
		entries, err := s.entries(dir)
		if err != nil {
			return nil, err
		}
		slices.SortFunc(entries, newestFirst)
		out = append(out, entries...)
	}
	return out, nil
}

// Restorable returns the image of an entry by its name, ready to be written back, or an error that says why it must not
// be.
func (s *Store) Restorable(name string) (driver.Image, Manifest, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, err := s.entry(name)
	if err != nil {
		return driver.Image{}, Manifest{}, err
	}
	img, err := e.image(s.fs)
	if err != nil {
		return driver.Image{}, Manifest{}, fmt.Errorf("restore %s: %w", name, err)
	}
	return img, e.Manifest, nil
}

// devices lists the directories of devices. A missing archive has none.
func (s *Store) devices() ([]string, error) {
	names, err := s.fs.ReadDir(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list archive: %w", err)
	}
	var out []string
	for _, n := range names {
		if n.IsDir() && !strings.HasPrefix(n.Name(), durable.TempPrefix) {
			out = append(out, filepath.Join(s.dir, n.Name()))
		}
	}
	return out, nil
}

func (s *Store) entries(device string) ([]Entry, error) {
	return s.find(device, func(entryName) bool { return true })
}

// find lists the entries of a device's directory for whose names wanted returns true. The others are not read.
func (s *Store) find(device string, wanted func(entryName) bool) ([]Entry, error) {
	names, err := s.fs.ReadDir(device)
	if err != nil {
		return nil, fmt.Errorf("list archive: %w", err)
	}
	var out []Entry
	for _, n := range names {
		name, ok := parseName(n.Name())
		if !ok || !n.IsDir() || !wanted(name) {
			continue
		}
		e, err := s.read(filepath.Join(device, n.Name()), name)
		if errors.Is(err, fs.ErrNotExist) { // a daemon has just removed it
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, nil
}

func (s *Store) entry(name string) (Entry, error) {
	device, base, _ := strings.Cut(name, "/")
	parsed, ok := parseName(base)
	if !ok || !filepath.IsLocal(device) || strings.HasPrefix(device, ".") {
		return Entry{}, fmt.Errorf("find %q: %w", name, ErrUnknown)
	}
	dir := filepath.Join(s.dir, device, base)
	if _, err := s.fs.ReadDir(dir); errors.Is(err, fs.ErrNotExist) {
		return Entry{}, fmt.Errorf("find %q: %w", name, ErrUnknown)
	}
	return s.read(dir, parsed)
}

// read reads an entry without its image. A damaged entry has Err set; err says that it could not be read.
func (s *Store) read(dir string, name entryName) (Entry, error) {
	device := filepath.Base(filepath.Dir(dir))
	e := Entry{Name: device + "/" + filepath.Base(dir), Unhealthy: name.unhealthy, dir: dir, name: name}
	files, err := s.fs.ReadDir(dir)
	if err != nil {
		return e, fmt.Errorf("list archive: %w", err)
	}
	e.Pinned = slices.ContainsFunc(files, func(f fs.DirEntry) bool { return f.Name() == pinFile })
	e.Manifest, e.Err = readManifest(s.fs, dir)
	if bad := (*damagedError)(nil); e.Err != nil && !errors.As(e.Err, &bad) {
		return e, e.Err
	}
	if e.Err == nil && (e.Manifest.name() != name || deviceDir(e.Manifest.UniqueID) != device) {
		e.Err = damaged("its manifest is of %s %s, archived under boot %s", e.Manifest.UniqueID, e.Manifest.Version, e.Manifest.BootID)
	}
	return e, nil
}

// image verifies the entry and returns its image.
func (e Entry) image(fsys durable.FS) (driver.Image, error) {
	if e.Err != nil {
		return driver.Image{}, e.Err
	}
	return imageOf(fsys, e.dir, e.Manifest)
}

func imageOf(fsys durable.FS, dir string, m Manifest) (driver.Image, error) {
	if m.Unhealthy {
		return driver.Image{}, damaged("it was archived from an unhealthy host, as evidence")
	}
	if err := verifyImage(fsys, dir, m); err != nil {
		return driver.Image{}, err
	}
	digest, err := inventory.ParseDigest(m.Digest)
	return driver.Image{Path: filepath.Join(dir, imageFile), Version: m.Version, Digest: digest, Size: m.Size}, err
}

// verifyImage reads the image again and compares it with the manifest.
func verifyImage(fsys durable.FS, dir string, m Manifest) error {
	digest, size, err := hash(fsys, filepath.Join(dir, imageFile))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return damaged("there is no image")
	case err != nil:
		return err
	case size != m.Size:
		return damaged("the image has %d bytes, not %d", size, m.Size)
	case digest.String() != m.Digest:
		return damaged("the content of the image is not %s", m.Digest)
	}
	return nil
}

func hash(fsys durable.FS, path string) (inventory.Digest, int64, error) {
	f, err := fsys.Open(path)
	if err != nil {
		return inventory.Digest{}, 0, fmt.Errorf("open image: %w", err)
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, f)
	if err != nil {
		return inventory.Digest{}, 0, fmt.Errorf("read image: %w", err)
	}
	return inventory.Digest(h.Sum(nil)), n, nil
}

// entryName is the parsed name of an entry's directory.
type entryName struct {
	version   inventory.Version
	bootID    string
	unhealthy bool
}

const unhealthySuffix = "unhealthy"

// Entry is the name of the entry that a store makes for the manifest.
func (m Manifest) Entry() string { return deviceDir(m.UniqueID) + "/" + m.name().String() }

func (m Manifest) name() entryName { return entryName{m.Version, m.BootID, m.Unhealthy} }

func (n entryName) String() string {
	s := escape(string(n.version)) + "_" + escape(n.bootID)
	if n.unhealthy {
		s += "_" + unhealthySuffix
	}
	return s
}

// parseName parses a name from String. For any other name, which is not of this store, ok is false.
func parseName(s string) (n entryName, ok bool) {
	parts := strings.Split(s, "_")
	if len(parts) == 3 && parts[2] == unhealthySuffix {
		n.unhealthy, parts = true, parts[:2]
	}
	if len(parts) != 2 {
		return entryName{}, false
	}
	version, okVersion := unescape(parts[0])
	bootID, okBoot := unescape(parts[1])
	n.version, n.bootID = inventory.Version(version), bootID
	return n, okVersion && okBoot
}

// maxName is the maximum length of a name on file systems, less the prefixes of temporary names.
const maxName = 240

func (n entryName) check() error {
	if s := n.String(); len(s) > maxName {
		return fmt.Errorf("name archive of version %s: %q is longer than %d bytes", n.version, s, maxName)
	}
	return nil
}

// deviceDir is the directory name of a device. A name that would be too long ends in "_" and a digest; no other has a
// "_".
func deviceDir(uniqueID string) string {
	name := escape(uniqueID)
	if len(name) <= maxName {
		return name
	}
	sum := sha256.Sum256([]byte(uniqueID))
	return name[:128] + "_" + hex.EncodeToString(sum[:16])
}

const hexDigits = "0123456789ABCDEF"

// escape turns any text into one path element, different for different texts. Separators, blanks, "_" and a leading "."
// become %XX.
func escape(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; plain(c) && (i > 0 || c != '.') {
			b.WriteByte(c)
		} else {
			b.Write([]byte{'%', hexDigits[c>>4], hexDigits[c&15]})
		}
	}
	return b.String()
}

func plain(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte(".-+~:", c) >= 0
}

// unescape is the inverse of escape. For a text that escape cannot return, ok is false.
func unescape(s string) (text string, ok bool) {
	var b []byte
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			b = append(b, s[i])
			continue
		}
		raw, err := hex.DecodeString(s[i+1 : min(i+3, len(s))])
		if err != nil || len(raw) != 1 {
			return "", false
		}
		b, i = append(b, raw[0]), i+2
	}
	return string(b), len(b) > 0 && escape(string(b)) == s
}
