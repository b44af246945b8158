package artifact

import (
	"context"
	"crypto/sha256"
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
	"time"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/signature"
)

// Store keeps verified images on the file system:
//
//	<root>/blobs/<64 hex digits>                                      the image, by content
//	<root>/sources/<source>/firmware-binaries/<version>/<board>/<file>   the same image, by what it is
//	<root>/sources/<source>/metadata.json                             which files the images came from
//	<root>/statements/<64 hex digits>.json                            who signed the file the image came from
//
// An archive that is signed is kept among the blobs, because nodes verify its signature themselves.
// Everything appears under its final name only when it is complete and on disk. A Store is safe for concurrent use by
// one process.
type Store struct {
	root    string
	fetcher *Fetcher
	now     func() time.Time
	// mu guards the set of blobs against collection while one is being published.
	mu sync.RWMutex
	// unused says since when an image is needed by nobody; guarded by mu.
	unused map[string]time.Time
	// reading keeps the load on the disk at one image that is read again at a time, and guards read.
	reading sync.Mutex
	read    map[inventory.Digest]reading
}

const (
	blobsDir      = "blobs"
	sourcesDir    = "sources"
	statementsDir = "statements"
	binariesDir   = "firmware-binaries"
	metadataFile  = "metadata.json"
	// anyBoard is the directory of images that are not restricted to boards.
	anyBoard = "any"
)

// OpenStore opens or creates a store in the directory root and removes the remains of interrupted fetches. The clock now
// says when an image is to be read again.
func OpenStore(root string, fetcher *Fetcher, now func() time.Time) (*Store, error) {
	for _, dir := range []string{blobsDir, sourcesDir, statementsDir} {
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
	return &Store{root: root, fetcher: fetcher, now: now, unused: map[string]time.Time{}, read: map[inventory.Digest]reading{}}, nil
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

// Missing returns the files of a source that still have to be downloaded.
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
// so after an interruption the download is only repeated.
func (s *Store) Download(ctx context.Context, source string, f File) error {
	tmp, err := s.temp()
	if err != nil {
		return err
	}
	defer discard(tmp)
	fetcher, release, err := s.fetcher.with(f.Access)
	if err != nil {
		return err
	}
	defer release()
	if OCI(f.URL) {
		named := f.Digest
		if f.Digest, err = fetcher.fetchOCI(ctx, f.URL, &eager{File: tmp}); err != nil {
			return err
		}
		if named != (inventory.Digest{}) && named != f.Digest {
			return permanent(DigestMismatch, "fetch %s: the file in it has the digest %s, the source says %s; correct the reference or leave the sha256 out", f.URL, f.Digest, named)
		}
	} else if err := fetcher.Fetch(ctx, f.URL, f.Digest, &eager{File: tmp}); err != nil {
		return err
	}
	record := fileRecord{URL: f.URL, Digest: f.Digest.String(), Format: f.Format}
	if f.Signature != nil {
		if record.Signature, err = s.checkSignature(ctx, fetcher, f, tmp.Name(), s.now()); err != nil {
			return err
		}
		record.Keys = signature.Fingerprint(f.Signature.Keys)
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	checkOf := func(path string) func(*os.File) error {
		return func(image *os.File) error { return describes(ctx, image, f, path) }
	}
	keep := func(path string, content io.Reader) error {
		digest, size, err := s.put(content, checkOf(path))
		if err != nil {
			return err
		}
		record.Images = append(record.Images, imageRecord{Path: path, Digest: digest.String(), Size: size})
		return nil
	}
	if f.Format == FormatImage { // what was fetched is the image: it is neither copied nor hashed once more
		var size int64
		if size, err = s.adopt(tmp, f.Digest, checkOf("")); err == nil {
			record.Images = []imageRecord{{Digest: f.Digest.String(), Size: size}}
		}
	} else {
		paths := make([]string, 0, len(f.Images))
		for _, i := range f.Images {
			if !slices.Contains(paths, i.Path) {
				paths = append(paths, i.Path)
			}
		}
		err = unpack(ctx, tmp.Name(), f.Format, paths, keep)
	}
	if err == nil && f.Signature != nil {
		err = s.sign(record, tmp, f.Digest)
	}
	if err != nil {
		return err
	}
	known, err := s.readMetadata(source)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		known = metadata{} // damaged: the files it named are fetched again
	}
	known.Files = slices.DeleteFunc(known.Files, func(r fileRecord) bool { return r.URL == f.URL })
	known.Files = append(known.Files, record)
	return s.writeMetadata(source, known)
}

// sign keeps what a node needs to verify the images of a record itself: the archive, which has the digest, and the statements.
func (s *Store) sign(r fileRecord, file *os.File, digest inventory.Digest) error {
	if r.Format != FormatImage {
		if _, err := s.adopt(file, digest, nil); err != nil {
			return err
		}
	}
	return s.state(r)
}

// Open opens an image for reading. A missing or damaged image is an error that matches fs.ErrNotExist.
func (s *Store) Open(digest inventory.Digest) (*os.File, error) {
	if err := s.check(digest); err != nil {
		return nil, fmt.Errorf("open image %s: %w", digest, err)
	}
	f, err := os.Open(s.blob(digest))
	if err != nil {
		return nil, fmt.Errorf("open image %s: %w", digest, err)
	}
	return f, nil
}

// Path is the path of the image, for readers on the same machine.
func (s *Store) Path(digest inventory.Digest) string { return s.blob(digest) }

// put stores content under its digest, if check has nothing against it.
func (s *Store) put(content io.Reader, check func(*os.File) error) (inventory.Digest, int64, error) {
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
	digest := inventory.Digest(hash.Sum(nil))
	_, err = s.adopt(tmp, digest, check)
	return digest, size, err
}

// adopt stores a temporary file whose content is known to have the digest, if check has nothing against it, and returns its size in bytes.
// It makes the content last before it gets its name.
func (s *Store) adopt(tmp *os.File, digest inventory.Digest, check func(*os.File) error) (size int64, err error) {
	info, err := tmp.Stat()
	if err != nil {
		return 0, transient(StorageFailed, "store image: %w", err)
	}
	if info.Size() == 0 {
		return 0, permanent(UnpackFailed, "store image: it is empty")
	}
	if check != nil {
		if err := check(tmp); err != nil {
			return 0, err
		}
	}
	if err := errors.Join(tmp.Chmod(0o444), tmp.Sync()); err != nil {
		return 0, transient(StorageFailed, "store image: %w", err)
	}
	if err := os.Rename(tmp.Name(), s.blob(digest)); err != nil {
		return 0, transient(StorageFailed, "store image: %w", err)
	}
	return info.Size(), syncDir(filepath.Join(s.root, blobsDir))
}

func (s *Store) blob(d inventory.Digest) string {
	return filepath.Join(s.root, blobsDir, strings.TrimPrefix(d.String(), "sha256:"))
}

func (s *Store) sourceDir(source string) string {
	return filepath.Join(s.root, sourcesDir, pathName(source))
}

// pathName turns any text into one path element, without separators and never "." or "..".
func pathName(s string) string {
	if strings.Trim(s, ".") == "" {
		return strings.ReplaceAll(s, ".", "%2E")
	}
	return url.PathEscape(s)
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
