package sysfstest

import "io/fs"

// Broken is a tree some of whose paths cannot be read.
type Broken struct {
	fs.FS
	// Errors by path below the root.
	Errors map[string]error
}

// Open fails where Errors says so.
func (b Broken) Open(name string) (fs.File, error) {
	if err := b.fail("open", name); err != nil {
		return nil, err
	}
	return b.FS.Open(name)
}

// ReadLink fails where Errors says so.
func (b Broken) ReadLink(name string) (string, error) {
	if err := b.fail("readlink", name); err != nil {
		return "", err
	}
	return fs.ReadLink(b.FS, name)
}

// Lstat fails where Errors says so.
func (b Broken) Lstat(name string) (fs.FileInfo, error) {
	if err := b.fail("lstat", name); err != nil {
		return nil, err
	}
	return fs.Lstat(b.FS, name)
}

func (b Broken) fail(op, name string) error {
	if err := b.Errors[name]; err != nil {
		return &fs.PathError{Op: op, Path: name, Err: err}
	}
	return nil
}
