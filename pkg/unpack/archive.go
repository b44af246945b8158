package unpack

import (
	"archive/tar"
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
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
	RPM     Format = "RPM"
	// ProgramZip is a program with a zip archive behind it, and ScriptTar a shell script with a compressed tar archive behind it. Both unpack
	// themselves when they run.
	ProgramZip Format = "ProgramZip"
	ScriptTar  Format = "ScriptTar"
)

// IsProgram reports whether such a file also runs by itself, so that it may be an image as a whole.
func (f Format) IsProgram() bool { return f == ProgramZip || f == ScriptTar }

// Detect returns the archive format of a file, judged by its first bytes, and for a program by whether it has an archive behind it, so that
// every caller reads a file the same way. The error is ErrDamaged if Walk does not read that format.
func Detect(file *os.File) (Format, error) {
	head := make([]byte, 512)
	n, err := file.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return "", &ReadError{Err: err}
	}
	for _, s := range signatures {
		switch {
		case n <= s.at || !bytes.HasPrefix(head[s.at:n], []byte(s.magic)):
		case s.is == "":
			return "", fmt.Errorf("%w: the file is %s, which is not unpacked here: %s", ErrDamaged, s.format, s.next)
		default:
			return s.is, nil
		}
	}
	if format, err := program(file, head[:n]); format != "" || err != nil {
		return format, err
	}
	return "", fmt.Errorf("%w: the file is not a zip, tar, cabinet or RPM archive, nor a program with a zip or a script with a tar archive in it", ErrDamaged)
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

// ErrDescend is what a Visit that has not opened a member returns where that is a tar archive, bare or compressed: its members are visited next,
// under its name, a slash and their own. An archive within that one is not.
var ErrDescend = errors.New("descend into the archive")

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
	case Zip, ProgramZip:
		return w.zip(in)
	case Tar, TarGzip, TarXz, TarZstd:
		return w.tar(in.reader(), format)
	case ScriptTar:
		return w.script(in)
	case Cabinet:
		return w.cabinet(in)
	case RPM:
		return w.rpm(in)
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
	within  string // the member whose members are visited, and a slash
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
	name = w.within + name
	if size > w.limits.MemberBytes {
		return fmt.Errorf("%w: %s exceeds the size limit of %d bytes", ErrTooLarge, name, w.limits.MemberBytes)
	}
	err := w.visit(name, func() (io.Reader, error) {
		content, err := open()
		if err != nil {
			return nil, err
		}
		return &bounded{r: refuseNested(content, name, w.format), left: w.limits.MemberBytes, what: name}, nil
	})
	if errors.Is(err, ErrDescend) {
		return w.descend(name, open)
	}
	return err
}

// descend visits the members of a member.
func (w *walk) descend(name string, open func() (io.Reader, error)) error {
	if w.within != "" {
		return fmt.Errorf("%w: %s is an archive within an archive within an archive", ErrUnsafe, name)
	}
	content, err := open()
	if err != nil {
		return err
	}
	r := bufio.NewReaderSize(content, 64<<10)
	head, _ := r.Peek(512) // an error comes again with Read
	for _, s := range signatures {
		switch {
		case len(head) <= s.at || !bytes.HasPrefix(head[s.at:], []byte(s.magic)):
		case s.isTar():
			w.within = name + "/"
			defer func() { w.within = "" }()
			return w.tar(r, s.is)
		default:
			return fmt.Errorf("%w: %s is %s; within another archive only tar archives are read: unpack it, and name the archive in it by a URL of its own",
				ErrUnsafe, name, s.format)
		}
	}
	return fmt.Errorf("%w: %s is a file and no directory or archive; correct the path", ErrDamaged, name)
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

const (
	repack = "unpack it yourself, and name the image in it, or pack what is in it as a zip"
	// whole is for what is no archive of images, but one image.
	whole = "it is an image as a whole, so leave out the path"
)

// signature is how a file begins, at its offset.
type signature struct {
	format string
	at     int
	magic  string
	is     Format // empty where Walk does not read it
	next   string // what to do then
}

// isTar reports whether it is one of a tar archive, bare or compressed.
func (s signature) isTar() bool {
	return s.is == Tar || s.is == TarGzip || s.is == TarXz || s.is == TarZstd
}

// isWhole reports whether it is of what is no archive of images, but an image as a whole.
func (s signature) isWhole() bool { return strings.HasPrefix(s.next, whole) }

// signatures are those of archives and compressed files, and of what else a person may take for an archive.
var signatures = [...]signature{
	{"a zip archive", 0, "PK\x03\x04", Zip, ""}, {"a zip archive", 0, "PK\x05\x06", Zip, ""}, {"a file of gzip", 0, "\x1f\x8b\x08", TarGzip, ""},
	{"a file of xz", 0, "\xfd7zXZ\x00", TarXz, ""}, {"a file of zstd", 0, "\x28\xb5\x2f\xfd", TarZstd, ""}, {"a cabinet", 0, cabMagic, Cabinet, ""},
	{"an RPM package", 0, rpmMagic, RPM, ""}, {"a tar archive", 257, "ustar", Tar, ""},
	{"a file of bzip2", 0, "BZh", "", repack}, {"a 7z archive", 0, "7z\xbc\xaf\x27\x1c", "", repack}, {"a rar archive", 0, "Rar!\x1a\x07", "", repack},
	{"a Debian package", 0, "!<arch>\ndebian", "", repack},
	{"a BlueField bundle (BFB)", 0, "Bf\x02\x13", "", whole + ", and have a profile hand it to bfb-install; the firmware of the adapter alone is NVIDIA's fw-BlueField-….bin"},
	{"a PLDM package", 0, "\xf0\x18\x87\x8c\xcb\x7d\x49\x43", "", whole}, {"a PLDM package", 0, "\x12\x44\xd2\x64\x8d\x7d\x47\x18", "", whole},
	{"a PLDM package", 0, "\x31\x19\xce\x2f\xe8\x0a\x4a\x99", "", whole}, {"a PLDM package", 0, "\x7b\x29\x1c\x99\x6d\xb6\x42\x08", "", whole},
	{"an archive of images of Mellanox adapters (MFA2)", 0, "MLNX.MFA2.XZ.00!", "", whole + ", for a profile that runs a tool which reads it, or take the image of your board (.bin)"},
	{"a UEFI capsule", 0, "\xed\xd5\xcb\x6d\x2d\xe8\x44\x4c", "", whole},
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
			case len(head) <= s.at || !bytes.HasPrefix(head[s.at:], []byte(s.magic)) || s.isWhole():
			case s.is == Cabinet && u.within == Cabinet:
				return 0, fmt.Errorf("%w: %s is a cabinet within a cabinet", ErrUnsafe, u.name)
			case s.isTar():
				return 0, fmt.Errorf("%w: %s is itself an archive, %s: name the image in it, as %s/PATH", ErrUnsafe, u.name, s.format, u.name)
			case s.is != Cabinet:
				return 0, fmt.Errorf("%w: %s is itself an archive, %s: unpack it, and name the image or the archive in it by a URL of its own", ErrUnsafe, u.name, s.format)
			}
		}
		u.judged = true
	}
	return u.r.Read(p)
}

func (w *walk) tar(in io.Reader, format Format) error {
	before := w.entries
	unpacked, end, err := w.decompress(bufio.NewReaderSize(in, 64<<10), format)
	if err != nil {
		return err
	}
	defer end()
	archive := tar.NewReader(w.all(unpacked))
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			if w.entries == before {
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
		if w.format == ScriptTar { // a program has links among its own files; nothing is ever written here, so they lead nowhere
			return nil
		}
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
