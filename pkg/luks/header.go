package luks

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
)

// Header is what a LUKS2 header says of the ways to open its device.
type Header struct {
	// UUID is that of the device.
	UUID string
	// Ways are those of its tokens, in order of their numbers.
	Ways []Way
	// Keys counts the keys that no token names: passphrases, recovery keys and key files.
	Keys int
}

// Sizes of a header in bytes: of its binary part, and the smallest and the largest of both parts (LUKS2 On-Disk Format 2.1).
const (
	binarySize = 4096
	minSize    = 16 << 10
	maxSize    = 4 << 20
)

// Read reads the newer of the two headers of a device that is whole. A device that has none is an error.
func Read(device io.ReaderAt) (Header, error) {
	first, err := readCopy(device, 0)
	second, secondErr := copyAt{}, err
	if err == nil {
		second, secondErr = readCopy(device, first.size)
	} else {
		for at := int64(minSize); at <= maxSize && secondErr != nil; at *= 2 {
			second, secondErr = readCopy(device, at)
		}
	}
	switch {
	case err != nil && secondErr != nil:
		return Header{}, fmt.Errorf("read LUKS2 header: %w", err)
	case err != nil || secondErr == nil && second.sequence > first.sequence:
		first = second
	}
	h, err := parse(first.area)
	h.UUID = first.uuid
	if err != nil {
		return Header{}, fmt.Errorf("read LUKS2 header: %w", err)
	}
	return h, nil
}

// copyAt is one of the two copies of a header.
type copyAt struct {
	size     int64
	sequence uint64
	uuid     string
	// area is the JSON area without what fills it up.
	area []byte
}

// readCopy reads the copy of the header at an offset and verifies its checksum.
func readCopy(device io.ReaderAt, at int64) (copyAt, error) {
	binaryPart := make([]byte, binarySize)
	if _, err := device.ReadAt(binaryPart, at); err != nil {
		return copyAt{}, err
	}
	magic := "LUKS\xba\xbe"
	if at > 0 {
		magic = "SKUL\xba\xbe"
	}
	version, size := binary.BigEndian.Uint16(binaryPart[6:]), binary.BigEndian.Uint64(binaryPart[8:])
	switch {
	case string(binaryPart[:6]) != magic:
		return copyAt{}, errors.New("there is none at its place")
	case version != 2:
		return copyAt{}, fmt.Errorf("its version is %d", version)
	case size < minSize || size > maxSize || binary.BigEndian.Uint64(binaryPart[256:]) != uint64(at):
		return copyAt{}, errors.New("its size or its place is not one of a header")
	case text(binaryPart[72:104]) != "sha256":
		return copyAt{}, fmt.Errorf("its checksum is of the unknown kind %q", text(binaryPart[72:104]))
	}
	area := make([]byte, size-binarySize)
	if _, err := device.ReadAt(area, at+binarySize); err != nil {
		return copyAt{}, err
	}
	sum := [sha256.Size]byte(binaryPart[448 : 448+sha256.Size])
	clear(binaryPart[448:512])
	if sha256.Sum256(append(slices.Clone(binaryPart), area...)) != sum {
		return copyAt{}, errors.New("its checksum is wrong")
	}
	area, _, _ = bytes.Cut(area, []byte{0})
	return copyAt{size: int64(size), sequence: binary.BigEndian.Uint64(binaryPart[16:]), uuid: text(binaryPart[168:208]), area: area}, nil
}

// text is a field that ends at its first zero.
func text(field []byte) string {
	field, _, _ = bytes.Cut(field, []byte{0})
	return string(field)
}

// metadata is the JSON area, as far as it says what opens the device.
type metadata struct {
	Keyslots map[string]struct{ Type string }
	Tokens   map[string]json.RawMessage
	Digests  map[string]struct{ Keyslots, Segments []string }
}

func parse(area []byte) (Header, error) {
	var m metadata
	if err := json.Unmarshal(area, &m); err != nil {
		return Header{}, fmt.Errorf("parse its JSON area: %w", err)
	}
	if len(m.Digests) == 0 {
		return Header{}, errors.New("parse its JSON area: it has no digests")
	}
	opens := map[string]bool{} // a key that belongs to no segment opens nothing
	for _, d := range m.Digests {
		for _, slot := range d.Keyslots {
			opens[slot] = opens[slot] || len(d.Segments) > 0 && m.Keyslots[slot].Type == "luks2"
		}
	}
	var h Header
	named := map[string]bool{}
	for _, id := range slices.Sorted(maps.Keys(m.Tokens)) {
		var t struct {
			Type     string
			Keyslots []string
		}
		if err := json.Unmarshal(m.Tokens[id], &t); err != nil {
			return Header{}, fmt.Errorf("parse its token %s: %w", id, err)
		}
		useful := false
		for _, slot := range t.Keyslots {
			if _, is := m.Keyslots[slot]; !is {
				return Header{}, fmt.Errorf("parse its token %s: there is no keyslot %s", id, slot)
			}
			named[slot] = true
			useful = useful || opens[slot]
		}
		if !useful {
			continue
		}
		name := fmt.Sprintf("token %s (%s)", id, t.Type)
		w, err := parseToken(t.Type, m.Tokens[id])
		if err != nil {
			w, name = notUnderstood, fmt.Sprintf("token %s (%s: %v)", id, t.Type, err)
		}
		w.Name = name
		h.Ways = append(h.Ways, w)
	}
	for slot, is := range opens {
		if is && !named[slot] {
			h.Keys++
		}
	}
	return h, nil
}
