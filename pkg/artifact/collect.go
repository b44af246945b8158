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
	"time"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/unpack"
)

// collectAfter is how long an image stays after a Collect first found that no source names it, and how long after one that found it in
// use: a job that is about to be queued may need it, and a person who takes an edit back.
const collectAfter = time.Hour

// Remove removes a source. Its images are deleted by the first Collect that runs an hour or more after the next one, unless another source
// holds them too.
func (s *Store) Remove(source string) error {
	if err := os.RemoveAll(s.sourceDir(source)); err != nil {
		return transient(StorageFailed, "remove source %s: %w", source, err)
	}
	return nil
}

// Collect deletes images that no source has referenced for an hour and that are not in use otherwise. The hour starts when Collect first
// finds an image unreferenced, and starts again after a restart or if the image is in use when it ends. Collect asks which images are in
// use only once the hour is over for one; if that fails, it deletes nothing.
func (s *Store) Collect(inUse func() ([]inventory.Digest, error)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	unnamed, err := s.unnamed()
	if err != nil {
		return err
	}
	unused, due := make(map[string]time.Time, len(unnamed)), false
	for _, path := range unnamed {
		since, known := s.unused[path]
		if !known {
			since = s.now()
		}
		unused[path] = since
		due = due || s.now().Sub(since) >= collectAfter
	}
	s.unused = unused
	if !due {
		return nil
	}
	digests, err := inUse()
	if err != nil {
		return fmt.Errorf("collect images: %w", err)
	}
	keep := map[string]bool{}
	for _, d := range digests {
		keep[s.blob(d)] = true
		for _, archive := range s.signedFiles(d) {
			keep[archive] = true
		}
	}
	for path, since := range unused {
		if s.now().Sub(since) < collectAfter {
			continue
		}
		if keep[path] {
			unused[path] = s.now()
			continue
		}
		s.changes()
		statement := filepath.Join(s.root, statementsDir, filepath.Base(path)+".json")
		if err := os.Remove(statement); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return transient(StorageFailed, "collect images: %w", err)
		}
		s.changes()
		if err := os.Remove(path); err != nil {
			return transient(StorageFailed, "collect images: %w", err)
		}
		delete(s.unused, path)
	}
	return nil
}

// unnamed lists the paths of the images that no source's metadata names.
func (s *Store) unnamed() ([]string, error) {
	used := map[string]bool{}
	err := s.records(func(f fileRecord) {
		if len(f.Signature) > 0 {
			used[strings.TrimPrefix(f.Digest, "sha256:")] = true
		}
		for _, i := range f.Images {
			used[strings.TrimPrefix(i.Digest, "sha256:")] = true
		}
	})
	if err != nil {
		return nil, err
	}
	blobs, err := os.ReadDir(filepath.Join(s.root, blobsDir))
	if err != nil {
		return nil, transient(StorageFailed, "collect images: %w", err)
	}
	var out []string
	for _, b := range blobs {
		if !used[b.Name()] && !strings.HasPrefix(b.Name(), ".tmp-") {
			out = append(out, filepath.Join(s.root, blobsDir, b.Name()))
		}
	}
	return out, nil
}

// records visits the records of all sources.
func (s *Store) records(visit func(fileRecord)) error {
	sources, err := os.ReadDir(filepath.Join(s.root, sourcesDir))
	if err != nil {
		return transient(StorageFailed, "list sources: %w", err)
	}
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
			return transient(StorageFailed, "source %s: %w", name, err) // what cannot be read may be all that uses an image
		}
		for _, f := range known.Files {
			visit(f)
		}
	}
	return nil
}

// unpackTimeout bounds the unpacking of one archive. The largest that is permitted takes about a minute.
const unpackTimeout = 10 * time.Minute

// take is called with each listed image of a file and its content.
type take func(path string, content io.Reader) error

// Extract copies the member of the archive at name to dst, within the bounds of any archive. A member that is missing or is there
// twice is an *Error, as is an archive that cannot be read.
func Extract(ctx context.Context, name string, member string, dst io.Writer) error {
	return extract(ctx, name, []string{member}, func(_ string, content io.Reader) error {
		_, err := io.Copy(storageWriter{dst}, content)
		var storage *storageError
		if errors.As(err, &storage) {
			return transient(StorageFailed, "unpack %s: %w", member, storage.err)
		}
		return err
	})
}

// extract calls out with each wanted member of the archive at name, exactly once. Other members are skipped, but for an archive that a
// wanted one is in; a wanted member that is missing or occurs twice is an error. No name of the archive ever becomes one of the file system.
func extract(ctx context.Context, name string, wanted []string, out take) error {
	file, err := os.Open(name)
	if err != nil {
		return transient(StorageFailed, "unpack: %w", err)
	}
	defer file.Close()
	format, err := unpack.Detect(file)
	if err != nil {
		return unpackError(ctx, err)
	}
	missing := make(map[string]bool, len(wanted))
	for _, w := range wanted {
		missing[w] = true
	}
	bounded, cancel := context.WithTimeout(ctx, unpackTimeout)
	defer cancel()
	err = unpack.Walk(bounded, file, format, unpack.Limits{}, func(member string, open func() (io.Reader, error)) error {
		pending, want := missing[member]
		switch {
		case !want && slices.ContainsFunc(wanted, func(w string) bool { return strings.HasPrefix(w, member+"/") }):
			return unpack.ErrDescend
		case !want:
			return nil
		case !pending:
			return permanent(UnpackFailed, "unpack: %s is in the archive twice", member)
		}
		missing[member] = false
		content, err := open()
		if err != nil {
			return err
		}
		return out(member, content)
	})
	if err != nil {
		return unpackError(ctx, err)
	}
	for _, w := range wanted {
		if missing[w] {
			return permanent(UnpackFailed, "unpack: the archive does not hold %s; correct the path in the source", w)
		}
	}
	return nil
}

// unpackError gives an error of reading an archive its reason.
func unpackError(ctx context.Context, err error) error {
	var classified *Error
	var read *unpack.ReadError
	switch {
	case errors.As(err, &classified):
		return classified
	case ctx.Err() != nil:
		return transient(UnpackFailed, "unpack: %w", ctx.Err())
	case errors.As(err, &read):
		return transient(StorageFailed, "unpack: %w", err)
	case errors.Is(err, context.DeadlineExceeded):
		return permanent(UnpackFailed, "unpack: it took longer than %s", unpackTimeout)
	}
	return permanent(UnpackFailed, "unpack: %w", err)
}

// staged is content that is complete and on disk, and has no name yet.
type staged struct {
	path   string
	digest inventory.Digest
	size   int64
}

// stage writes content to a temporary file, if check has nothing against it.
func (s *Store) stage(content io.Reader, check func(*os.File) error) (out staged, err error) {
	tmp, err := s.temp()
	if err != nil {
		return staged{}, err
	}
	defer func() {
		_ = tmp.Close()
		if err != nil {
			_ = os.Remove(tmp.Name())
		}
	}()
	hash := sha256.New()
	_, err = io.Copy(io.MultiWriter(hash, storageWriter{tmp}), content)
	var storage *storageError
	if errors.As(err, &storage) {
		return staged{}, transient(StorageFailed, "store image: %w", storage.err)
	}
	if err != nil {
		return staged{}, err
	}
	return s.adopt(tmp, inventory.Digest(hash.Sum(nil)), check)
}

// adopt stages a temporary file whose content is known to have the digest, if check has nothing against it. It makes the content last
// before it gets its name. The file stays the caller's to close.
func (s *Store) adopt(tmp *os.File, digest inventory.Digest, check func(*os.File) error) (staged, error) {
	info, err := tmp.Stat()
	if err != nil {
		return staged{}, transient(StorageFailed, "store image: %w", err)
	}
	if info.Size() == 0 {
		return staged{}, permanent(UnpackFailed, "store image: it is empty")
	}
	if check != nil {
		if err := check(tmp); err != nil {
			return staged{}, err
		}
	}
	if err := errors.Join(tmp.Chmod(0o444), tmp.Sync()); err != nil {
		return staged{}, transient(StorageFailed, "store image: %w", err)
	}
	return staged{path: tmp.Name(), digest: digest, size: info.Size()}, nil
}

// name stores what was staged under its digest.
func (s *Store) name(f staged) error {
	s.changes()
	if err := os.Rename(f.path, s.blob(f.digest)); err != nil {
		return transient(StorageFailed, "store image: %w", err)
	}
	s.changes()
	return syncDir(filepath.Join(s.root, blobsDir))
}

func (s *Store) changes() {
	if s.step != nil {
		s.step()
	}
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
