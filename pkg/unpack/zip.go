package unpack

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"io/fs"
)

const (
	// maxDirectory bounds the bytes of a zip archive that are read before its first member: 20000 entries with names of 300 bytes.
	maxDirectory = 8 << 20
	// Of APPNOTE.TXT 4.3.14 to 4.3.16: the ends of a central directory, and the longest comment that may follow.
	zipEnd, zipEnd64, zipLocator64 = "PK\x05\x06", "PK\x06\x06", "PK\x06\x07"
	zipEndSize, zipComment         = 22, 1 << 16
)

func (w *walk) zip(in *source) error {
	if n, err := zipEntries(in); err != nil {
		return err
	} else if n > uint64(w.limits.Entries) {
		return fmt.Errorf("%w: the archive says that it has %d entries, the limit is %d", ErrTooLarge, n, w.limits.Entries)
	}
	// What the archive says of itself need not be true, and archive/zip reads on for as long as there are entries.
	directory := &budget{in: in, left: maxDirectory}
	archive, err := zip.NewReader(directory, in.size)
	if err != nil {
		return damaged("not a readable zip archive", err)
	}
	directory.left = -1
	for _, f := range archive.File {
		if err := w.zipEntry(f); err != nil {
			return err
		}
	}
	return nil
}

func (w *walk) zipEntry(f *zip.File) error {
	if err := w.count(); err != nil {
		return err
	}
	name, err := clean(f.Name)
	if err != nil {
		return err
	}
	switch kind := f.Mode().Type(); {
	case kind == fs.ModeDir:
		return nil
	case kind != 0:
		return fmt.Errorf("%w: %s is neither a file nor a directory (%s)", ErrUnsafe, name, f.Mode())
	case f.Flags&1 != 0:
		return fmt.Errorf("%w: %s is encrypted, which is not supported", ErrDamaged, name)
	}
	var content io.ReadCloser
	defer func() {
		if content != nil {
			_ = content.Close()
		}
	}()
	return w.member(name, int64(min(f.UncompressedSize64, 1<<62)), func() (io.Reader, error) { //nolint:gosec // bounded
		if content, err = f.Open(); err != nil {
			content = nil
			return nil, damaged(name, err)
		}
		return checked{name, w.all(content)}, nil
	})
}

// zipEntries returns how many entries a zip archive says it has. It looks for the end of the directory where archive/zip does.
func zipEntries(in *source) (uint64, error) {
	tail := make([]byte, min(in.size, zipEndSize+zipComment))
	start := in.size - int64(len(tail))
	if _, err := in.reader().ReadAt(tail, start); err != nil && len(tail) == 0 {
		return 0, fmt.Errorf("%w: not a zip archive: it is empty", ErrDamaged)
	} else if err != nil && err != io.EOF {
		return 0, err
	}
	at := bytes.LastIndex(tail[:max(0, len(tail)-zipEndSize+len(zipEnd))], []byte(zipEnd))
	if at < 0 {
		return 0, fmt.Errorf("%w: not a zip archive, or cut off: it has no directory", ErrDamaged)
	}
	entries := uint64(binary.LittleEndian.Uint16(tail[at+10:]))
	const locatorSize, end64Size = 20, 56
	if at < locatorSize || string(tail[at-locatorSize:at-locatorSize+4]) != zipLocator64 {
		return entries, nil
	}
	offset := binary.LittleEndian.Uint64(tail[at-locatorSize+8:])
	if offset > uint64(in.size) { //nolint:gosec // a size is not negative
		return 0, fmt.Errorf("%w: its directory is not within the zip archive", ErrDamaged)
	}
	end := make([]byte, end64Size)
	if _, err := in.reader().ReadAt(end, int64(offset)); err != nil || string(end[:4]) != zipEnd64 {
		return 0, fmt.Errorf("%w: its directory is not within the zip archive", ErrDamaged)
	}
	return max(entries, binary.LittleEndian.Uint64(end[32:])), nil
}

// budget is a file of which only so many bytes may be read; -1 is no bound.
type budget struct {
	in   *source
	left int64
}

func (b *budget) ReadAt(p []byte, at int64) (int, error) {
	if b.left >= 0 {
		if b.left -= int64(len(p)); b.left < 0 {
			b.left = 0
			return 0, fmt.Errorf("%w: the directory of the archive is longer than %d bytes", ErrTooLarge, maxDirectory)
		}
	}
	return b.in.ReadAt(p, at)
}
