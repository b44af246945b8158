package images

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// reserve is what a fetch leaves free on the file system. The journal and the archive of what runs need room after it, on the same
// file system as a rule, and a node that is full evicts pods.
const reserve = 64 << 20

// unusedAge protects the images a running job has fetched from being removed for the next one.
const unusedAge = time.Hour

// partial is an image that is being received.
type partial interface {
	io.ReadWriteSeeker
	io.Closer
	Name() string
	Truncate(size int64) error
	Sync() error
}

func openPartial(path string) (partial, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// isFull reports whether a file system has no room for this process.
func isFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// Free is what the file system of a directory has left for root, as statfs(2) says.
func Free(dir string) (int64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, &fs.PathError{Op: "statfs", Path: dir, Err: err}
	}
	return int64(s.Bavail) * cmp.Or(s.Frsize, s.Bsize), nil
}

// makeRoom removes unused images until the file system has room for the missing bytes of an image, for the copy of the whole image that a tool
// reads, and for the reserve. Both sizes are not known when negative. It returns an error that wraps syscall.ENOSPC when that does not suffice. A file
// system that does not say what it has left is written to: the write will tell.
func (s *Store) makeRoom(digest inventory.Digest, missing, whole int64) error {
	missing, copied := max(0, missing), s.copied(whole)
	enough := func(int64, int) bool {
		free, err := s.config.Free(s.config.Dir)
		return err != nil || free >= missing+copied+reserve
	}
	s.evict(digest, enough)
	if enough(0, 0) {
		return nil
	}
	free, err := s.config.Free(s.config.Dir)
	if err != nil {
		return nil //nolint:nilerr // as above
	}
	var and string
	if copied > 0 {
		and = fmt.Sprintf(" and %d MiB are for the copy of the image that a tool reads", mebibytes(copied))
	}
	return fmt.Errorf("%d MiB are left and %d MiB needed, of which %d MiB stay free for the node%s: %w",
		free>>20, mebibytes(missing+copied+reserve), reserve>>20, and, syscall.ENOSPC)
}

// copied is how many bytes of disk the copy takes that a tool gets of an image; 0 where that is in memory.
func (s *Store) copied(size int64) int64 {
	if size <= s.config.MaxInMemory {
		return 0
	}
	return size
}

// mebibytes is a number of bytes in MiB, rounded up.
func mebibytes(n int64) int64 { return (n + 1<<20 - 1) >> 20 }

// unusable says which file system cannot take an image, and what to do.
func (s *Store) unusable(how string, err error) error {
	return fmt.Errorf("the image was not written to its device, because the file system of %s %s, and it is fetched again: %w", s.config.Dir, how, err)
}

// withinBound reports whether the directory, with that many bytes in it, is as small as it should be.
func (s *Store) withinBound(total int64, _ int) bool { return total <= s.config.MaxDirBytes }

// oneLess reports whether an image was removed.
func oneLess(_ int64, removed int) bool { return removed > 0 }

// evict removes the images that were not used for the longest time until enough reports that it is enough, given the bytes that are left in
// the directory and how many images it has removed, which it returns. It keeps those that a job may use, and leaves what it cannot
// remove for the next time.
func (s *Store) evict(keep inventory.Digest, enough func(total int64, removed int) bool) (removed int) {
	entries, err := os.ReadDir(s.config.Dir)
	if err != nil {
		return 0
	}
	var total int64
	var files []fs.FileInfo
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		total += info.Size()
		files = append(files, info)
	}
	slices.SortFunc(files, func(a, b fs.FileInfo) int { return cmp.Compare(a.ModTime().UnixNano(), b.ModTime().UnixNano()) })
	for _, f := range files {
		if time.Since(f.ModTime()) < unusedAge || enough(total, removed) {
			return removed
		}
		if strings.HasPrefix(f.Name(), hexOf(keep)) || strings.HasSuffix(f.Name(), statementSuffix) {
			continue
		}
		if os.Remove(filepath.Join(s.config.Dir, f.Name())) == nil {
			_ = os.Remove(filepath.Join(s.config.Dir, f.Name()+statementSuffix))
			total -= f.Size()
			removed++
		}
	}
	return removed
}

// discard gives back the room of an image that could not be received whole.
func (s *Store) discard(digest inventory.Digest) error {
	if err := os.Remove(s.partial(digest)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove partial image: %w", err)
	}
	return nil
}
