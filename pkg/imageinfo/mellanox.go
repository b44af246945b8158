package imageinfo

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
)

// The layouts of images for Mellanox adapters, as the sources of mstflint 4.21 have them (mlxfwops/lib/fw_ops.cpp, fs3_ops.cpp,
// fs4_ops.cpp; tools_layouts): FS3 for ConnectX-4, FS4 from ConnectX-5 on. All numbers are big-endian. An image in another layout,
// such as FS2 or FS5, says nothing.
const (
	fs3Magic = "MTFW\x8c\xdf\xd0\x00\xde\xad\x92\x70\x41\x54\xbe\xef"
	fs4Magic = "MTFW\xab\xcd\xef\x00\xfa\xde\x12\x34\x56\x78\xde\xad"
	// The version of a layout is one byte, and only these are known.
	fs3VersionAt, fs3Version = 0x24, 3
	fs4VersionAt, fs4Version = 0x10, 1

	// mlxHead is what is read of the beginning of an image. FS4 has there pointers to its parts, each with a checksum.
	mlxHead                         = 0x98
	fs4Pointers, fs4TOC, fs4InfoPtr = 0x18, 2, 10
	// fs3Boot is where FS3 has its boot code, whose second word says how many words follow the first four.
	fs3Boot, fs3BootMost = 0x38, 1 << 20
	// A table of contents begins at a sector. fs3Reach is how far into the image that of FS3 is looked for.
	mlxSector, fs3Reach = 0x1000, 32 << 20
)

// mlxImage is an image of size bytes.
type mlxImage struct {
	io.ReaderAt
	size int64
}

// read returns n bytes at a place of the image.
func (m mlxImage) read(at, n int64) ([]byte, error) {
	if at < 0 || at+n > m.size {
		return nil, fmt.Errorf("%w: it refers to %d bytes at %#x, but has only %d bytes", ErrInvalid, n, at, m.size)
	}
	out := make([]byte, n)
	if _, err := m.ReadAt(out, at); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read image: %w", err)
	}
	return out, nil
}

// mellanox reads the version and the PSID, which is the id of the board, of an image for a Mellanox adapter.
func mellanox(image io.ReaderAt, size int64) ([]Firmware, error) {
	m := mlxImage{ReaderAt: image, size: size}
	if m.size < mlxHead {
		return nil, nil
	}
	head, err := m.read(0, mlxHead)
	if err != nil {
		return nil, err
	}
	switch magic := string(head[:len(fs3Magic)]); {
	case magic == fs3Magic && head[fs3VersionAt] == fs3Version:
		return m.fs3(head)
	case magic == fs4Magic && head[fs4VersionAt] == fs4Version:
		return m.fs4(head)
	}
	return nil, nil
}

// fs3 looks for the table of contents in the sectors after the boot code.
func (m mlxImage) fs3(head []byte) ([]Firmware, error) {
	words := int64(binary.BigEndian.Uint32(head[fs3Boot+4:]))
	if words > fs3BootMost {
		return nil, fmt.Errorf("%w: its boot code has %d words, the limit is %d", ErrInvalid, words, fs3BootMost)
	}
	end := fs3Boot + 4*(words+4)
	for at := (end + mlxSector - 1) / mlxSector * mlxSector; at+mlxTOCHeader <= min(m.size, fs3Reach); at += mlxSector {
		switch state, err := m.tocAt(at); {
		case err != nil:
			return nil, err
		case state == tocDamaged:
			return nil, errTOC
		case state == tocSound:
			return m.described(at, fs3Sum)
		}
	}
	return nil, nil
}

// fs4 follows the pointers to the table of contents or its copy in the next sector. An encrypted image has no readable one, but a
// pointer to the section that says what it is, which is not encrypted and has no checksum.
func (m mlxImage) fs4(head []byte) ([]Firmware, error) {
	toc, err := pointer(head, fs4TOC)
	if err != nil {
		return nil, err
	}
	damaged := false
	for _, at := range []int64{toc, toc + mlxSector} {
		if at+mlxTOCHeader > m.size {
			break
		}
		switch state, err := m.tocAt(at); {
		case err != nil:
			return nil, err
		case state == tocSound:
			return m.described(at, fs4Sum)
		case state == tocDamaged:
			damaged = true
		}
	}
	if damaged {
		return nil, errTOC
	}
	info, err := pointer(head, fs4InfoPtr)
	if err != nil || info == 0 {
		return nil, err
	}
	section, err := m.read(info, mlxInfoSize)
	if err != nil {
		return nil, err
	}
	return mlxFirmware(section), nil
}

// pointer returns a pointer of an FS4 image; 0 for none.
func pointer(head []byte, i int) (int64, error) {
	entry := head[fs4Pointers+8*i:][:8]
	to := binary.BigEndian.Uint32(entry)
	if to == 0xffffffff {
		return 0, nil
	}
	if got, want := pointerSum(entry), binary.BigEndian.Uint32(entry[4:]); uint32(got) != want {
		return 0, fmt.Errorf("%w: the checksum of its pointer %d is %#04x and should be %#04x", ErrInvalid, i, got, want)
	}
	return int64(to), nil
}

// mlxFirmware reads the section that says what the image is (image_layout_image_info). One of an unknown version, or without a
// version or a legible PSID, says nothing.
func mlxFirmware(section []byte) []Firmware {
	if section[0] != 0 {
		return nil
	}
	be := binary.BigEndian
	major, minor, sub := be.Uint16(section[0x04:]), be.Uint16(section[0x08:]), be.Uint16(section[0x0a:])
	psid, _, _ := strings.Cut(string(section[0x24:0x34]), "\x00")
	illegible := strings.ContainsFunc(psid, func(c rune) bool { return c <= ' ' || c > '~' })
	if major|minor|sub == 0 || psid == "" || illegible {
		return nil
	}
	format := "%d.%d.%04d"
	if minor >= 100 { // as the tool prints it
		format = "%d.%04d.%04d"
	}
	return []Firmware{{Versions: []string{fmt.Sprintf(format, major, minor, sub)}, Boards: []string{psid}}}
}
