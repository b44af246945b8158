package unpack

import (
	"archive/tar"
	"archive/zip"
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/klauspost/compress/zstd"
	"github.com/therootcompany/xz"
)

// Format names a kind of archive.
type Format string

// The formats.
const (
	Zip     Format = "Zip"
	Tar     Format = "Tar"
	TarGzip Format = "TarGzip"
	TarXz   Format = "TarXz"
	TarZstd Format = "TarZstd"
	Cabinet Format = "Cabinet"
)

// Detect returns the archive format of a file, judged by its first bytes alone, so that every caller reads a file the same way. The error
// is ErrDamaged if Walk does not read that format.
func Detect(file io.ReaderAt) (Format, error) {
	head := make([]byte, 512)
	n, err := file.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return "", &ReadError{Err: err}
	}
	name := ""
	for _, s := range signatures {
		if n > s.at && bytes.HasPrefix(head[s.at:n], []byte(s.magic)) {
			if s.is != "" {
				return s.is, nil
			}
			name = ", but a " + s.format + " file"
		}
	}
	return "", fmt.Errorf("%w: the file is not a zip, tar or cabinet archive%s", ErrDamaged, name)
}

// Limits bound what is read from an archive. Real firmware bundles stay far below the defaults. A field that is zero has its default.
type Limits struct {
	// Entries is the maximum number of members, including those that are skipped. Default 20000.
	Entries int
	// Bytes bounds all bytes after decompression. Default 8 GiB.
	Bytes int64
	// MemberBytes bounds one member. Default 1 GiB.
	MemberBytes int64
	// Ratio is the maximum ratio of decompressed to compressed size, checked once more than 1 MiB has been decompressed. Default 200.
	Ratio int64
	// Memory bounds a decompressor's window, in bytes. Default 64 MiB, which is what xz -9 and zstd -19 need.
	Memory uint32
}

const ratioGrace = 1 << 20

func (l Limits) withDefaults() Limits {
	l.Entries = cmp.Or(l.Entries, 20_000)
	l.Bytes = cmp.Or(l.Bytes, 8<<30)
	l.MemberBytes = cmp.Or(l.MemberBytes, 1<<30)
	l.Ratio = cmp.Or(l.Ratio, 200)
	l.Memory = cmp.Or(l.Memory, 64<<20)
	return l
}

// The classes of errors of this package. Any other error comes from the caller's Visit, its context, or reading the file.
var (
	// ErrTooLarge: the archive exceeds a limit.
	ErrTooLarge = errors.New("too large")
	// ErrUnsafe: the archive contains something that no firmware bundle needs and that attacks rely on: a link, a device, a name that
	// escapes the archive or is not UTF-8, or a nested archive.
	ErrUnsafe = errors.New("not safe")
	// ErrDamaged: the archive cannot be read, or its format has a feature that is not supported.
	ErrDamaged = errors.New("damaged")
)

// Visit is called with each regular member: its clean name, with slashes, and a function that opens its content. The content is
// valid until Visit returns.
type Visit func(name string, open func() (io.Reader, error)) error

// Walk calls visit with each regular member of an archive, in the order of the archive. Directories are skipped. An archive that breaks a
// rule in any member is refused as a whole, though members before it may have been visited.
func Walk(ctx context.Context, file *os.File, format Format, limits Limits, visit Visit) error {
	info, err := file.Stat()
	if err != nil {
		return fmt.Errorf("read archive: %w", err)
	}
	limits = limits.withDefaults()
	total := min(limits.Bytes, max(ratioGrace, info.Size()*limits.Ratio))
	w := &walk{ctx: ctx, format: format, limits: limits, left: total, visit: visit}
	in := &source{ctx: ctx, file: file, size: info.Size()}
	switch format {
	case Zip:
		return w.zip(in)
	case Tar, TarGzip, TarXz, TarZstd:
		return w.tar(in, format)
	case Cabinet:
		return w.cabinet(in)
	}
	return fmt.Errorf("%w: format %q is not an archive", ErrDamaged, format)
}

// walk is one reading of an archive.
type walk struct {
	ctx     context.Context
	format  Format
	limits  Limits
	left    int64 // bytes that may still be unpacked
	entries int
	visit   Visit
}

// count counts one more entry.
func (w *walk) count() error {
	if w.entries++; w.entries > w.limits.Entries {
		return fmt.Errorf("%w: the archive has more than %d entries", ErrTooLarge, w.limits.Entries)
	}
	return w.ctx.Err()
}

// member passes a regular member on. The size is what the archive says, and is checked before anything is unpacked.
func (w *walk) member(name string, size int64, open func() (io.Reader, error)) error {
	if size > w.limits.MemberBytes {
		return fmt.Errorf("%w: %s exceeds the size limit of %d bytes", ErrTooLarge, name, w.limits.MemberBytes)
	}
	return w.visit(name, func() (io.Reader, error) {
		content, err := open()
		if err != nil {
			return nil, err
		}
		return &bounded{r: refuseNested(content, name, w.format), left: w.limits.MemberBytes, what: name}, nil
	})
}

// all bounds what is unpacked from the archive in total.
func (w *walk) all(r io.Reader) io.Reader { return &shared{w: w, r: r} }

// shared is a reader that uses up the bytes of its walk.
type shared struct {
	w *walk
	r io.Reader
}

func (s *shared) Read(p []byte) (int, error) {
	if err := s.w.ctx.Err(); err != nil {
		return 0, err
	}
	b := bounded{r: s.r, left: s.w.left, what: "the archive"}
	n, err := b.Read(p)
	s.w.left = b.left
	return n, err
}

// bounded fails where an io.LimitReader would silently end.
type bounded struct {
	r    io.Reader
	left int64
	what string
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		var one [1]byte
		if n, err := b.r.Read(one[:]); n == 0 {
			return 0, err
		}
		return 0, fmt.Errorf("%w: %s exceeds its size limit", ErrTooLarge, b.what)
	}
	if int64(len(p)) > b.left {
		p = p[:b.left]
	}
	n, err := b.r.Read(p)
	b.left -= int64(n)
	return n, err
}

// source is the file of an archive. An error of reading it is told from one of what it holds.
type source struct {
	ctx  context.Context
	file *os.File
	size int64
}

// ReadError is an error of reading the file of an archive, which says nothing about the archive.
type ReadError struct{ Err error }

// Error returns the text of the cause.
func (e *ReadError) Error() string { return "read archive: " + e.Err.Error() }

// Unwrap returns the cause.
func (e *ReadError) Unwrap() error { return e.Err }

// ReadAt implements io.ReaderAt.
func (s *source) ReadAt(p []byte, at int64) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := s.file.ReadAt(p, at)
	if err != nil && !errors.Is(err, io.EOF) {
		err = &ReadError{err}
	}
	return n, err
}

func (s *source) reader() *io.SectionReader { return io.NewSectionReader(s, 0, s.size) }

// damaged makes an error of a decompressor one of this package, unless it is of a known class already.
func damaged(what string, err error) error {
	var read *ReadError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &read), errors.Is(err, ErrTooLarge), errors.Is(err, ErrUnsafe), errors.Is(err, ErrDamaged),
		errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	}
	return fmt.Errorf("%w: %s: %w", ErrDamaged, what, err)
}

// checked is a member's content, whose errors are those of a damaged archive.
type checked struct {
	name string
	r    io.Reader
}

func (c checked) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = damaged(c.name, err)
	}
	return n, err
}

// clean returns the name of a member in the one form in which a source names it, and refuses one that could mean a place outside of
// the archive or that a person cannot read.
func clean(name string) (string, error) {
	quoted := fmt.Sprintf("%.200q", name)
	switch {
	case !utf8.ValidString(name):
		return "", fmt.Errorf("%w: the archive has a member %s, whose name is not UTF-8", ErrUnsafe, quoted)
	case strings.ContainsFunc(name, unicode.IsControl):
		return "", fmt.Errorf("%w: the archive has a member %s, whose name has control characters", ErrUnsafe, quoted)
	case strings.HasPrefix(name, "/"), strings.Contains(name, `\`), len(name) > 1 && name[1] == ':':
		return "", fmt.Errorf("%w: the archive has a member %s, which is an absolute or Windows path", ErrUnsafe, quoted)
	}
	for element := range strings.SplitSeq(name, "/") {
		if element == ".." {
			return "", fmt.Errorf("%w: the archive has a member %s, which escapes the archive", ErrUnsafe, quoted)
		}
	}
	if name == "" {
		return "", fmt.Errorf("%w: the archive has a member without a name", ErrUnsafe)
	}
	return path.Clean(name), nil
}

// signatures are how archives and compressed files begin, each at its offset.
var signatures = [...]struct {
	format string
	at     int
	magic  string
	is     Format // empty where Walk does not read it
}{
	{"zip", 0, "PK\x03\x04", Zip}, {"zip", 0, "PK\x05\x06", Zip}, {"gzip", 0, "\x1f\x8b\x08", TarGzip}, {"xz", 0, "\xfd7zXZ\x00", TarXz},
	{"zstd", 0, "\x28\xb5\x2f\xfd", TarZstd}, {"cabinet", 0, cabMagic, Cabinet}, {"tar", 257, "ustar", Tar},
	{"bzip2", 0, "BZh", ""}, {"7z", 0, "7z\xbc\xaf\x27\x1c", ""}, {"rar", 0, "Rar!\x1a\x07", ""},
}

// refuseNested makes the first Read fail where the content is itself an archive. A cabinet is let through, unless
// it is in a cabinet: fwupd takes it as an image.
func refuseNested(content io.Reader, name string, within Format) io.Reader {
	return &unnested{r: bufio.NewReaderSize(content, 512), name: name, within: within}
}

type unnested struct {
	r      *bufio.Reader
	name   string
	within Format
	judged bool
}

func (u *unnested) Read(p []byte) (int, error) {
	if !u.judged {
		head, _ := u.r.Peek(512) // an error comes again with Read
		for _, s := range signatures {
			switch {
			case len(head) <= s.at || !bytes.HasPrefix(head[s.at:], []byte(s.magic)):
			case s.is == Cabinet && u.within == Cabinet:
				return 0, fmt.Errorf("%w: %s is a cabinet within a cabinet", ErrUnsafe, u.name)
			case s.is != Cabinet:
				return 0, fmt.Errorf("%w: %s is itself an archive (%s); unpack it and name the image in it", ErrUnsafe, u.name, s.format)
			}
		}
		u.judged = true
	}
	return u.r.Read(p)
}

func (w *walk) tar(in *source, format Format) error {
	unpacked, end, err := w.decompress(bufio.NewReaderSize(in.reader(), 64<<10), format)
	if err != nil {
		return err
	}
	defer end()
	archive := tar.NewReader(w.all(unpacked))
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			if w.entries == 0 {
				return fmt.Errorf("%w: the tar archive is empty", ErrDamaged)
			}
			return nil
		}
		if err != nil {
			return damaged("not a readable tar archive", err)
		}
		if err := w.tarEntry(header, archive); err != nil {
			return err
		}
	}
}

func (w *walk) tarEntry(header *tar.Header, content io.Reader) error {
	if err := w.count(); err != nil {
		return err
	}
	if header.Typeflag == tar.TypeXGlobalHeader {
		return nil
	}
	name, err := clean(header.Name)
	if err != nil {
		return err
	}
	switch header.Typeflag {
	case tar.TypeDir:
		return nil
	case tar.TypeReg:
	case tar.TypeLink, tar.TypeSymlink:
		return fmt.Errorf("%w: %s is a link to %.200q", ErrUnsafe, name, header.Linkname)
	default:
		return fmt.Errorf("%w: %s is neither a file nor a directory (tar type %q)", ErrUnsafe, name, header.Typeflag)
	}
	for key := range header.PAXRecords {
		if strings.HasPrefix(key, "GNU.sparse.") { // its holes would escape the limit on all bytes
			return fmt.Errorf("%w: %s is a sparse file, which is not supported", ErrUnsafe, name)
		}
	}
	return w.member(name, header.Size, func() (io.Reader, error) { return checked{name, content}, nil })
}

// decompress returns the tar archive within. end releases what it holds.
func (w *walk) decompress(in io.Reader, format Format) (out io.Reader, end func(), err error) {
	end = func() {}
	switch format {
	case TarGzip:
		if out, err = gzip.NewReader(in); err != nil {
			return nil, end, damaged("not a readable gzip file", err)
		}
	case TarXz:
		if out, err = xz.NewReader(in, w.limits.Memory); err != nil {
			return nil, end, damaged("not a readable xz file", memory(err))
		}
		out = xzReader{out}
	case TarZstd:
		z, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(uint64(w.limits.Memory)), zstd.WithDecoderMaxMemory(uint64(w.limits.Bytes))) //nolint:gosec // positive
		if err != nil {
			return nil, end, damaged("not a readable zstd file", memory(err))
		}
		out, end = zstdReader{z}, z.Close
	default:
		out = in
	}
	return out, end, nil
}

type xzReader struct{ r io.Reader }

func (x xzReader) Read(p []byte) (int, error) {
	n, err := x.r.Read(p)
	return n, memory(err)
}

type zstdReader struct{ r io.Reader }

func (z zstdReader) Read(p []byte) (int, error) {
	n, err := z.r.Read(p)
	return n, memory(err)
}

func memory(err error) error {
	if errors.Is(err, xz.ErrMemlimit) || errors.Is(err, zstd.ErrWindowSizeExceeded) || errors.Is(err, zstd.ErrDecoderSizeExceeded) {
		return fmt.Errorf("%w: unpacking the archive takes too much memory: %w", ErrTooLarge, err)
	}
	return err
}

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
