package unpack

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/flate"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// The layout of a cabinet, of [MS-CAB] 2.
const (
	cabMagic = "MSCF"

	cabHeaderSize, cabFolderSize, cabFileSize, cabDataSize = 36, 8, 16, 8
	// Flags of a cabinet: it continues in another one, or has space reserved.
	cabSpans, cabReserves = 0x1 | 0x2, 0x4
	// Compressions of a folder.
	cabStored, cabMSZIP, cabQuantum, cabLZX = 0, 1, 2, 3
	// cabBlock is the most that a block holds, and how far a block may look back.
	cabBlock = 32 << 10
	// cabName is the longest name of a file.
	cabName = 255
)

// CabinetNames returns the names of the files of a cabinet, as its directory has them: nothing is unpacked, so the cabinet may be compressed in
// any way. The errors are those of Walk.
func CabinetNames(ctx context.Context, file *os.File) ([]string, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, fmt.Errorf("read archive: %w", err)
	}
	w := &walk{ctx: ctx, format: Cabinet, limits: Limits{}.withDefaults()}
	folders, _, err := w.cabDirectory(&source{ctx: ctx, file: file, size: info.Size()})
	if err != nil {
		return nil, damaged("not a readable cabinet", err)
	}
	var out []string
	for _, f := range folders {
		for _, file := range f.files {
			out = append(out, file.name)
		}
	}
	return out, nil
}

type cabFolder struct {
	at          int64 // of its first block
	blocks      int
	compression uint16
	files       []cabFile
}

type cabFile struct {
	name       string
	size, from uint32 // from is where it begins in its unpacked folder
}

// cabinet reads a cabinet of one file, with folders that are stored or of MSZIP, as fwupd takes them.
func (w *walk) cabinet(in *source) error {
	folders, reserve, err := w.cabDirectory(in)
	if err != nil {
		return damaged("not a readable cabinet", err)
	}
	for _, f := range folders {
		if f.compression != cabStored && f.compression != cabMSZIP {
			return fmt.Errorf("%w: the cabinet is compressed with %s, which is not supported; pack it again with MSZIP or without compression",
				ErrDamaged, map[uint16]string{cabQuantum: "Quantum", cabLZX: "LZX"}[f.compression])
		}
	}
	unread := in.size
	for _, f := range folders {
		slices.SortStableFunc(f.files, func(a, b cabFile) int { return cmp.Compare(a.from, b.from) })
		blocks := &cabBlocks{
			in: bufio.NewReader(io.NewSectionReader(in, f.at, in.size-f.at)), left: f.blocks, reserve: reserve, compression: f.compression, unread: &unread,
		}
		unpacked, at := w.all(blocks), int64(0)
		for _, file := range f.files {
			if int64(file.from) < at {
				return fmt.Errorf("%w: %s overlaps another file of the cabinet", ErrDamaged, file.name)
			}
			content, opened := &cabContent{r: unpacked, left: int64(file.size)}, false
			err := w.member(file.name, int64(file.size), func() (io.Reader, error) {
				opened = true
				if _, err := io.CopyN(io.Discard, unpacked, int64(file.from)-at); err != nil {
					return nil, damaged("seek "+file.name, unexpected(err))
				}
				return checked{file.name, content}, nil
			})
			if err != nil {
				return err
			}
			if opened { // nothing is unpacked for a file that nobody wants
				at = int64(file.from) + int64(file.size) - content.left
			}
		}
	}
	return nil
}

// cabDirectory reads the folders and files, and how many bytes each block reserves.
func (w *walk) cabDirectory(in *source) ([]*cabFolder, int, error) {
	r := bufio.NewReader(in.reader())
	head := make([]byte, cabHeaderSize)
	if _, err := io.ReadFull(r, head); err != nil || string(head[:4]) != cabMagic {
		return nil, 0, fmt.Errorf("%w: not a cabinet", ErrDamaged)
	}
	le := binary.LittleEndian
	folders, files, flags := int(le.Uint16(head[26:])), int(le.Uint16(head[28:])), le.Uint16(head[30:])
	switch {
	case int64(le.Uint32(head[8:])) > in.size:
		return nil, 0, fmt.Errorf("%w: the cabinet is cut off: it has %d of %d bytes", ErrDamaged, in.size, le.Uint32(head[8:]))
	case flags&cabSpans != 0:
		return nil, 0, fmt.Errorf("%w: the cabinet is a part of a set, which is not supported", ErrDamaged)
	case folders+files > w.limits.Entries:
		return nil, 0, fmt.Errorf("%w: the cabinet says that it has %d entries, the limit is %d", ErrTooLarge, folders+files, w.limits.Entries)
	}
	var headerSpace, folderSpace, blockSpace int
	if flags&cabReserves != 0 {
		var sizes [4]byte
		if _, err := io.ReadFull(r, sizes[:]); err != nil {
			return nil, 0, unexpected(err)
		}
		headerSpace, folderSpace, blockSpace = int(le.Uint16(sizes[:])), int(sizes[2]), int(sizes[3])
	}
	if _, err := r.Discard(headerSpace); err != nil {
		return nil, 0, unexpected(err)
	}
	out := make([]*cabFolder, 0, folders)
	for range folders {
		raw := make([]byte, cabFolderSize+folderSpace)
		if _, err := io.ReadFull(r, raw); err != nil {
			return nil, 0, unexpected(err)
		}
		f := &cabFolder{at: int64(le.Uint32(raw)), blocks: int(le.Uint16(raw[4:])), compression: le.Uint16(raw[6:]) & 0xf}
		if f.compression > cabLZX {
			return nil, 0, fmt.Errorf("%w: a folder of the cabinet has the compression %d, which does not exist", ErrDamaged, f.compression)
		}
		if f.at > in.size {
			return nil, 0, fmt.Errorf("%w: a folder is not within the cabinet", ErrDamaged)
		}
		out = append(out, f)
	}
	list := bufio.NewReader(io.NewSectionReader(in, int64(le.Uint32(head[16:])), in.size))
	for range files {
		if err := w.cabEntry(list, out); err != nil {
			return nil, 0, err
		}
	}
	return out, blockSpace, nil
}

func (w *walk) cabEntry(list *bufio.Reader, folders []*cabFolder) error {
	if err := w.count(); err != nil {
		return err
	}
	var raw [cabFileSize]byte
	if _, err := io.ReadFull(list, raw[:]); err != nil {
		return unexpected(err)
	}
	name, err := cabNameOf(list)
	if err != nil {
		return err
	}
	le := binary.LittleEndian
	folder := int(le.Uint16(raw[8:]))
	if folder >= len(folders) {
		return fmt.Errorf("%w: %s is in folder %d, and the cabinet has %d", ErrDamaged, name, folder, len(folders))
	}
	folders[folder].files = append(folders[folder].files, cabFile{name: name, size: le.Uint32(raw[:]), from: le.Uint32(raw[4:])})
	return nil
}

// cabNameOf reads a name, which ends with a zero. Cabinets separate directories by a backslash.
func cabNameOf(list *bufio.Reader) (string, error) {
	var name bytes.Buffer
	for {
		b, err := list.ReadByte()
		switch {
		case err != nil:
			return "", unexpected(err)
		case b == 0:
			return clean(strings.ReplaceAll(name.String(), `\`, "/"))
		case name.Len() == cabName:
			return "", fmt.Errorf("%w: a name in the cabinet is longer than %d bytes", ErrDamaged, cabName)
		}
		name.WriteByte(b)
	}
}

// cabContent is a file of a folder. A folder that ends early is an error.
type cabContent struct {
	r    io.Reader
	left int64
}

func (c *cabContent) Read(p []byte) (int, error) {
	if c.left == 0 {
		return 0, io.EOF
	}
	n, err := c.r.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	if c.left > 0 {
		err = unexpected(err)
	}
	return n, err
}

// cabBlocks unpacks the blocks of a folder.
type cabBlocks struct {
	in          *bufio.Reader
	left        int
	reserve     int
	compression uint16
	// unread is what is left of the cabinet for all its folders: each byte belongs to one block, or a few blocks could be unpacked as often
	// as there are folders.
	unread   *int64
	unpacked []byte // of the present block
	err      error  // which a reader that looks ahead may ask for again
	before   []byte // of the block before, which MSZIP looks back into
}

func (c *cabBlocks) Read(p []byte) (int, error) {
	for len(c.unpacked) == 0 && c.err == nil {
		if c.left == 0 {
			return 0, io.EOF
		}
		c.left--
		c.err = unexpected(c.next())
	}
	if c.err != nil {
		return 0, c.err
	}
	n := copy(p, c.unpacked)
	c.unpacked = c.unpacked[n:]
	return n, nil
}

func (c *cabBlocks) next() error {
	raw := make([]byte, cabDataSize+c.reserve)
	if _, err := io.ReadFull(c.in, raw); err != nil {
		return err
	}
	le := binary.LittleEndian
	sum, size, unpacked := le.Uint32(raw), int(le.Uint16(raw[4:])), int(le.Uint16(raw[6:]))
	if unpacked > cabBlock || unpacked == 0 {
		return fmt.Errorf("%w: a block of the cabinet has %d bytes, and belongs to a set or is longer than %d", ErrDamaged, unpacked, cabBlock)
	}
	if *c.unread -= int64(len(raw) + size); *c.unread < 0 {
		return fmt.Errorf("%w: the folders of the cabinet overlap", ErrDamaged)
	}
	data := make([]byte, size)
	if _, err := io.ReadFull(c.in, data); err != nil {
		return err
	}
	if sum != 0 && cabSum(raw[4:], cabSum(data, 0)) != sum {
		return fmt.Errorf("%w: the checksum of a block of the cabinet is wrong", ErrDamaged)
	}
	if c.compression == cabStored {
		if size != unpacked {
			return fmt.Errorf("%w: a stored block of the cabinet has %d bytes instead of %d", ErrDamaged, size, unpacked)
		}
		c.unpacked = data
		return nil
	}
	if size < 2 || string(data[:2]) != "CK" {
		return fmt.Errorf("%w: a block of the cabinet is not of MSZIP", ErrDamaged)
	}
	out := make([]byte, unpacked)
	if _, err := io.ReadFull(flate.NewReaderDict(bytes.NewReader(data[2:]), c.before), out); err != nil {
		return err
	}
	c.unpacked, c.before = out, out
	return nil
}

// cabSum is the checksum of [MS-CAB] 3.1: the exclusive or of its words, the bytes of the last one in reverse.
func cabSum(data []byte, sum uint32) uint32 {
	for ; len(data) >= 4; data = data[4:] {
		sum ^= binary.LittleEndian.Uint32(data)
	}
	var last uint32
	for _, b := range data {
		last = last<<8 | uint32(b)
	}
	return sum ^ last
}

// unexpected is the error of data that end too early.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
