package imageinfo

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// The layout of a PLDM package for updates, of DMTF DSP0267: a header with records of devices and of components, and a checksum. All numbers
// are little-endian.
const (
	// pldmBegin is how much a header has before the version of the package.
	pldmBegin                     = 16 + 1 + 2 + 13 + 2 + 1 + 1
	pldmLastRevision, pldmMostIDs = 4, 64
	// Types of descriptors of a device.
	pldmVendor, pldmDevice, pldmSubsystemVendor, pldmSubsystem = 0x0000, 0x0100, 0x0101, 0x0102
)

// pldmUUIDs are how a package begins, by the revision of its header.
var pldmUUIDs = [pldmLastRevision]string{
	"\xf0\x18\x87\x8c\xcb\x7d\x49\x43\x98\x00\xa0\x2f\x05\x9a\xca\x02", // DSP0267 1.0
	"\x12\x44\xd2\x64\x8d\x7d\x47\x18\xa0\x30\xfc\x8a\x56\x58\x7d\x5a", // 1.1
	"\x31\x19\xce\x2f\xe8\x0a\x4a\x99\xaf\x6d\x46\xf8\xb1\x21\xf6\xbf", // 1.2
	"\x7b\x29\x1c\x99\x6d\xb6\x42\x08\x80\x1b\x02\x02\x6e\x46\x3c\x78", // 1.3
}

// pldmRevision is the revision of a package's header by its first bytes; 0 for no package.
func pldmRevision(head []byte) int {
	return slices.IndexFunc(pldmUUIDs[:], func(uuid string) bool { return strings.HasPrefix(string(head), uuid) }) + 1
}

// pldm reads the versions of a package and the PCI ids of its devices, one Firmware for each record of a device.
func (s sized) pldm() ([]Firmware, error) {
	begin, err := s.read(0, 16+1+2)
	if err != nil {
		return nil, err
	}
	length := int64(binary.LittleEndian.Uint16(begin[17:]))
	header, err := s.read(0, length)
	if err != nil {
		return nil, err
	}
	revision := pldmRevision(begin)
	if !pldmSound(header, revision) {
		return nil, fmt.Errorf("%w: the checksum of the PLDM package's header is wrong", ErrInvalid)
	}
	r := &pldmReader{rest: header}
	out := r.records(revision)
	if r.err != nil {
		return nil, fmt.Errorf("%w: read the PLDM package's header: %w", ErrInvalid, r.err)
	}
	return out, nil
}

// pldmSound verifies the checksum at the end of the header. From revision 4 on another one of the content may follow it.
func pldmSound(header []byte, revision int) bool {
	for _, behind := range []int{0, 4} {
		end := len(header) - 4 - behind
		if end >= pldmBegin && (behind == 0 || revision == pldmLastRevision) && crc32.ChecksumIEEE(header[:end]) == binary.LittleEndian.Uint32(header[end:]) {
			return true
		}
	}
	return false
}

// pldmReader reads what follows each other in a header. After an error it reads zeros.
type pldmReader struct {
	rest []byte
	err  error
}

// pldmMostVersions bounds the versions of all components of all devices: each device may name each component.
const pldmMostVersions = 1024

var errShort = errors.New("it ends too early")

func (r *pldmReader) bytes(n int) []byte {
	if n > len(r.rest) {
		r.err, r.rest = errShort, nil
		return make([]byte, min(n, 16))
	}
	out := r.rest[:n]
	r.rest = r.rest[n:]
	return out
}

func (r *pldmReader) byte() int   { return int(r.bytes(1)[0]) }
func (r *pldmReader) uint16() int { return int(binary.LittleEndian.Uint16(r.bytes(2))) }
func (r *pldmReader) uint32() int { return int(binary.LittleEndian.Uint32(r.bytes(4))) }

// text reads a text of a type and a length. One that is not legible is empty.
func (r *pldmReader) text(kind, length int) string {
	const ascii, utf8Text, utf16Text, utf16LE, utf16BE = 1, 2, 3, 4, 5
	raw := r.bytes(length)
	text := ""
	switch kind {
	case ascii, utf8Text:
		text = string(raw)
	case utf16Text, utf16LE, utf16BE:
		var units []uint16
		for i := 0; i+1 < len(raw); i += 2 {
			unit := binary.LittleEndian.Uint16(raw[i:])
			if kind == utf16BE {
				unit = binary.BigEndian.Uint16(raw[i:])
			}
			units = append(units, unit)
		}
		text = string(utf16.Decode(units))
	}
	text = strings.TrimSpace(strings.Trim(text, "\x00\ufeff"))
	if !utf8.ValidString(text) || strings.ContainsFunc(text, func(c rune) bool { return !unicode.IsPrint(c) }) {
		return ""
	}
	return text
}

// records reads the header.
func (r *pldmReader) records(revision int) []Firmware {
	r.bytes(pldmBegin - 4)
	bitmap := (r.uint16() + 7) / 8
	kind, length := r.byte(), r.byte()
	version := r.text(kind, length)
	type record struct {
		Firmware
		components []byte
	}
	var all []record
	for range r.byte() {
		f, components := r.device(bitmap, revision)
		all = append(all, record{f, components})
	}
	if revision > 1 { // devices behind others, which are not flashed by themselves
		for range r.byte() {
			if size := r.uint16(); size >= 2 {
				r.bytes(size - 2)
			} else {
				r.err = errShort
				break
			}
		}
	}
	said := 0
	for i := range r.uint16() {
		r.bytes(2 + 2 + 4 + 2 + 2 + 4 + 4)
		kind, length := r.byte(), r.byte()
		text := r.text(kind, length)
		if revision > 2 {
			r.bytes(r.uint32())
		}
		if r.err != nil {
			return nil
		}
		words := versionsIn(text)
		for j := range all {
			if i/8 < len(all[j].components) && all[j].components[i/8]>>(i%8)&1 == 1 {
				if said += len(words); said > pldmMostVersions {
					r.err = errors.New("it names too many versions")
					return nil
				}
				all[j].Versions = append(all[j].Versions, words...)
			}
		}
	}
	var out []Firmware
	for _, f := range all {
		f.Versions = append(f.Versions, versionsIn(version)...)
		slices.Sort(f.Versions)
		f.Versions = slices.Compact(f.Versions)
		out = append(out, f.Firmware)
	}
	return out
}

// device reads a record of a device: for what it is, and which components are for it.
func (r *pldmReader) device(bitmap, revision int) (Firmware, []byte) {
	size := r.uint16()
	if size < 2 {
		r.err = errShort
		return Firmware{}, nil
	}
	in := &pldmReader{rest: r.bytes(size - 2)}
	descriptors := in.byte()
	in.bytes(4)
	kind, length := in.byte(), in.byte()
	in.bytes(2)
	if revision == pldmLastRevision {
		in.bytes(4)
	}
	components := in.bytes(bitmap)
	out := Firmware{Versions: versionsIn(in.text(kind, length))}
	ids := map[int]string{}
	for range min(descriptors, pldmMostIDs) {
		id, size := in.uint16(), in.uint16()
		if value := in.bytes(size); size == 2 {
			if _, twice := ids[id]; !twice { // the first is the device, others are further ones of it
				ids[id] = fmt.Sprintf("%04x", binary.LittleEndian.Uint16(value))
			}
		}
	}
	if in.err != nil {
		r.err = in.err
		return Firmware{}, nil
	}
	if ids[pldmVendor] != "" && ids[pldmDevice] != "" {
		out.PCI = []PCIDevice{{Vendor: ids[pldmVendor], Device: ids[pldmDevice], SubsystemVendor: ids[pldmSubsystemVendor], Subsystem: ids[pldmSubsystem]}}
	}
	return out, components
}

// versionsIn are a text and the words in it that may be a version: vendors put names around them.
func versionsIn(text string) []string {
	if text == "" {
		return nil
	}
	out := []string{text}
	for _, word := range strings.FieldsFunc(text, func(c rune) bool { return c != '.' && !unicode.IsLetter(c) && !unicode.IsDigit(c) }) {
		if word = strings.Trim(word, "."); strings.ContainsFunc(word, unicode.IsDigit) && word != text {
			out = append(out, word)
		}
	}
	return out
}
