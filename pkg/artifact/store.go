package artifact

import (
	"context"
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

	"github.com/nodefirmware/node-firmware-operator/pkg/imageinfo"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/unpack"
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
	// unused says since when no source names an image, or when it was last found in use; guarded by mu.
	unused map[string]time.Time
	// unpacking has room for each archive that may be unpacked at once: each may take 64 MiB of memory.
	unpacking chan struct{}
	// step is called before each change of what a reader or the next process sees, and at the end of a sequence of them; tests look
	// there at what a crash would leave. Nil for nothing.
	step func()
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
	// unpackedAtOnce bounds the memory that archives take.
	unpackedAtOnce = 2
)

// OpenStore opens or creates a store in the directory root and removes the remains of interrupted fetches. now is the clock that decides
// when the content of an image is verified again.
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
	return &Store{
		root: root, fetcher: fetcher, now: now, unused: map[string]time.Time{}, read: map[inventory.Digest]reading{}, unpacking: make(chan struct{}, unpackedAtOnce),
	}, nil
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

// Download fetches one file, extracts its images and stores them, unless they contradict the stored images of the source's other files. It
// records the file in the source's metadata last, so an interrupted download is simply repeated.
func (s *Store) Download(ctx context.Context, source string, f File, beside ...File) error {
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
	if err := s.checkLapsed(ctx, fetcher, source, f); err != nil {
		return err
	}
	if OCI(f.URL) {
		named := f.Digest
		if f.Digest, err = fetcher.fetchOCI(ctx, f.URL, &eager{File: tmp}); err != nil {
			return err
		}
		if named != (inventory.Digest{}) && named != f.Digest {
			return permanent(DigestMismatch, "fetch %s: the file in it has the digest %s, the source says %s; correct the reference or leave the digest out", f.URL, f.Digest, named)
		}
	} else if err := fetcher.Fetch(ctx, f.URL, f.Digest, &eager{File: tmp}); err != nil {
		return err
	}
	record := fileRecord{URL: f.URL, Digest: f.Digest.String()}
	if f.Signature != nil {
		if record.Signature, err = s.checkSignature(ctx, fetcher, f, tmp.Name(), s.now()); err != nil {
			return err
		}
		record.Keys = f.Signature.Trust.Fingerprint()
	}
	// An image gets its name when the whole file has been found sound, so that nothing is stored of one that is not.
	var images []staged
	defer func() {
		for _, i := range images {
			_ = os.Remove(i.path) // unless it has its name by now
		}
	}()
	add := func(path string, stage func(check func(*os.File) error) (staged, error)) error {
		var kind imageinfo.Kind
		var said []imageinfo.Firmware
		image, err := stage(func(image *os.File) (err error) {
			kind, said, err = describes(ctx, image, f, path)
			return err
		})
		if err != nil {
			return err
		}
		images = append(images, image)
		for _, d := range f.Images {
			if d.Path == path && !d.isOf(image.digest) {
				return permanent(DigestMismatch, "%s has the digest %s, the source says %s of this image; nothing of the file was stored: correct that digest, or the path",
					nameOf(f, path), image.digest, d.Digest)
			}
		}
		record.Images = append(record.Images, imageRecord{Path: path, Digest: image.digest.String(), Size: image.size, Kind: kind, Says: said})
		return nil
	}
	keep := func(path string, content io.Reader) error {
		return add(path, func(check func(*os.File) error) (staged, error) { return s.stage(content, check) })
	}
	if f.isImage() { // what was fetched is the image: it is neither copied nor hashed once more
		// fwupd takes a cabinet whole, and a profile runs a program.
		if format, err := unpack.Detect(tmp); err == nil && format != unpack.Cabinet && !format.IsProgram() {
			return permanent(InvalidSpec, "%s is an archive (%s): give each image of it the path that it has within; nothing of the file was stored", redacted(f.URL), format)
		}
		err = add("", func(check func(*os.File) error) (staged, error) { return s.adopt(tmp, f.Digest, check) })
	} else {
		paths := make([]string, 0, len(f.Images))
		for _, i := range f.Images {
			if !slices.Contains(paths, i.Path) {
				paths = append(paths, i.Path)
			}
		}
		select {
		case s.unpacking <- struct{}{}:
			err = extract(ctx, tmp.Name(), paths, keep)
			<-s.unpacking
		case <-ctx.Done():
			err = transient(StorageFailed, "unpack %s: %w", redacted(f.URL), ctx.Err())
		}
	}
	if err != nil {
		return err
	}
	known, err := s.readMetadata(source)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		known = metadata{} // damaged: the files it named are fetched again
	}
	if err := s.checkBeside(known, record, f, beside); err != nil {
		return err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, i := range images {
		if err := s.name(i); err != nil {
			return err
		}
	}
	if f.Signature != nil {
		if err := s.sign(record, tmp, f.Digest); err != nil {
			return err
		}
	}
	known.Files = slices.DeleteFunc(known.Files, func(r fileRecord) bool { return r.URL == f.URL })
	known.Files = append(known.Files, record)
	return s.writeMetadata(source, known)
}

// sign keeps what a node needs to verify the images of a record itself: the archive, which has the digest, and the statements.
func (s *Store) sign(r fileRecord, file *os.File, digest inventory.Digest) error {
	if r.Images[0].Path != "" {
		whole, err := s.adopt(file, digest, nil)
		if err != nil {
			return err
		}
		if err := s.name(whole); err != nil {
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
