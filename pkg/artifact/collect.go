package artifact

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
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
	sources, err := os.ReadDir(filepath.Join(s.root, sourcesDir))
	if err != nil {
		return nil, transient(StorageFailed, "collect images: %w", err)
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
			return nil, transient(StorageFailed, "collect images: source %s: %w", name, err) // an unreadable source may still use them
		}
		for _, f := range known.Files {
			if len(f.Signature) > 0 {
				used[strings.TrimPrefix(f.Digest, "sha256:")] = true
			}
			for _, i := range f.Images {
				used[strings.TrimPrefix(i.Digest, "sha256:")] = true
			}
		}
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
