package imageinfo

import (
	"encoding/binary"
	"fmt"
	"strings"
)

// The layouts of images for Mellanox adapters, as the sources of mstflint 4.36 have them (mlxfwops/lib/fw_ops.cpp, fs3_ops.cpp,
// fs4_ops.cpp, fs5_ops.cpp; tools_layouts): FS3 for ConnectX-4, FS4 from ConnectX-5 and FS5 from ConnectX-8 on. All numbers are big-endian. An
// image in another layout, such as FS2, says nothing.
const (
	fs3Magic = "MTFW\x8c\xdf\xd0\x00\xde\xad\x92\x70\x41\x54\xbe\xef"
	fs4Magic = "MTFW\xab\xcd\xef\x00\xfa\xde\x12\x34\x56\x78\xde\xad"
	// The version of a layout is one byte, and only these are known.
	fs3VersionAt, fs3Version             = 0x24, 3
	fs4VersionAt, fs4Version, fs5Version = 0x10, 1, 2

	// mlxHead is what is read of the beginning of an image. FS4 and FS5 have there pointers to their parts, each with a checksum.
	mlxHead                         = 0x98
	fs4Pointers, fs4TOC, fs4InfoPtr = 0x18, 2, 10
	// fs3Boot is where FS3 has its boot code, whose second word says how many words follow the first four.
	fs3Boot, fs3BootMost = 0x38, 1 << 20
	// A table of contents begins at a sector. fs3Reach is how far into the image that of FS3 is looked for.
	mlxSector, fs3Reach = 0x1000, 32 << 20
)

// mlxImage is an image for an adapter.
type mlxImage struct{ sized }

// mellanox reads the version and the PSID, which is the id of the board, of an image for a Mellanox adapter.
func mellanox(image sized) ([]Firmware, error) {
	m := mlxImage{image}
	mark, err := m.read(0, min(m.size, int64(len(fs3Magic))))
	if err != nil || string(mark) != fs3Magic && string(mark) != fs4Magic {
		return nil, err
	}
	head, err := m.read(0, mlxHead)
	switch {
	case err != nil:
		return nil, err
	case string(mark) == fs3Magic && head[fs3VersionAt] == fs3Version:
		return m.fs3(head)
	case string(mark) == fs4Magic && head[fs4VersionAt] == fs4Version:
		return m.fs4(head)
	case string(mark) == fs4Magic && head[fs4VersionAt] == fs5Version:
		return m.fs5(head)
	}
	return nil, nil
}

// fs5 follows the pointer to the section that says what the image is, as for an encrypted FS4: it is not encrypted and has no checksum.
func (m mlxImage) fs5(head []byte) ([]Firmware, error) {
	for i := range (mlxHead - fs4Pointers) / 8 { // any of them damaged is an image damaged
		if _, err := pointer(head, i); err != nil {
			entry := head[fs4Pointers+8*i:][:8]
			if uint32(mlxSum(entry[:4])) != binary.BigEndian.Uint32(entry[4:]) { // some adapters have that one
				return nil, err
			}
		}
	}
	at := int64(binary.BigEndian.Uint32(head[fs4Pointers+8*fs4InfoPtr:]))
	if at == 0 || at == 0xffffffff {
		return nil, nil
	}
	section, err := m.read(at, mlxInfoSize)
	if err != nil {
		return nil, err
	}
	return mlxFirmware(section), nil
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
	return nil, fmt.Errorf("%w: it has no table of contents, or ends before it", ErrInvalid)
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
	switch {
	case err != nil:
		return nil, err
	case info == 0 && toc+mlxTOCHeader > m.size:
		return nil, fmt.Errorf("%w: it ends before its table of contents", ErrInvalid)
	case info == 0:
		return nil, nil
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

const (
	// A table of contents has a header, which begins with mlxTOC, and entries of the same size up to one of the type mlxEnd.
	mlxTOC                          = "ITOC\x04\x08\x15\x16\x23\x42\xca\xfa\xba\xca\xfe\x00"
	mlxTOCHeader, mlxEntry          = 0x20, 0x20
	mlxInfo, mlxEnd, mlxMostEntries = 0x10, 0xff, 64
	// mlxInfoSize is how much is known of the section IMAGE_INFO, which says what the image is; mlxInfoMost bounds that section.
	mlxInfoSize, mlxInfoMost = 0x400, 1 << 20
)

// errTOC is why a table of contents is not read.
var errTOC = fmt.Errorf("%w: the checksum of its table of contents is wrong", ErrInvalid)

// tocState is what is at a place where a table of contents may be.
type tocState int

const (
	tocAbsent tocState = iota
	tocDamaged
	tocSound
)

// tocAt looks for the header of a table of contents.
func (m mlxImage) tocAt(at int64) (tocState, error) {
	header, err := m.read(at, mlxTOCHeader)
	switch {
	case err != nil:
		return tocAbsent, err
	case !strings.HasPrefix(string(header), mlxTOC):
		return tocAbsent, nil
	case mlxSum(header[:mlxTOCHeader-4]) != binary.BigEndian.Uint16(header[mlxTOCHeader-2:]):
		return tocDamaged, nil
	}
	return tocSound, nil
}

// sumPlace is where the checksum of a section is.
type sumPlace int

const (
	sumInEntry sumPlace = iota
	sumNowhere
	sumInSection
)

// fs3Sum and fs4Sum read from a byte of an entry where the checksum of its section is.
func fs3Sum(flags byte) sumPlace { return sumPlace(flags & 1) }

func fs4Sum(flags byte) sumPlace {
	if place := sumPlace(flags & 7); place <= sumInSection {
		return place
	}
	return sumNowhere
}

// described reads the section that says what the image is, by the table of contents at a place. A table without one says nothing.
func (m mlxImage) described(toc int64, place func(flags byte) sumPlace) ([]Firmware, error) {
	var info []byte
	for i := range int64(mlxMostEntries) {
		entry, err := m.read(toc+mlxTOCHeader+i*mlxEntry, mlxEntry)
		if err != nil {
			return nil, err
		}
		if entry[0] == mlxEnd {
			if info == nil {
				return nil, nil
			}
			return m.section(info, place(info[0x19]))
		}
		if got, want := mlxSum(entry[:mlxEntry-4]), binary.BigEndian.Uint16(entry[mlxEntry-2:]); got != want {
			return nil, fmt.Errorf("%w: the checksum of entry %d of its table of contents is %#04x and should be %#04x", ErrInvalid, i, got, want)
		}
		if entry[0] != mlxInfo {
			continue
		}
		if info != nil {
			return nil, fmt.Errorf("%w: it has two sections IMAGE_INFO", ErrInvalid)
		}
		info = entry
	}
	return nil, fmt.Errorf("%w: its table of contents has no end after %d entries", ErrInvalid, mlxMostEntries)
}

// section reads the section of an entry and verifies its checksum.
func (m mlxImage) section(entry []byte, sum sumPlace) ([]Firmware, error) {
	be := binary.BigEndian
	at, length := int64(be.Uint32(entry[0x14:])&0x7ffffffc), int64(be.Uint32(entry)>>2&0x3fffff)*4
	if length < mlxInfoSize || length > mlxInfoMost {
		return nil, fmt.Errorf("%w: its section IMAGE_INFO has %d bytes, and it should have %d to %d", ErrInvalid, length, mlxInfoSize, mlxInfoMost)
	}
	section, err := m.read(at, length)
	if err != nil {
		return nil, err
	}
	var got, want uint16
	switch sum {
	case sumInEntry:
		got, want = mlxSum(section), be.Uint16(entry[0x1a:])
	case sumInSection:
		got, want = mlxSum(section[:length-4]), be.Uint16(section[length-2:])
	case sumNowhere:
	}
	if got != want {
		return nil, fmt.Errorf("%w: the checksum of its section IMAGE_INFO is %#04x and should be %#04x", ErrInvalid, got, want)
	}
	return mlxFirmware(section), nil
}

// mlxSum is the checksum of whole words: a CRC-16 with the polynomial 0x100b, begun with ones and inverted at its end.
func mlxSum(data []byte) uint16 {
	sum := uint16(0xffff)
	shift := func(bit byte) {
		carry := sum & 0x8000
		if sum = sum<<1 | uint16(bit); carry != 0 {
			sum ^= 0x100b
		}
	}
	for _, b := range data {
		for i := 7; i >= 0; i-- {
			shift(b >> i & 1)
		}
	}
	for range 16 {
		shift(0)
	}
	return ^sum
}

// pointerSum is the checksum of a pointer and the two bytes after it: the same CRC-16 with its bits and bytes reflected, begun with
// ones, over a pointer whose first two bytes are inverted.
func pointerSum(entry []byte) uint16 {
	sum := uint16(0xffff)
	for i, b := range entry[:6] {
		if i < 2 {
			b = ^b
		}
		sum ^= uint16(b)
		for range 8 {
			carry := sum & 1
			if sum >>= 1; carry != 0 {
				sum ^= 0xd008
			}
		}
	}
	return sum<<8 | sum>>8
}
