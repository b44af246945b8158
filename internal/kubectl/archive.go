package kubectl

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"time"
)

// archive is a tar archive that is written as it grows, and does not become larger than it may.
type archive struct {
	tar  *tar.Writer
	gzip *gzip.Writer
	to   *counter
	most int64
	at   time.Time
}

// counter counts what is written.
type counter struct {
	to    io.Writer
	bytes int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.to.Write(p)
	c.bytes += int64(n)
	return n, err
}

// roomForAbout is kept for what the bundle says of itself, and the end of the archive.
const roomForAbout = 1 << 20

func newArchive(w io.Writer, most int64, at time.Time) *archive {
	to := &counter{to: w}
	packed := gzip.NewWriter(to)
	return &archive{tar: tar.NewWriter(packed), gzip: packed, to: to, most: most, at: at}
}

// hasRoom reports whether a file of that size surely fits: it counts as it is, because how small it becomes is known afterwards.
func (a *archive) hasRoom(size int) bool { return a.to.bytes+int64(size)+roomForAbout <= a.most }

// add adds a file that nobody but its owner may read. What it was packed into is counted at once.
func (a *archive) add(name string, content []byte) error {
	err := a.tar.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: archiveRoot + name, Size: int64(len(content)), Mode: 0o600, ModTime: a.at})
	if err == nil {
		_, err = a.tar.Write(content)
	}
	if err == nil {
		err = errors.Join(a.tar.Flush(), a.gzip.Flush())
	}
	if err != nil {
		return &archiveError{err}
	}
	return nil
}

func (a *archive) close() error { return errors.Join(a.tar.Close(), a.gzip.Close()) }
