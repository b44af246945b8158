package artifact

import (
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

// Remove removes a source. The next Collect deletes its images, unless another source holds them too.
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
			return transient(StorageFailed, "collect images: source %s: %w", name, err) // an unreadable source may still use them
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
