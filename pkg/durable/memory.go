package durable

import (
	"io/fs"

	"golang.org/x/sys/unix"
)

// InMemory names the kind of file system that a path is on where nothing on it outlives a reboot: tmpfs or ramfs. It is empty for any
// other. Of an overlay nobody says what is below.
func InMemory(path string) (kind string, err error) {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return "", &fs.PathError{Op: "statfs", Path: path, Err: err}
	}
	switch s.Type {
	case unix.TMPFS_MAGIC:
		return "tmpfs", nil
	case unix.RAMFS_MAGIC:
		return "ramfs", nil
	}
	return "", nil
}
