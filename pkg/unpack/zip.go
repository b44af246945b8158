package unpack

import (
	"archive/zip"
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
)

const (
	// maxDirectory bounds the bytes of a zip archive that are read before its first member: 20000 entries with names of 300 bytes.
	maxDirectory = 8 << 20
	// Of APPNOTE.TXT 4.3: the ends of a central directory, the longest comment that may follow, and the headers of an entry, before its
	// content and in the directory.
	zipEnd, zipEnd64, zipLocator64 = "PK\x05\x06", "PK\x06\x06", "PK\x06\x07"
	zipEndSize, zipComment         = 22, 1 << 16
	zipLocal, zipCentral           = "PK\x03\x04", "PK\x01\x02"
	zipLocalSize, zipCentralSize   = 30, 46
)

// zip reads a zip archive, alone or behind a program.
func (w *walk) zip(in *source) error {
	end, err := zipEndOf(in)
	switch {
	case err != nil:
		return err
	case end.entries > uint64(w.limits.Entries):
		return fmt.Errorf("%w: the archive says that it has %d entries, the limit is %d", ErrTooLarge, end.entries, w.limits.Entries)
	}
	// What the archive says of itself need not be true, and archive/zip reads on for as long as there are entries.
	directory := &budget{in: in, left: maxDirectory}
	archive, err := zip.NewReader(directory, in.size)
	if err != nil {
		return damaged("not a readable zip archive", err)
	}
	directory.left = -1
	if err := w.zipSound(in, end, archive); err != nil {
		return damaged("not a readable zip archive", err)
	}
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
	return w.member(name, int64(min(f.UncompressedSize64, 1<<62)), func() (io.Reader, error) {
		if content, err = f.Open(); err != nil {
			content = nil
			return nil, damaged(name, err)
		}
		return checked{name, w.all(content)}, nil
	})
}

// zipTail is the end of a zip archive, which says where its directory is.
type zipTail struct {
	at      int64 // of the directory in the file
	base    int64 // what its offsets count from: the archive may have been put behind a program as it was
	entries uint64
}

// zipEndOf looks for the end of the directory where archive/zip does.
func zipEndOf(in *source) (zipTail, error) {
	tail := make([]byte, min(in.size, zipEndSize+zipComment))
	start := in.size - int64(len(tail))
	if _, err := in.reader().ReadAt(tail, start); err != nil && len(tail) == 0 {
		return zipTail{}, fmt.Errorf("%w: not a zip archive: it is empty", ErrDamaged)
	} else if err != nil && err != io.EOF {
		return zipTail{}, err
	}
	at := bytes.LastIndex(tail[:max(0, len(tail)-zipEndSize+len(zipEnd))], []byte(zipEnd))
	if at < 0 {
		return zipTail{}, fmt.Errorf("%w: not a zip archive, or cut off: it has no directory", ErrDamaged)
	}
	outside := fmt.Errorf("%w: its directory is not within the zip archive", ErrDamaged)
	le := binary.LittleEndian
	place := start + int64(at) // where the directory ends
	out := zipTail{entries: uint64(le.Uint16(tail[at+10:]))}
	size, offset := uint64(le.Uint32(tail[at+12:])), uint64(le.Uint32(tail[at+16:]))
	const locatorSize, end64Size = 20, 56
	if at >= locatorSize && string(tail[at-locatorSize:at-locatorSize+4]) == zipLocator64 {
		from := le.Uint64(tail[at-locatorSize+8:])
		if from > uint64(in.size) {
			return zipTail{}, outside
		}
		end := make([]byte, end64Size)
		if _, err := in.reader().ReadAt(end, int64(from)); err != nil || string(end[:4]) != zipEnd64 {
			return zipTail{}, outside
		}
		// Where both ends of a directory say something, they must say the same: readers differ in which of them they take, and archive/zip
		// looks at the second one where the size is 0xffff too.
		differs := func(short, full, saturated uint64) bool { return short != saturated && short != full }
		if size == 0xffff || differs(size, le.Uint64(end[40:]), 0xffffffff) || differs(offset, le.Uint64(end[48:]), 0xffffffff) ||
			differs(out.entries, le.Uint64(end[32:]), 0xffff) {
			return zipTail{}, fmt.Errorf("%w: the zip archive has two directories that differ", ErrUnsafe)
		}
		if out.entries == 0xffff || size == 0xffffffff || offset == 0xffffffff { // or archive/zip does not look there
			place, size, offset = int64(from), le.Uint64(end[40:]), le.Uint64(end[48:])
		}
		out.entries = max(out.entries, le.Uint64(end[32:]))
	}
	if size > uint64(place) || offset > uint64(place)-size {
		return zipTail{}, outside
	}
	out.at = place - int64(size)
	out.base = out.at - int64(offset)
	if other, err := in.holds(int64(offset), zipCentral); err != nil {
		return zipTail{}, err
	} else if other && out.base > 0 { // which archive/zip would read instead
		return zipTail{}, fmt.Errorf("%w: the file holds two zip archives, one behind the other", ErrUnsafe)
	}
	return out, nil
}

// holds reports whether the file has a text at a place.
func (s *source) holds(at int64, text string) (bool, error) {
	b := make([]byte, len(text))
	n, err := s.ReadAt(b, at)
	if err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	return string(b[:n]) == text, nil
}

// zipSound refuses an archive that says something else to another reader. Its directory and the headers before the contents must agree, no two
// contents may share bytes, and nothing may be before the first, or another archive directly before it where a program is.
func (w *walk) zipSound(in *source, end zipTail, archive *zip.Reader) error {
	type span struct {
		name     string
		from, to int64
	}
	le := binary.LittleEndian
	spans := make([]span, 0, len(archive.File))
	at, header, local := end.at, make([]byte, zipCentralSize), make([]byte, zipLocalSize)
	for _, f := range archive.File {
		if err := w.ctx.Err(); err != nil {
			return err
		}
		name := fmt.Sprintf("%.200q", f.Name)
		if _, err := in.ReadAt(header, at); err != nil || string(header[:4]) != zipCentral || int(le.Uint16(header[28:])) != len(f.Name) {
			return cmp.Or(reading(err), fmt.Errorf("%w: the directory of the archive is not where its end says", ErrDamaged))
		}
		at += zipCentralSize + int64(le.Uint16(header[28:])) + int64(le.Uint16(header[30:])) + int64(le.Uint16(header[32:]))
		from := end.base + int64(le.Uint32(header[42:]))
		begin := make([]byte, len(f.Name))
		_, err := in.ReadAt(local, from)
		if err == nil {
			_, err = in.ReadAt(begin, from+zipLocalSize)
		}
		switch {
		case reading(err) != nil:
			return err
		case err != nil && len(begin) > 0, string(local[:4]) != zipLocal:
			return fmt.Errorf("%w: %s is not where the directory of the archive says", ErrDamaged, name)
		case string(begin) != f.Name || int(le.Uint16(local[26:])) != len(f.Name):
			return fmt.Errorf("%w: the directory of the archive names %s, and the member there has another name", ErrUnsafe, name)
		case le.Uint16(local[8:]) != f.Method || (le.Uint16(local[6:])^f.Flags)&1 != 0:
			return fmt.Errorf("%w: the directory of the archive says that %s is packed in another way than the member does", ErrUnsafe, name)
		}
		to := from + zipLocalSize + int64(le.Uint16(local[26:])) + int64(le.Uint16(local[28:]))
		if f.CompressedSize64 > uint64(max(0, end.at-to)) {
			return fmt.Errorf("%w: %s reaches into the directory of the archive", ErrDamaged, name)
		}
		spans = append(spans, span{name, from, to + int64(f.CompressedSize64)})
	}
	if len(spans) == 0 {
		return nil
	}
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	for i, s := range spans[1:] {
		if s.from < spans[i].to {
			return fmt.Errorf("%w: %s and %s overlap in the archive", ErrUnsafe, spans[i].name, s.name)
		}
	}
	return w.zipAlone(in, spans[0].from)
}

// zipAlone refuses what is before the first member of an archive: a second archive, whose members a person may have looked at.
func (w *walk) zipAlone(in *source, first int64) error {
	if first == 0 {
		return nil
	}
	if w.format == Zip {
		return fmt.Errorf("%w: the file has %d bytes before the first member of the archive, and begins like another archive", ErrUnsafe, first)
	}
	before := make([]byte, min(first, zipEndSize+zipComment))
	if _, err := in.ReadAt(before, first-int64(len(before))); reading(err) != nil {
		return err
	}
	for at := 0; ; at++ {
		next := bytes.Index(before[at:], []byte(zipEnd))
		if next < 0 || at+next+zipEndSize > len(before) {
			return nil
		}
		at += next
		if at+zipEndSize+int(binary.LittleEndian.Uint16(before[at+20:])) == len(before) {
			return fmt.Errorf("%w: the file holds two zip archives, one behind the other", ErrUnsafe)
		}
	}
}

// reading is an error of reading that says nothing about the archive; nil for one that ends too early.
func reading(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
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
