package artifact

import (
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

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
