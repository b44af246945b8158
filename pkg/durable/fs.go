package durable

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// FS is the part of a file system that durable writing needs. Paths are those of the operating system. Content is safe
// once File.Sync has returned, and a name once SyncDir of its directory has.
type FS interface {
	// Create creates a file with mode 0600; it fails if the file exists.
	Create(path string) (File, error)
	Open(path string) (io.ReadCloser, error)
	ReadDir(path string) ([]fs.DirEntry, error)
	// Mkdir creates a directory with mode 0700; it fails if the directory exists.
	Mkdir(path string) error
	Rename(from, to string) error
	Remove(path string) error
	RemoveAll(path string) error
	// SyncFile syncs the content of a file that another process wrote.
	SyncFile(path string) error
	SyncDir(path string) error
}

// File is a file open for writing.
type File interface {
	io.WriteCloser
	Sync() error
}

// OS is the file system of this machine.
type OS struct{}

// Create implements FS.
func (OS) Create(path string) (File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// Open implements FS.
func (OS) Open(path string) (io.ReadCloser, error) { return os.Open(path) }

// ReadDir implements FS.
func (OS) ReadDir(path string) ([]fs.DirEntry, error) { return os.ReadDir(path) }

// Mkdir implements FS.
func (OS) Mkdir(path string) error { return os.Mkdir(path, 0o700) }

// Rename implements FS.
func (OS) Rename(from, to string) error { return os.Rename(from, to) }

// Remove implements FS.
func (OS) Remove(path string) error { return os.Remove(path) }

// RemoveAll implements FS.
func (OS) RemoveAll(path string) error { return os.RemoveAll(path) }

// SyncFile implements FS.
func (OS) SyncFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// SyncDir implements FS.
func (OS) SyncDir(path string) error { return OS{}.SyncFile(path) }

// TempPrefix is the prefix of the names of files that are being written. After a crash, files with it can be removed.
const TempPrefix = ".tmp-"

// WriteFile makes content the content of the file at path. If it returns nil, the new content is durable. If it returns an error, the old
// content is still in place, or, when only the sync of the directory failed, either of the two.
func WriteFile(fsys FS, path string, content []byte) error {
	dir, name := filepath.Split(path)
	temp := filepath.Join(dir, TempPrefix+name)
	if err := fsys.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := writeNew(fsys, temp, content); err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", path, err), ignoreMissing(fsys.Remove(temp)))
	}
	if err := fsys.Rename(temp, path); err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", path, err), ignoreMissing(fsys.Remove(temp)))
	}
	if err := fsys.SyncDir(filepath.Clean(dir)); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

func writeNew(fsys FS, path string, content []byte) error {
	f, err := fsys.Create(path)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
