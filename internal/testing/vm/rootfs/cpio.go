package rootfs

import (
	"bufio"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// magic begins each entry, and trailer is the name of the last one.
const (
	magic   = "070701"
	trailer = "TRAILER!!!"
)

// Archive writes a cpio archive of the format "newc", which the kernel unpacks as its first file system
// (Documentation/driver-api/early-userspace/buffer-format.rst). Several of them after each other make one file system.
type Archive struct {
	out     *bufio.Writer
	written int64
	inode   int
	dirs    map[string]bool
	err     error
}

// NewArchive begins an archive.
func NewArchive(w io.Writer) *Archive {
	return &Archive{out: bufio.NewWriterSize(w, 1<<20), dirs: map[string]bool{".": true, "/": true}}
}

// Dir adds a directory and those above it.
func (a *Archive) Dir(name string) {
	name = clean(name)
	if a.dirs[name] || name == "" {
		return
	}
	a.Dir(path.Dir(name))
	a.dirs[name] = true
	a.entry(name, 0o040755, 0, nil)
}

// File adds a file with the directories above it.
func (a *Archive) File(name string, mode fs.FileMode, content []byte) {
	name = clean(name)
	a.Dir(path.Dir(name))
	a.entry(name, 0o100000|uint32(mode.Perm()), int64(len(content)), strings.NewReader(string(content)))
}

// Link adds a symbolic link.
func (a *Archive) Link(name, target string) {
	name = clean(name)
	a.Dir(path.Dir(name))
	a.entry(name, 0o120777, int64(len(target)), strings.NewReader(target))
}

// Copy adds a local file under a name, following symbolic links.
func (a *Archive) Copy(name, from string) {
	info, err := os.Stat(from)
	if err != nil {
		a.fail(err)
		return
	}
	file, err := os.Open(from)
	if err != nil {
		a.fail(err)
		return
	}
	defer file.Close()
	name = clean(name)
	a.Dir(path.Dir(name))
	a.entry(name, 0o100000|uint32(info.Mode().Perm()), info.Size(), file)
}

// Tree adds everything below a directory of this machine.
func (a *Archive) Tree(name, from string) {
	a.fail(filepath.WalkDir(from, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, p)
		if err != nil {
			return err
		}
		to := path.Join(name, filepath.ToSlash(rel))
		switch {
		case d.IsDir():
			a.Dir(to)
		case d.Type()&fs.ModeSymlink != 0:
			target, err := os.Readlink(p)
			if err != nil {
				return err
			}
			a.Link(to, target)
		case d.Type().IsRegular():
			a.Copy(to, p)
		}
		return nil
	}))
}

// Close ends the archive and returns its first error.
func (a *Archive) Close() error {
	a.entry(trailer, 0, 0, nil)
	if a.err == nil {
		a.err = a.out.Flush()
	}
	if a.err != nil {
		return fmt.Errorf("write initramfs: %w", a.err)
	}
	return nil
}

func (a *Archive) entry(name string, mode uint32, size int64, content io.Reader) {
	if a.err != nil {
		return
	}
	a.inode++
	a.print(magic+"%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%s\x00",
		a.inode, mode, 0, 0, 1, 0, size, 0, 0, 0, 0, len(name)+1, 0, name)
	a.pad()
	if size > 0 && a.err == nil {
		n, err := io.CopyN(a.out, content, size)
		a.written += n
		a.fail(err)
	}
	a.pad()
}

func (a *Archive) print(format string, args ...any) {
	n, err := fmt.Fprintf(a.out, format, args...)
	a.written += int64(n)
	a.fail(err)
}

func (a *Archive) pad() {
	for a.written%4 != 0 {
		a.print("\x00")
		if a.err != nil {
			return
		}
	}
}

func (a *Archive) fail(err error) {
	if a.err == nil {
		a.err = err
	}
}

func clean(name string) string { return strings.TrimPrefix(path.Clean("/"+name), "/") }
