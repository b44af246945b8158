package artifact

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/nodefirmware/node-firmware-operator/pkg/imageinfo"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

type metadata struct {
	Files []fileRecord `json:"files"`
}

type fileRecord struct {
	URL    string        `json:"url"`
	Digest string        `json:"digest"`
	Images []imageRecord `json:"images"`
	// Signature of the file, and the fingerprint of the keys or identities it was verified with; empty for a file that need not be signed.
	Signature []byte `json:"signature,omitempty"`
	Keys      string `json:"keys,omitempty"`
}

type imageRecord struct {
	Path   string `json:"path,omitempty"`
	Digest string `json:"digest"`
	Size   int64  `json:"size"`
	// Says is what the image says of itself; empty where it says nothing.
	Says []imageinfo.Firmware `json:"says,omitempty"`
}

// recorded finds the record of a file whose images are all in store and undamaged. One that does not fit its description, or of which it
// is not known for what it is, was stored for another spec, or by an operator that did not ask. It is fetched again, which says what is wrong.
func (s *Store) recorded(known metadata, f File) (fileRecord, bool) {
	for _, r := range known.Files {
		if r.URL != f.URL {
			continue
		}
		if digest := r.Digest; digest != f.Digest.String() && (!OCI(f.URL) || f.Digest != (inventory.Digest{})) { // an OCI reference has its own
			continue
		}
		if f.Signature != nil && !s.isSigned(r, f) {
			return fileRecord{}, false
		}
		for _, want := range f.Images {
			i := slices.IndexFunc(r.Images, func(got imageRecord) bool { return got.Path == want.Path })
			if i < 0 {
				return fileRecord{}, false
			}
			digest, err := inventory.ParseDigest(r.Images[i].Digest)
			if err != nil || fits(r.Images[i].Says, want, want.Path) != nil || s.check(digest) != nil {
				return fileRecord{}, false
			}
		}
		return r, true
	}
	return fileRecord{}, false
}

// isSigned reports whether the file was verified with these very keys, and whether what a node needs to do the same is in store.
func (s *Store) isSigned(r fileRecord, f File) bool {
	if len(r.Signature) == 0 || r.Keys != f.Signature.Trust.Fingerprint() {
		return false
	}
	digest, err := inventory.ParseDigest(r.Digest)
	return err == nil && (f.isImage() || s.check(digest) == nil)
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
	if err := errors.Join(tmp.Chmod(0o644), tmp.Sync()); err != nil {
		return transient(StorageFailed, "write metadata of source %s: %w", source, err)
	}
	s.changes()
	if err := os.Rename(tmp.Name(), filepath.Join(dir, metadataFile)); err != nil {
		return transient(StorageFailed, "write metadata of source %s: %w", source, err)
	}
	s.changes()
	return syncDir(dir)
}
