package imageinfo

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// The layout of a capsule, of UEFI 2.10, 8.5.3 and 23.3: a header, and behind it in one of the kind fmpCapsule a header of its own with the places of
// drivers and of images. All numbers are little-endian.
const (
	// fmpCapsule is the GUID of a capsule that holds images for the protocol of firmware management. Any other GUID is that of the firmware
	// itself, which the ESRT lists.
	fmpCapsule = "\xed\xd5\xcb\x6d\x2d\xe8\x44\x4c\xbd\xa1\x71\x94\x19\x9a\xd9\x2a"

	capsuleHeader, capsuleMostHeader = 28, 4096
	// capsuleFlags are the flags that are defined: those of the firmware's own, and three of the specification.
	capsuleFlags = 0x0007ffff

	fmpHeader, fmpMostItems = 8, 64
	// An image begins with a header that grew with its versions.
	fmpImageHeader = 32
	// A signed image begins with a count and a certificate, of a revision and a type.
	fmpCertificate = 8 + 8
	fmpSigned      = "\x00\x02\xf1\x0e"
	// fmpPayload is how the header begins that most firmware has behind that (EDK II, FmpDevicePkg); its third word is the version.
	fmpPayload, fmpPayloadHeader = "MSS1", 16
)

// containers are the GUIDs of capsules that vendors wrap BIOS images in for tools of their own: they are in no ESRT, and say nothing of a
// board (AMI Aptio signed and unsigned, Intel, Lenovo twice, Toshiba, EFI 1.x).
var containers = []string{
	"4a3ca68b-7723-48fb-803d-578cc1fec44d", "14eebb90-890a-43db-aed1-5d3c4588a418", "539182b9-abb5-4391-b69a-e3a943f72fcc",
	"e20bafd3-9914-4f4f-9537-3129e090eb3c", "25b5fe76-8243-4a5c-a9bd-7ee3246198b5", "3be07062-1d51-45d2-832b-f093257ed461",
	"3b6686bd-0d76-4030-b70e-b5519e2fc5a0",
}

// isCapsule reports whether an image is a capsule: one of the kind fmpCapsule, or one that has another GUID and says its own size rightly.
func (s sized) isCapsule(head []byte) bool {
	if len(head) < capsuleHeader {
		return false
	}
	le := binary.LittleEndian
	size, flags := le.Uint32(head[16:]), le.Uint32(head[20:])
	return string(head[:16]) == fmpCapsule ||
		int64(le.Uint32(head[24:])) == s.size && size >= capsuleHeader && size <= capsuleMostHeader && flags&^capsuleFlags == 0 && [16]byte(head) != [16]byte{}
}

// capsule reads the GUIDs, which are those of the ESRT, and the versions of a capsule. A capsule that is no fmpCapsule has no version.
func (s sized) capsule(head []byte) ([]Firmware, error) {
	le := binary.LittleEndian
	header, size := int64(le.Uint32(head[16:])), int64(le.Uint32(head[24:]))
	switch {
	case size > s.size:
		return nil, fmt.Errorf("%w: the capsule says that it has %d bytes, but has only %d", ErrInvalid, size, s.size)
	case header < capsuleHeader || header > size:
		return nil, fmt.Errorf("%w: the capsule says that its header has %d bytes", ErrInvalid, header)
	case string(head[:16]) != fmpCapsule && slices.Contains(containers, guidOf(head)):
		return nil, nil
	case string(head[:16]) != fmpCapsule:
		return []Firmware{{Boards: []string{guidOf(head)}, GUIDs: true}}, nil
	}
	begin, err := s.read(header, fmpHeader)
	if err != nil {
		return nil, err
	}
	drivers, images := int64(le.Uint16(begin[4:])), int64(le.Uint16(begin[6:]))
	switch {
	case le.Uint32(begin) != 1:
		return nil, nil // a later version
	case drivers+images > fmpMostItems:
		return nil, fmt.Errorf("%w: the capsule has %d drivers and images, the limit is %d", ErrInvalid, drivers+images, fmpMostItems)
	}
	places, err := s.read(header+fmpHeader, 8*(drivers+images))
	if err != nil {
		return nil, err
	}
	var out []Firmware
	for i := range images {
		at := le.Uint64(places[8*(drivers+i):])
		if at > uint64(s.size) {
			return nil, fmt.Errorf("%w: image %d of the capsule is not within it", ErrInvalid, i)
		}
		f, err := s.fmpImage(header + int64(at))
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(out, func(o Firmware) bool { return slices.Equal(o.Boards, f.Boards) && slices.Equal(o.Versions, f.Versions) }) {
			out = append(out, f)
		}
	}
	return out, nil
}

// fmpImage reads what an image in a capsule is for, and its version where it has one in the way that most have.
func (s sized) fmpImage(at int64) (Firmware, error) {
	head, err := s.read(at, fmpImageHeader)
	if err != nil {
		return Firmware{}, err
	}
	le := binary.LittleEndian
	out := Firmware{Boards: []string{guidOf(head[4:])}, GUIDs: true}
	size := int64(le.Uint32(head[24:]))
	switch le.Uint32(head) {
	case 1:
		at += fmpImageHeader
	case 2:
		at += fmpImageHeader + 8
	case 3:
		at += fmpImageHeader + 16
	default:
		return out, nil
	}
	end := at + size
	if end > s.size {
		return Firmware{}, fmt.Errorf("%w: an image of the capsule ends at %#x, but the capsule has only %d bytes", ErrInvalid, end, s.size)
	}
	begin, err := s.read(at, min(fmpCertificate, size))
	if err != nil {
		return Firmware{}, err
	}
	if len(begin) == fmpCertificate && string(begin[12:]) == fmpSigned {
		at += 8 + int64(le.Uint32(begin[8:]))
	}
	if at > end-fmpPayloadHeader {
		return out, nil
	}
	payload, err := s.read(at, fmpPayloadHeader)
	if err != nil {
		return Firmware{}, err
	}
	if string(payload[:4]) == fmpPayload {
		out.Versions = spellings(fmt.Sprint(le.Uint32(payload[8:])), "")
	}
	return out, nil
}

// guidOf is the text of a GUID, whose first three fields are little-endian.
func guidOf(b []byte) string {
	le := binary.LittleEndian
	return fmt.Sprintf("%08x-%04x-%04x-%x-%x", le.Uint32(b), le.Uint16(b[4:]), le.Uint16(b[6:]), b[8:10], b[10:16])
}
