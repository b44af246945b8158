package sysfs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/jaypipes/ghw"
	"golang.org/x/sys/unix"
)

// dirFS is what os.DirFS promises.
type dirFS interface {
	fs.ReadDirFS
	fs.ReadFileFS
	fs.ReadLinkFS
	fs.StatFS
}

// Tree is a host's file system below a directory of this machine. It knows its directory, which ghw needs; of any other
// fs.FS the readers of this package read all files themselves.
type Tree struct {
	dirFS
	dir string
}

// DirFS is the host whose "/" is a directory of this machine, "/" for this machine itself.
func DirFS(dir string) Tree { return Tree{os.DirFS(dir).(dirFS), dir} }

// Dir is the directory of this machine that is the "/" of the host.
func (t Tree) Dir() string { return t.dir }

// Mounted reports whether the sys directory below the root is the running kernel's sysfs, and not files that look like
// one. Only then is what it lists the hardware that system calls of this process reach.
func (t Tree) Mounted() (bool, error) {
	dir := filepath.Join(t.dir, "sys")
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

// options keep the environment out of ghw: a context of one's own is used instead of one made from it. What ghw would
// warn of is not lost, since whatever it does not know is read, or fails to be read, from the file.
func (t Tree) options() []any {
	return []any{
		context.Background(), ghw.WithChroot(t.dir), ghw.WithDisableTools(), ghw.WithDisableTopology(),
		ghw.WithLogger(slog.New(slog.DiscardHandler)),
	}
}
