package command

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// Image is a file that a tool gets exactly as it was verified. The runner copies it, hashes the copy, and starts the tool with a
// descriptor of that copy in the place of the path: later changes to the file do not reach the tool.
type Image struct {
	// Path is the absolute path of the file. It is an argument of the command or a part of one, and stays in everything that is shown
	// of the command.
	Path string
	// Digest is that of the content, and Size its length in bytes.
	Digest inventory.Digest
	Size   int64
}

// The descriptors of the copy: of a Query and of a Write in the tool, and of a Write in its worker.
const (
	queryImageFD  = 3
	writeImageFD  = 4
	workerImageFD = 5
)

// MaxInMemory is the default of Config.MaxInMemory, in bytes.
const MaxInMemory = 64 << 20

func descriptor(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// reading returns the command line with the descriptor in the place of the image's path.
func (c Command) reading(fd int) []string {
	if c.Image == nil {
		return c.Argv
	}
	argv := append([]string(nil), c.Argv...)
	for i := range argv {
		argv[i] = strings.ReplaceAll(argv[i], c.Image.Path, descriptor(fd))
	}
	return argv
}

// named replaces the descriptor by the image's path in a tool's text, for people.
func (c Command) named(text []byte) []byte {
	fd := queryImageFD
	if c.Kind == Write {
		fd = writeImageFD
	}
	if c.Image == nil {
		return text
	}
	return bytes.ReplaceAll(text, []byte(descriptor(fd)), []byte(c.Image.Path))
}

// CheckImage returns an error if the command has an Image whose path appears in none of its arguments, because the tool would not receive
// it.
func (c Command) CheckImage() error {
	if c.Image == nil {
		return nil
	}
	if !filepath.IsAbs(c.Image.Path) {
		return fmt.Errorf("%w: its path %q is not absolute", ErrImage, c.Image.Path)
	}
	for _, arg := range c.Argv[1:] {
		if strings.Contains(arg, c.Image.Path) {
			return nil
		}
	}
	return fmt.Errorf("%w: no argument names %s", ErrImage, c.Image.Path)
}

// hold makes the copy of the command's image and returns a descriptor that can only be read; nil where the command has none. The copy
// lasts as long as the descriptor is open anywhere. One of up to limit bytes is in memory and sealed: nobody can change it, root and its own
// maker included. A larger one is a file without a name in the directory of the image, which only root can reach, through a process that
// has it open.
func (c Command) hold(limit int64) (*os.File, error) {
	if c.Image == nil {
		return nil, nil
	}
	if err := c.CheckImage(); err != nil {
		return nil, err
	}
	held, err := c.Image.hold(limit)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrImage, err)
	}
	return held, nil
}

func (i Image) hold(limit int64) (held *os.File, err error) {
	if i.Size <= limit {
		held, err = i.inMemory()
	} else {
		held, err = i.onDisk()
	}
	if err != nil {
		return nil, err
	}
	// What counts is what is held, and no longer what was copied.
	sum := sha256.New()
	n, err := io.Copy(sum, io.NewSectionReader(held, 0, i.Size+1))
	switch {
	case err != nil:
		err = fmt.Errorf("read copy of %s: %w", i.Path, err)
	case n != i.Size || inventory.Digest(sum.Sum(nil)) != i.Digest:
		err = fmt.Errorf("the content of %s is no longer %s; it changed after it was verified and must be fetched again", i.Path, i.Digest)
	default:
		return held, nil
	}
	return nil, errors.Join(err, held.Close())
}

// inMemory makes a sealed copy; see memfd_create(2).
func (i Image) inMemory() (*os.File, error) {
	const flags = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	// Where vm.memfd_noexec is 2 the kernel wants to be told that the copy is never executed, and before 6.3 it does not know the flag.
	fd, err := unix.MemfdCreate("firmware-image", flags|unix.MFD_NOEXEC_SEAL)
	if errors.Is(err, unix.EINVAL) {
		fd, err = unix.MemfdCreate("firmware-image", flags)
	}
	if err != nil {
		return nil, fmt.Errorf("make room in memory for %s: %w", i.Path, err)
	}
	f := os.NewFile(uintptr(fd), i.Path) //nolint:gosec // descriptors are small and not negative
	defer f.Close()
	if err := i.copyTo(f); err != nil {
		return nil, err
	}
	const seals = unix.F_SEAL_WRITE | unix.F_SEAL_GROW | unix.F_SEAL_SHRINK | unix.F_SEAL_SEAL
	if _, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, seals); err != nil {
		return nil, fmt.Errorf("seal copy of %s: %w", i.Path, err)
	}
	return again(f)
}

// onDisk makes a copy that has no name, so that nobody can open it who has no descriptor of it.
func (i Image) onDisk() (*os.File, error) {
	dir := filepath.Dir(i.Path)
	f, err := os.OpenFile(dir, os.O_RDWR|unix.O_TMPFILE|os.O_EXCL, 0o400)
	if err != nil {
		return nil, fmt.Errorf("create an unnamed file for an image of %d bytes (supported by ext4, xfs, btrfs and tmpfs): %w", i.Size, err)
	}
	defer f.Close()
	if err := i.copyTo(f); err != nil {
		return nil, err
	}
	return again(f)
}

// copyTo copies the image, and at most one byte more than it should have.
func (i Image) copyTo(to io.Writer) error {
	from, err := os.Open(i.Path)
	if err != nil {
		return fmt.Errorf("open image: %w", err)
	}
	defer from.Close()
	if _, err := io.Copy(to, io.LimitReader(from, i.Size+1)); err != nil {
		return fmt.Errorf("copy %s: %w", i.Path, err)
	}
	return nil
}

// again opens the file of a descriptor once more, to read it.
func again(f *os.File) (*os.File, error) {
	held, err := os.Open(descriptor(int(f.Fd()))) //nolint:gosec // descriptors are small
	if err != nil {
		return nil, fmt.Errorf("open copy of image to read it: %w", err)
	}
	return held, nil
}

// files are what the tool has to inherit of an image.
func files(held *os.File) []*os.File {
	if held == nil {
		return nil
	}
	return []*os.File{held}
}
