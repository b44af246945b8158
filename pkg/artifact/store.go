package artifact

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// Store keeps verified images on the file system:
//
//	<root>/blobs/<64 hex digits>                                      the image, by content
//	<root>/sources/<source>/firmware-binaries/<version>/<board>/<file>   the same image, by what it is
//	<root>/sources/<source>/metadata.json                             which files the images came from
//
// Everything appears under its final name only when it is complete and on disk. A Store is safe for concurrent use by
// one process.
type Store struct {
	root    string
	fetcher *Fetcher
	// mu guards the set of blobs against collection while one is being published.
	mu sync.RWMutex
}

const (
	blobsDir     = "blobs"
	sourcesDir   = "sources"
	binariesDir  = "firmware-binaries"
	metadataFile = "metadata.json"
	// anyBoard is the directory of images that are not restricted to boards.
	anyBoard = "any"
)

// metadata is the content of metadata.json.
type metadata struct {
	Files []fileRecord `json:"files"`
}

type fileRecord struct {
	URL    string        `json:"url"`
	Digest string        `json:"digest"`
	Format Format        `json:"format"`
	Images []imageRecord `json:"images"`
}

type imageRecord struct {
	Path   string `json:"path,omitempty"`
	Digest string `json:"digest"`
	Size   int64  `json:"size"`
}

// OpenStore opens or makes a store in the directory root and removes what an interrupted fetch left there.
func OpenStore(root string, fetcher *Fetcher) (*Store, error) {
	for _, dir := range []string{blobsDir, sourcesDir} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			return nil, fmt.Errorf("open image store: %w", err)
		}
	}
	leftovers, err := filepath.Glob(filepath.Join(root, blobsDir, ".tmp-*"))
	if err != nil {
		return nil, fmt.Errorf("open image store: %w", err)
	}
	for _, l := range leftovers {
		if err := os.Remove(l); err != nil {
			return nil, fmt.Errorf("open image store: %w", err)
		}
	}
	return &Store{root: root, fetcher: fetcher}, nil
}

// Available reports whether the store can be written.
func (s *Store) Available() error {
	f, err := s.temp()
	if err != nil {
		return err
	}
	defer discard(f)
	if _, err := f.WriteString("probe"); err != nil {
		return transient(StorageFailed, "write to image store %s: %w", s.root, err)
	}
	if err := f.Sync(); err != nil {
		return transient(StorageFailed, "write to image store %s: %w", s.root, err)
	}
	return nil
}

// Missing returns the files of a source that are not in store yet; the others need no download.
func (s *Store) Missing(source string, files []File) []File {
	known, err := s.readMetadata(source)
	if err != nil {
		return files
	}
	var out []File
	for _, f := range files {
		if _, ok := s.recorded(known, f); !ok {
			out = append(out, f)
		}
	}
	return out
}

// Download fetches one file, takes its images out and stores them. It records the file in the source's metadata last,
// so an interruption costs a repetition and nothing else.
func (s *Store) Download(ctx context.Context, source string, f File) error {
	tmp, err := s.temp()
	if err != nil {
		return err
	}
	defer discard(tmp)
	if err := s.fetcher.Fetch(ctx, f.URL, f.Digest, tmp); err != nil {
		return err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	record := fileRecord{URL: f.URL, Digest: f.Digest.String(), Format: f.Format}
	keep := func(path string, content io.Reader) error {
		digest, size, err := s.put(content)
		if err != nil {
			return err
		}
		record.Images = append(record.Images, imageRecord{Path: path, Digest: digest.String(), Size: size})
		return nil
	}
	if f.Format == FormatImage {
		if _, err := tmp.Seek(0, io.SeekStart); err != nil {
			return transient(StorageFailed, "read image store: %w", err)
		}
		err = keep("", tmp)
	} else {
		paths := make([]string, 0, len(f.Images))
		for _, i := range f.Images {
			if !slices.Contains(paths, i.Path) {
				paths = append(paths, i.Path)
			}
		}
		err = unpack(tmp.Name(), f.Format, paths, keep)
	}
	if err != nil {
		return err
	}
	known, err := s.readMetadata(source)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		known = metadata{} // damaged: what it named is fetched again
	}
	known.Files = slices.DeleteFunc(known.Files, func(r fileRecord) bool { return r.URL == f.URL })
	known.Files = append(known.Files, record)
	return s.writeMetadata(source, known)
}

// Publish lays out the images of a source by version and board id and returns them in that order. All files must have
// been downloaded. Two images for the same board in the same version are an error, as are images for no board at all.
func (s *Store) Publish(source string, files []File) ([]Image, error) {
	known, err := s.readMetadata(source)
	if err != nil {
		return nil, transient(StorageFailed, "publish source %s: %w", source, err)
	}
	var images []Image
	for _, f := range files {
		record, ok := s.recorded(known, f)
		if !ok {
			return nil, transient(StorageFailed, "publish source %s: %s is not in store", source, f.URL)
		}
		for _, d := range f.Images {
			i := slices.IndexFunc(record.Images, func(r imageRecord) bool { return r.Path == d.Path })
			digest, err := inventory.ParseDigest(record.Images[i].Digest)
			if err != nil {
				return nil, transient(StorageFailed, "publish source %s: %w", source, err)
			}
			images = append(images, Image{Description: d, Digest: digest, Size: record.Images[i].Size})
		}
	}
	if err := checkUnique(images); err != nil {
		return nil, err
	}
	slices.SortStableFunc(images, func(a, b Image) int {
		return cmp.Or(cmp.Compare(a.Version, b.Version), cmp.Compare(strings.Join(a.BoardIDs, ","), strings.Join(b.BoardIDs, ",")),
			cmp.Compare(a.Digest.String(), b.Digest.String()))
	})
	if err := s.layOut(source, images); err != nil {
		return nil, err
	}
	// Files that the source does not name any more are forgotten; their blobs go at the next Collect.
	known.Files = slices.DeleteFunc(known.Files, func(r fileRecord) bool {
		return !slices.ContainsFunc(files, func(f File) bool { return f.URL == r.URL })
	})
	if err := s.writeMetadata(source, known); err != nil {
		return nil, err
	}
	return images, nil
}

// checkUnique finds two different images that claim the same board in the same version.
func checkUnique(images []Image) error {
	type key struct {
		class   inventory.Class
		version inventory.Version
		vendor  string
		model   string
		board   string
	}
	seen := map[key]inventory.Digest{}
	for _, i := range images {
		for _, board := range orAny(i.BoardIDs) {
			for _, model := range orAny(i.Models) {
				k := key{i.Class, i.Version, inventory.NormalizeID(i.Vendor), inventory.NormalizeID(model), inventory.NormalizeID(board)}
				if other, dup := seen[k]; dup && other != i.Digest {
					return permanent(InvalidSpec, "two images of version %s for class %s, board id %q: %s and %s; keep one", i.Version, i.Class, k.board, other, i.Digest)
				}
				seen[k] = i.Digest
			}
		}
	}
	return nil
}

func orAny(list []string) []string {
	if len(list) == 0 {
		return []string{anyBoard}
	}
	return list
}

// layOut builds the tree of a source beside the old one and puts it in its place.
func (s *Store) layOut(source string, images []Image) error {
	dir := filepath.Join(s.sourceDir(source), binariesDir)
	next, old := dir+".next", dir+".old"
	fail := func(err error) error { return transient(StorageFailed, "lay out source %s: %w", source, err) }
	if err := errors.Join(os.RemoveAll(next), os.RemoveAll(old)); err != nil {
		return fail(err)
	}
	for _, i := range images {
		for _, board := range orAny(i.BoardIDs) {
			place := filepath.Join(next, pathName(string(i.Version)), pathName(board))
			if err := os.MkdirAll(place, 0o755); err != nil {
				return fail(err)
			}
			if err := os.Link(s.blob(i.Digest), filepath.Join(place, fileName(i))); err != nil && !errors.Is(err, fs.ErrExist) {
				return fail(err)
			}
		}
	}
	if err := os.Rename(dir, old); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fail(err)
	}
	if err := os.Rename(next, dir); err != nil {
		return fail(err)
	}
	if err := os.RemoveAll(old); err != nil {
		return fail(err)
	}
	return syncDir(s.sourceDir(source))
}

// fileName tells images of different classes and models apart that share a version and a board directory.
func fileName(i Image) string {
	return strings.ToLower(string(i.Class)) + "-" + i.Digest.String()[len("sha256:"):][:16] + ".bin"
}

// Open opens an image for reading and gives its size. A missing image is an error that matches fs.ErrNotExist.
func (s *Store) Open(digest inventory.Digest) (*os.File, error) {
	f, err := os.Open(s.blob(digest))
	if err != nil {
		return nil, fmt.Errorf("open image %s: %w", digest, err)
	}
	return f, nil
}

// Path is where the image lies, for readers on the same machine.
func (s *Store) Path(digest inventory.Digest) string { return s.blob(digest) }

// Remove forgets a source. Its images go at the next Collect, unless another source holds them too.
func (s *Store) Remove(source string) error {
	if err := os.RemoveAll(s.sourceDir(source)); err != nil {
		return transient(StorageFailed, "remove source %s: %w", source, err)
	}
	return nil
}

// Collect deletes the images that no source's metadata names.
func (s *Store) Collect() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	sources, err := os.ReadDir(filepath.Join(s.root, sourcesDir))
	if err != nil {
		return transient(StorageFailed, "collect images: %w", err)
	}
	used := map[string]bool{}
	for _, entry := range sources {
		name, err := url.PathUnescape(entry.Name())
		if err != nil {
			continue
		}
		known, err := s.readMetadata(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return transient(StorageFailed, "collect images: source %s: %w", name, err) // unknown is not unused
		}
		for _, f := range known.Files {
			for _, i := range f.Images {
				used[strings.TrimPrefix(i.Digest, "sha256:")] = true
			}
		}
	}
	blobs, err := os.ReadDir(filepath.Join(s.root, blobsDir))
	if err != nil {
		return transient(StorageFailed, "collect images: %w", err)
	}
	for _, b := range blobs {
		if !used[b.Name()] && !strings.HasPrefix(b.Name(), ".tmp-") {
			if err := os.Remove(filepath.Join(s.root, blobsDir, b.Name())); err != nil {
				return transient(StorageFailed, "collect images: %w", err)
			}
		}
	}
	return nil
}

// recorded finds the record of a file whose images are all in store with the recorded size.
func (s *Store) recorded(known metadata, f File) (fileRecord, bool) {
	for _, r := range known.Files {
		if r.URL != f.URL || r.Digest != f.Digest.String() || r.Format != f.Format {
			continue
		}
		for _, want := range f.Images {
			i := slices.IndexFunc(r.Images, func(got imageRecord) bool { return got.Path == want.Path })
			if i < 0 {
				return fileRecord{}, false
			}
			digest, err := inventory.ParseDigest(r.Images[i].Digest)
			if err != nil {
				return fileRecord{}, false
			}
			info, err := os.Stat(s.blob(digest))
			if err != nil || info.Size() != r.Images[i].Size {
				return fileRecord{}, false
			}
		}
		return r, true
	}
	return fileRecord{}, false
}

// put stores content under its digest.
func (s *Store) put(content io.Reader) (inventory.Digest, int64, error) {
	tmp, err := s.temp()
	if err != nil {
		return inventory.Digest{}, 0, err
	}
	defer discard(tmp)
	hash := sha256.New()
	size, err := io.Copy(io.MultiWriter(hash, storageWriter{tmp}), content)
	var storage *storageError
	if errors.As(err, &storage) {
		return inventory.Digest{}, 0, transient(StorageFailed, "store image: %w", storage.err)
	}
	if err != nil {
		return inventory.Digest{}, 0, err
	}
	if size == 0 {
		return inventory.Digest{}, 0, permanent(UnpackFailed, "store image: it is empty")
	}
	if err := errors.Join(tmp.Chmod(0o444), tmp.Sync()); err != nil {
		return inventory.Digest{}, 0, transient(StorageFailed, "store image: %w", err)
	}
	digest := inventory.Digest(hash.Sum(nil))
	if err := os.Rename(tmp.Name(), s.blob(digest)); err != nil {
		return inventory.Digest{}, 0, transient(StorageFailed, "store image: %w", err)
	}
	return digest, size, syncDir(filepath.Join(s.root, blobsDir))
}

func (s *Store) blob(d inventory.Digest) string {
	return filepath.Join(s.root, blobsDir, strings.TrimPrefix(d.String(), "sha256:"))
}

func (s *Store) sourceDir(source string) string {
	return filepath.Join(s.root, sourcesDir, pathName(source))
}

// pathName makes one path element of any text: no separators, and neither "." nor "..".
func pathName(s string) string {
	if strings.Trim(s, ".") == "" {
		return strings.ReplaceAll(s, ".", "%2E")
	}
	return url.PathEscape(s)
}

func (s *Store) readMetadata(source string) (metadata, error) {
	var m metadata
	data, err := os.ReadFile(filepath.Join(s.sourceDir(source), metadataFile))
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal(data, &m); err != nil {
		return m, fmt.Errorf("read metadata of source %s: %w", source, err)
	}
	return m, nil
}

func (s *Store) writeMetadata(source string, m metadata) error {
	dir := s.sourceDir(source)
	data, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return fmt.Errorf("write metadata of source %s: %w", source, err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return transient(StorageFailed, "write metadata of source %s: %w", source, err)
	}
	tmp, err := s.temp()
	if err != nil {
		return err
	}
	defer discard(tmp)
	if _, err := tmp.Write(data); err != nil {
		return transient(StorageFailed, "write metadata of source %s: %w", source, err)
	}
	if err := errors.Join(tmp.Chmod(0o644), tmp.Sync(), os.Rename(tmp.Name(), filepath.Join(dir, metadataFile))); err != nil {
		return transient(StorageFailed, "write metadata of source %s: %w", source, err)
	}
	return syncDir(dir)
}

func (s *Store) temp() (*os.File, error) {
	f, err := os.CreateTemp(filepath.Join(s.root, blobsDir), ".tmp-")
	if err != nil {
		return nil, transient(StorageFailed, "write to image store %s: %w", s.root, err)
	}
	return f, nil
}

// discard closes a temporary file and removes it, if it still has its temporary name.
func discard(f *os.File) {
	_ = f.Close()
	_ = os.Remove(f.Name())
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return transient(StorageFailed, "sync %s: %w", dir, err)
	}
	defer d.Close()
	if err := d.Sync(); err != nil {
		return transient(StorageFailed, "sync %s: %w", dir, err)
	}
	return nil
}
