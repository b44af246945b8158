package images

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/pause"
)

// ErrUnavailable says that the image could not be fetched; a retry may help.
var ErrUnavailable = errors.New("image unavailable")

// Config says where images come from and how much disk space they may use.
type Config struct {
	// Dir is the directory of the images; only this package writes it.
	Dir string
	// Server is the base URL of the operator's image server; an image is at "<server>/images/sha256:<hex>".
	Server string
	// CAFile holds the certificates that sign the server's, in PEM. It is read for every fetch.
	CAFile string
	// TokenFile holds the bearer token. It is read for every request, since the kubelet renews it.
	TokenFile string
	// AddressFile may hold an address of the same server, as IP:port, which is tried where the host of Server is not reached or is
	// not the server. It is read for every connection; a missing or empty file names none.
	AddressFile string
	// KeysDir is the directory of those who may sign images, as signature.ReadTrust reads it; empty for none. It is read for every image.
	KeysDir string
	// Verification says whether an image must be signed. Empty means VerifyIfKeys.
	Verification Verification
	// Now is the clock by which certificates expire and the server may say when to come again; nil for time.Now.
	Now func() time.Time
	// MaxImageBytes bounds one image. Zero means 1 GiB.
	MaxImageBytes int64
	// MaxDirBytes is the size of Dir above which images that were not used for an hour are removed. Zero means 2 GiB.
	MaxDirBytes int64
	// StallTimeout ends a request that receives nothing for this long. Zero means 30 seconds.
	StallTimeout time.Duration
	// Attempts is how often in a row a fetch may end without a byte of progress. Zero means 5.
	Attempts int
	// MaxInMemory is up to how many bytes of an image a tool's copy is in memory; see command.Config. A larger one is copied in Dir. Zero
	// means command.MaxInMemory.
	MaxInMemory int64
	// Free returns how many bytes a file system has left for this process, by one of its directories. Nil asks the kernel.
	Free func(dir string) (int64, error)
	// Wait pauses before attempt n, counted from 1, or returns the context's error. Nil waits 1, 2, 4 … seconds.
	Wait func(ctx context.Context, n int) error
	// Sleep pauses for as long as the server asked for, and a little longer, or returns the context's error. Nil sleeps.
	Sleep func(ctx context.Context, d time.Duration) error
	// Random returns a number in [0, 1); nil for math/rand.
	Random func() float64
}

// Store holds the images of this machine.
type Store struct {
	config Config
	mu     sync.Mutex
	// open opens a partial image, and creates it where there is none.
	open func(path string) (partial, error)
}

// Open returns the store, and creates its directory if it is missing.
func Open(c Config) (*Store, error) {
	c.MaxImageBytes = cmp.Or(c.MaxImageBytes, 1<<30)
	c.MaxDirBytes = cmp.Or(c.MaxDirBytes, 2<<30)
	c.StallTimeout = cmp.Or(c.StallTimeout, 30*time.Second)
	c.Attempts = cmp.Or(c.Attempts, 5)
	if c.Now == nil {
		c.Now = time.Now
	}
	c.MaxInMemory = cmp.Or(c.MaxInMemory, command.MaxInMemory)
	if c.Free == nil {
		c.Free = Free
	}
	if c.Wait == nil {
		c.Wait = waitLonger
	}
	if c.Sleep == nil {
		c.Sleep = pause.For
	}
	if c.Random == nil {
		c.Random = rand.Float64
	}
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("make image directory: %w", err)
	}
	return &Store{config: c, open: openPartial}, nil
}

// Fetch returns the absolute path and the size in bytes of the image with that digest. A stored image is hashed again
// before it is returned. Otherwise it is fetched, resuming an interrupted fetch, and gets its name only when it is
// verified and on disk. Where images must be signed, its signature is verified each time, before it is returned. The error wraps
// ErrUnavailable, or a *driver.RejectedError when the image is larger than allowed, or when it is not signed as it must be,
// together with a *signature.Error; any other error is from the local file system, and wraps syscall.ENOSPC or EDQUOT where that
// has no room.
func (s *Store) Fetch(ctx context.Context, digest inventory.Digest) (path string, size int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	who, required, err := s.Signed()
	switch {
	case err != nil:
		return "", 0, err
	case required:
		return s.fetchSigned(ctx, digest, who)
	}
	return s.image(ctx, digest)
}

// image returns a stored image, or fetches it.
func (s *Store) image(ctx context.Context, digest inventory.Digest) (path string, size int64, err error) {
	path, size, err = s.held(digest)
	if err == nil && s.copied(size) > 0 {
		_ = s.makeRoom(digest, 0, size) // a job that needs the copy looks for its room itself
	}
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return path, size, err
	}
	if err := s.download(ctx, digest); err != nil {
		return "", 0, fmt.Errorf("fetch image %s: %w", digest, err)
	}
	s.evict(digest, s.withinBound)
	return s.held(digest)
}

// held returns a stored image whose content matches its name, and marks it as used. A damaged one is removed.
func (s *Store) held(digest inventory.Digest) (path string, size int64, err error) {
	path = s.path(digest)
	sum, size, err := hashFile(path)
	if err != nil {
		return "", 0, fmt.Errorf("read image: %w", err)
	}
	if sum != digest {
		if err := os.Remove(path); err != nil {
			return "", 0, fmt.Errorf("remove damaged image: %w", err)
		}
		return "", 0, fmt.Errorf("read image %s: damaged on disk: %w", digest, fs.ErrNotExist)
	}
	now := time.Now()
	if err := os.Chtimes(path, now, now); err != nil {
		return "", 0, fmt.Errorf("mark image as used: %w", err)
	}
	return path, size, nil
}

// commit gives a verified partial file its name.
func (s *Store) commit(digest inventory.Digest) error {
	if err := os.Rename(s.partial(digest), s.path(digest)); err != nil {
		return fmt.Errorf("name image: %w", err)
	}
	dir, err := os.Open(s.config.Dir)
	if err != nil {
		return fmt.Errorf("open image directory: %w", err)
	}
	defer dir.Close()
	if err := dir.Sync(); err != nil {
		return fmt.Errorf("sync image directory: %w", err)
	}
	return nil
}

func (s *Store) path(d inventory.Digest) string    { return filepath.Join(s.config.Dir, hexOf(d)) }
func (s *Store) partial(d inventory.Digest) string { return s.path(d) + ".partial" }

func hexOf(d inventory.Digest) string { return hex.EncodeToString(d[:]) }

func hashFile(path string) (inventory.Digest, int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return inventory.Digest{}, 0, err
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, f)
	if err != nil {
		return inventory.Digest{}, 0, err
	}
	return inventory.Digest(h.Sum(nil)), n, nil
}

func waitLonger(ctx context.Context, n int) error {
	return pause.For(ctx, time.Second<<min(n-1, 4))
}

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
