package sysfs

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Mounted reports whether the sys directory below the root is the running kernel's sysfs, and not files that look like
// one. Only then is what it lists the hardware that system calls of this process reach.
func Mounted(root string) (bool, error) {
	dir := filepath.Join(root, "sys")
	var stat unix.Statfs_t
	err := unix.Statfs(dir, &stat)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("tell sysfs from files in %s: %w", dir, err)
	}
	return stat.Type == unix.SYSFS_MAGIC, nil
}
