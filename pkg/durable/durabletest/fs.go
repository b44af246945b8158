package durabletest

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/nodefirmware/node-firmware-operator/pkg/durable"
)

// FS is a durable.FS over a real directory, which shows what running programs see. In addition FS tracks what is safe:
// the content of a file as of its last sync, and the names in a directory as of the last sync of that directory. Files
// that other programs create below the directory are included, and count as never synced. It is safe for concurrent
// use.
type FS struct {
	root string

	mu      sync.Mutex
	tree    *node
	changes []change
	seq     int

	ops      int
	failAt   int
	failWith error
	dead     bool
	readOnly bool
	// left is how many more bytes can be written; negative for no limit.
	left int64
}

// ErrPower is returned by operations after the power was cut.
var ErrPower = errors.New("power is cut")

// New returns the file system of a directory. Its existing content counts as safe.
func New(dir string) (*FS, error) {
	f := &FS{root: filepath.Clean(dir), tree: newDir(), left: -1}
	if err := f.adopt(); err != nil {
		return nil, fmt.Errorf("read %s: %w", dir, err)
	}
	f.settle(func(change) bool { return true })
	return f, f.eachFile(f.tree, f.root, func(path string, n *node) (err error) {
		n.synced, err = os.ReadFile(path)
		return err
	})
}

// Operations returns the number of operations that changed or synced something, or tried to.
func (f *FS) Operations() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ops
}

// FailAt makes the operation with this number, counted from 0 by Operations, fail with err. The failed operation does
// not change the real directory, except that half of a write is written.
func (f *FS) FailAt(operation int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failAt, f.failWith = operation, err
}

// CutAt makes the operation with this number, and all after it, fail with ErrPower.
func (f *FS) CutAt(operation int) { f.FailAt(operation, ErrPower) }

// Full lets n more bytes be written. After that, writes and the creation of files fail.
func (f *FS) Full(n int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.left = n
}

// ReadOnly makes the file system read-only.
func (f *FS) ReadOnly() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.readOnly = true
}

// begin counts an operation and decides whether it fails. The caller holds f.mu.
func (f *FS) begin(op, path string) error {
	number := f.ops
	f.ops++
	switch {
	case f.dead:
		return &fs.PathError{Op: op, Path: path, Err: ErrPower}
	case f.failWith != nil && number == f.failAt:
		f.dead = errors.Is(f.failWith, ErrPower)
		return &fs.PathError{Op: op, Path: path, Err: f.failWith}
	case f.readOnly && op != "sync":
		return &fs.PathError{Op: op, Path: path, Err: syscall.EROFS}
	case f.left == 0 && (op == "create" || op == "mkdir"):
		return &fs.PathError{Op: op, Path: path, Err: syscall.ENOSPC}
	}
	return f.adopt()
}

// do runs an operation on one path.
func (f *FS) do(op, path string, operation func() error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.begin(op, path); err != nil {
		return err
	}
	return operation()
}

// Create implements durable.FS.
func (f *FS) Create(path string) (durable.File, error) {
	var out *file
	err := f.do("create", path, func() error {
		real, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		out = &file{fs: f, real: real, node: &node{}}
		return f.set(path, out.node)
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Open implements durable.FS.
func (f *FS) Open(path string) (io.ReadCloser, error) {
	if err := f.alive("open", path); err != nil {
		return nil, err
	}
	return os.Open(path)
}

// ReadDir implements durable.FS.
func (f *FS) ReadDir(path string) ([]fs.DirEntry, error) {
	if err := f.alive("readdir", path); err != nil {
		return nil, err
	}
	return os.ReadDir(path)
}

func (f *FS) alive(op, path string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.dead {
		return &fs.PathError{Op: op, Path: path, Err: ErrPower}
	}
	return nil
}

// Mkdir implements durable.FS.
func (f *FS) Mkdir(path string) error {
	return f.do("mkdir", path, func() error {
		if err := os.Mkdir(path, 0o700); err != nil {
			return err
		}
		return f.set(path, newDir())
	})
}

// Rename implements durable.FS.
func (f *FS) Rename(from, to string) error {
	return f.do("rename", from, func() error {
		moved, err := f.find(from)
		if err != nil {
			return err
		}
		if err := f.keepContent(to); err != nil {
			return err
		}
		if err := os.Rename(from, to); err != nil {
			return err
		}
		return f.record(place{from, nil}, place{to, moved})
	})
}

// Remove implements durable.FS.
func (f *FS) Remove(path string) error {
	return f.do("remove", path, func() error {
		if err := f.keepContent(path); err != nil {
			return err
		}
		if err := os.Remove(path); err != nil {
			return err
		}
		return f.set(path, nil)
	})
}

// RemoveAll implements durable.FS. It counts as one operation for each name.
func (f *FS) RemoveAll(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return f.alive("removeall", path)
	}
	if err != nil {
		return err
	}
	if info.IsDir() {
		names, err := os.ReadDir(path)
		if err != nil {
			return err
		}
		for _, name := range names {
			if err := f.RemoveAll(filepath.Join(path, name.Name())); err != nil {
				return err
			}
		}
	}
	return f.Remove(path)
}

// SyncFile implements durable.FS.
func (f *FS) SyncFile(path string) error {
	return f.do("sync", path, func() error {
		n, err := f.find(path)
		if err != nil {
			return err
		}
		n.synced, err = os.ReadFile(path)
		return err
	})
}

// SyncDir implements durable.FS.
func (f *FS) SyncDir(path string) error {
	return f.do("sync", path, func() error {
		n, err := f.find(path)
		if err != nil {
			return err
		}
		if n.live == nil {
			return &fs.PathError{Op: "sync", Path: path, Err: syscall.ENOTDIR}
		}
		f.settle(func(c change) bool { return c.touches(n) })
		return nil
	})
}

// file is a file open for writing.
type file struct {
	fs   *FS
	real *os.File
	node *node
}

// Write writes as much as there is room for. When it is made to fail, it writes half.
func (w *file) Write(p []byte) (int, error) {
	w.fs.mu.Lock()
	defer w.fs.mu.Unlock()
	if err := w.fs.begin("write", w.real.Name()); err != nil {
		var n int
		if !w.fs.readOnly {
			n, _ = w.real.Write(p[:len(p)/2])
		}
		return n, err
	}
	room := p
	if w.fs.left >= 0 {
		room = p[:min(int64(len(p)), w.fs.left)]
		w.fs.left -= int64(len(room))
	}
	n, err := w.real.Write(room)
	if err == nil && n < len(p) {
		err = &fs.PathError{Op: "write", Path: w.real.Name(), Err: syscall.ENOSPC}
	}
	return n, err
}

// Sync marks what was written as safe.
func (w *file) Sync() error {
	w.fs.mu.Lock()
	defer w.fs.mu.Unlock()
	if err := w.fs.begin("sync", w.real.Name()); err != nil {
		return err
	}
	content, err := os.ReadFile(w.real.Name())
	w.node.synced = content
	return err
}

// Close does not sync.
func (w *file) Close() error { return w.real.Close() }

// split splits a path below the root into its elements.
func (f *FS) split(path string) ([]string, error) {
	rel, err := filepath.Rel(f.root, path)
	if err != nil || rel == ".." || strings.HasPrefix(rel, "../") {
		return nil, fmt.Errorf("%s is not below %s", path, f.root)
	}
	if rel == "." {
		return nil, nil
	}
	return strings.Split(rel, "/"), nil
}
