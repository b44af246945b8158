package imageinfo

import (
	"encoding/binary"
	"fmt"
	"strings"
)

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
