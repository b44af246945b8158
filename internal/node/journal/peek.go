package journal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/bbolt"
	"golang.org/x/sys/unix"
)

const (
	peekAttempts = 50
	peekPause    = 20 * time.Millisecond
)

// errMoving says that the journal changed while it was copied.
var errMoving = errors.New("it keeps changing; try again")

// Peek reads the journal in the state directory while a daemon may have it open. It reads a copy, and changes nothing.
// A missing journal is an error that matches fs.ErrNotExist.
func Peek(stateDir string) (View, error) {
	path := filepath.Join(stateDir, FileName)
	v, err := peek(path)
	if err != nil {
		return View{}, fmt.Errorf("read journal %s: %w", path, err)
	}
	return v, nil
}

func peek(path string) (v View, err error) {
	copied, err := memoryFile()
	if err != nil {
		return View{}, err
	}
	defer copied.Close()
	if err := copySteady(copied, path); err != nil {
		return View{}, err
	}
	if info, err := copied.Stat(); err != nil || info.Size() == 0 {
		return View{}, err
	}
	db, err := openDB(copied.Name(), bbolt.Options{ReadOnly: true})
	if err != nil {
		return View{}, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	err = guard(func() (err error) {
		if known, err := known(db); err != nil || !known {
			return err
		}
		v, err = (&Journal{db: db}).View()
		return err
	})
	return v, err
}

// memoryFile creates a file in memory, because the disk may be full, read-only or damaged. It has a name that can be
// opened.
func memoryFile() (*os.File, error) {
	fd, err := unix.MemfdCreate("journal", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make file in memory: %w", err)
	}
	return os.NewFile(uintptr(fd), fmt.Sprintf("/proc/self/fd/%d", fd)), nil
}

// copySteady copies a journal at a moment when no change is in progress.
func copySteady(to *os.File, path string) error {
	for range peekAttempts {
		err := copyOnce(to, path)
		if !errors.Is(err, errMoving) {
			return err
		}
		<-time.After(peekPause)
	}
	return errMoving
}

// copyOnce copies the file. bbolt writes the pages of a change to unused places, and then one of the two meta pages at
// the front, which refer to the root. When the meta pages are the same before and after the copy, the pages they refer
// to have not changed.
func copyOnce(to *os.File, path string) error {
	from, err := os.Open(path)
	if err != nil {
		return err
	}
	defer from.Close()
	before, err := front(from)
	if err != nil {
		return err
	}
	if err := to.Truncate(0); err != nil {
		return err
	}
	content := io.NewSectionReader(from, 0, 1<<40)
	if _, err := io.Copy(io.NewOffsetWriter(to, 0), content); err != nil {
		return err
	}
	after, err := front(from)
	if err == nil && !bytes.Equal(before, after) {
		err = errMoving
	}
	return err
}

func front(f *os.File) ([]byte, error) {
	b := make([]byte, 2*os.Getpagesize())
	n, err := f.ReadAt(b, 0)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return b[:n], err
}
