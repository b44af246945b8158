package unpack

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"strings"
)

// The layout of an RPM package, of the manual of rpm, "Package format": a lead, a header of signatures, a header, and the files as a
// compressed cpio archive. All numbers are big-endian.
const (
	rpmMagic = "\xed\xab\xee\xdb"

	rpmLeadSize, rpmHeaderSize, rpmEntrySize = 96, 16, 16
	rpmHeaderMagic                           = "\x8e\xad\xe8\x01"
	// What rpm itself accepts of a header at most.
	rpmMostEntries, rpmMostData = 1 << 16, 256 << 20
)

// rpm reads the files of an RPM package. Its signatures are not looked at: the digest of the file says what it is.
func (w *walk) rpm(in *source) error {
	at := int64(rpmLeadSize)
	for i := range 2 {
		size, err := rpmHeader(in, at)
		if err != nil {
			return damaged("not a readable RPM package", err)
		}
		if at += size; i == 0 {
			at = (at + 7) / 8 * 8
		}
	}
	payload := bufio.NewReaderSize(io.NewSectionReader(in, at, in.size-at), 64<<10)
	head, _ := payload.Peek(6) // an error comes again with Read
	format := Tar              // neither this nor another compression
	for _, s := range signatures {
		if s.at == 0 && s.isTar() && strings.HasPrefix(string(head), s.magic) {
			format = s.is
		}
	}
	if format == Tar && !strings.HasPrefix(string(head), cpioMagic[:5]) {
		return fmt.Errorf("%w: the files of the RPM package are not packed with gzip, xz or zstd: unpack it with rpm2cpio, and pack what is in it as a zip", ErrDamaged)
	}
	unpacked, end, err := w.decompress(payload, format)
	if err != nil {
		return err
	}
	defer end()
	return w.cpio(w.all(unpacked))
}

// rpmHeader is the size of the header at a place.
func rpmHeader(in *source, at int64) (int64, error) {
	var head [rpmHeaderSize]byte
	if _, err := in.ReadAt(head[:], at); err != nil {
		return 0, unexpected(err)
	}
	entries, data := int64(binary.BigEndian.Uint32(head[8:])), int64(binary.BigEndian.Uint32(head[12:]))
	switch size := rpmHeaderSize + entries*rpmEntrySize + data; {
	case string(head[:4]) != rpmHeaderMagic:
		return 0, fmt.Errorf("%w: the RPM package has no header at byte %d", ErrDamaged, at)
	case entries > rpmMostEntries || data > rpmMostData:
		return 0, fmt.Errorf("%w: a header of the RPM package says that it has %d entries and %d bytes", ErrTooLarge, entries, data)
	case at+size > in.size:
		return 0, fmt.Errorf("%w: a header of the RPM package reaches beyond its end", ErrDamaged)
	default:
		return size, nil
	}
}

// The layout of a cpio archive in the format "newc", of cpio(5): a header of hexadecimal digits, a name, which ends with a zero, and the content, each
// padded to a multiple of four bytes.
const (
	cpioMagic, cpioSumMagic, cpioRPMMagic = "070701", "070702", "07070X"
	cpioHeaderSize, cpioMostName          = 110, 4096
	cpioTrailer                           = "TRAILER!!!"
	// The kinds of a member, in its mode.
	cpioKinds, cpioDir, cpioRegular, cpioLink = 0o170000, 0o040000, 0o100000, 0o120000
)

// cpioEntry is what of a member's header counts.
type cpioEntry struct {
	mode, links, size uint32
	name              string
}

// cpio reads the members of a cpio archive. The links of a package lead to its own files; nothing is ever written here, so they are passed over.
func (w *walk) cpio(r io.Reader) error {
	for {
		e, err := cpioHeader(r)
		switch {
		case err != nil:
			return damaged("not a readable RPM package", unexpected(err))
		case e.name == cpioTrailer:
			if w.entries == 0 {
				return fmt.Errorf("%w: the RPM package has no files", ErrDamaged)
			}
			return nil
		}
		if err := w.count(); err != nil {
			return err
		}
		name, err := clean(strings.TrimPrefix(e.name, "/")) // as some packages name their files
		if err != nil {
			return err
		}
		content := &cabContent{r: r, left: int64(e.size)}
		switch kind := e.mode & cpioKinds; {
		case kind == cpioDir, kind == cpioLink, kind == cpioRegular && e.links > 1 && e.size == 0:
		case kind == cpioRegular:
			if err := w.member(name, int64(e.size), func() (io.Reader, error) { return checked{name, content}, nil }); err != nil {
				return err
			}
		default:
			return fmt.Errorf("%w: %s is neither a file nor a directory (mode %#o)", ErrUnsafe, name, e.mode)
		}
		if _, err := io.CopyN(io.Discard, r, content.left+pad(int64(e.size))); err != nil {
			return damaged(name, unexpected(err))
		}
	}
}

// pad is how many bytes follow so many up to a multiple of four.
func pad(n int64) int64 { return -n & 3 }

func cpioHeader(r io.Reader) (cpioEntry, error) {
	var head [cpioHeaderSize]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return cpioEntry{}, err
	}
	switch string(head[:6]) {
	case cpioMagic, cpioSumMagic:
	case cpioRPMMagic:
		return cpioEntry{}, fmt.Errorf("%w: the RPM package is in the form for files of more than 4 GiB, which is not supported", ErrDamaged)
	default:
		return cpioEntry{}, fmt.Errorf("%w: a member does not begin like one of cpio", ErrDamaged)
	}
	var fields [13 * 4]byte
	if _, err := hex.Decode(fields[:], head[6:]); err != nil {
		return cpioEntry{}, fmt.Errorf("%w: the header of a member has another digit than a hexadecimal one", ErrDamaged)
	}
	field := func(i int) uint32 { return binary.BigEndian.Uint32(fields[4*i:]) }
	e, length := cpioEntry{mode: field(1), links: field(4), size: field(6)}, field(11)
	if length == 0 || length > cpioMostName {
		return cpioEntry{}, fmt.Errorf("%w: a name in the RPM package has %d bytes, the limit is %d", ErrDamaged, length, cpioMostName)
	}
	name := make([]byte, int64(length)+pad(int64(cpioHeaderSize)+int64(length)))
	if _, err := io.ReadFull(r, name); err != nil {
		return cpioEntry{}, err
	}
	if name[length-1] != 0 {
		return cpioEntry{}, fmt.Errorf("%w: a name in the RPM package has no end", ErrDamaged)
	}
	e.name = string(name[:length-1])
	return e, nil
}
