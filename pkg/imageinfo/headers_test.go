package imageinfo

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	machineGUID = "230c8b18-8d9b-53ec-838b-6cfc0383493a"
	// rawGUID is how it stands in a file.
	rawGUID = "\x18\x8b\x0c\x23\x9b\x8d\xec\x53\x83\x8b\x6c\xfc\x03\x83\x49\x3a"
)

// capsuleOf is a capsule with a content.
func capsuleOf(guid string, content []byte) []byte {
	le := binary.LittleEndian
	out := le.AppendUint32([]byte(guid), 28)
	out = le.AppendUint32(out, 0x50000)
	out = le.AppendUint32(out, uint32(28+len(content)))
	return append(out, content...)
}

// fmp is what an image in a capsule is built of.
type fmp struct {
	layout  uint32
	signed  bool
	version uint32 // 0 for an image without a version
}

func (f fmp) image() []byte {
	le := binary.LittleEndian
	var content []byte
	if f.signed {
		content = le.AppendUint64(content, 1)
		content = le.AppendUint32(content, 24+100)
		content = append(content, fmpSigned...)
		content = append(content, make([]byte, 16+100)...)
	}
	if f.version > 0 {
		content = append(content, fmpPayload...)
		content = le.AppendUint32(le.AppendUint32(le.AppendUint32(content, 16), f.version), 1)
	}
	content = append(content, strings.Repeat("FIRMWARE", 20)...)
	out := le.AppendUint32(nil, f.layout)
	out = append(append(out, rawGUID...), 1, 0, 0, 0)
	out = le.AppendUint32(le.AppendUint32(out, uint32(len(content))), 0)
	out = append(out, make([]byte, 8*(f.layout-1))...)
	return append(out, content...)
}

// fmpCapsuleOf is a capsule with a driver and images.
func fmpCapsuleOf(images ...[]byte) []byte {
	le := binary.LittleEndian
	out := le.AppendUint16(le.AppendUint16(le.AppendUint32(nil, 1), 1), uint16(len(images)))
	at := 8 + 8*(1+len(images))
	out = le.AppendUint64(out, uint64(at))
	at += 6
	for _, image := range images {
		out = le.AppendUint64(out, uint64(at))
		at += len(image)
	}
	return capsuleOf(fmpCapsule, append(append(out, "DRIVER"...), bytes.Join(images, nil)...))
}

func TestCapsuleSaysItsGUIDAndVersion(t *testing.T) { // R001-16
	for name, tc := range map[string]struct {
		content []byte
		version string
	}{
		"signed":             {fmpCapsuleOf(fmp{3, true, 0x02130100}.image()), "2.19.1.0"},
		"not signed":         {fmpCapsuleOf(fmp{2, false, 0x02130100}.image()), "2.19.256"},
		"of the first form":  {fmpCapsuleOf(fmp{1, false, 0x00021301}.image()), "2.19.1"},
		"without a version":  {fmpCapsuleOf(fmp{3, true, 0}.image()), ""},
		"with two of one":    {fmpCapsuleOf(fmp{3, true, 7}.image(), fmp{3, true, 7}.image()), "7"},
		"of a machine's own": {capsuleOf(rawGUID, []byte("FIRMWARE")), ""},
	} {
		got, err := readBytes(t, tc.content)
		require.NoError(t, err, name)
		require.Len(t, got, 1, name)
		assert.Equal(t, []string{machineGUID}, got[0].Boards, name)
		assert.True(t, got[0].GUIDs, name)
		assert.Equal(t, tc.version == "", len(got[0].Versions) == 0, name)
		if tc.version != "" {
			assert.Contains(t, got[0].Versions, tc.version, name)
		}
	}
}

func TestDamagedCapsuleFails(t *testing.T) {
	good := fmpCapsuleOf(fmp{3, true, 7}.image())
	set := func(at int, to ...byte) []byte {
		out := bytes.Clone(good)
		copy(out[at:], to)
		return out
	}
	for name, tc := range map[string]struct {
		content []byte
		says    string
	}{
		"cut off":                 {good[:len(good)-1], "the capsule says that it has"},
		"its header only":         {good[:28], "the capsule says that it has"},
		"a header of no size":     {set(16, 4), "its header has 4 bytes"},
		"a header beyond it":      {set(16, 0xff, 0xff), "its header has 65535 bytes"},
		"many images":             {set(28+6, 0xff, 0xff), "65536 drivers and images"},
		"an image elsewhere":      {set(28+16, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff), "not within it"},
		"an image behind it":      {set(28+16, byte((len(good)-38)&0xff), byte((len(good)-38)>>8)), "refers to"},
		"an image longer than it": {set(28+8+16+6+24, 0xff, 0xff), "an image of the capsule ends at"},
	} {
		_, err := readBytes(t, tc.content)
		require.ErrorIs(t, err, ErrInvalid, name)
		assert.ErrorContains(t, err, tc.says, name)
	}
	for name, content := range map[string][]byte{
		"a later form of the header":   set(28, 2),
		"a capsule that wraps a BIOS":  capsuleOf("\x8b\xa6\x3c\x4a\x23\x77\xfb\x48\x80\x3d\x57\x8c\xc1\xfe\xc4\x4d", []byte("FIRMWARE")),
		"no capsule, by its size":      append(capsuleOf(rawGUID, []byte("FIRMWARE")), 0),
		"no capsule, by its flags":     func() []byte { b := capsuleOf(rawGUID, nil); b[23] = 0x80; return b }(),
		"no capsule, by its own GUID":  capsuleOf(strings.Repeat("\x00", 16), nil),
		"less than a capsule's header": []byte(rawGUID),
	} {
		got, err := readBytes(t, content)
		require.NoError(t, err, name)
		assert.Empty(t, got, name)
	}
}

// device is a record of a device in a PLDM package.
type device struct {
	version    string
	ids        map[uint16]uint16
	components byte
}

// pldmOf is a PLDM package in a revision of its header, with components of those versions.
func pldmOf(revision int, version string, devices []device, components ...string) []byte {
	le := binary.LittleEndian
	out := append([]byte(pldmUUIDs[revision-1]), byte(revision), 0, 0)
	out = append(out, make([]byte, 13)...)
	out = append(le.AppendUint16(out, 8), 1, byte(len(version)))
	out = append(append(out, version...), byte(len(devices)))
	for _, d := range devices {
		record := []byte{byte(len(d.ids)), 0, 0, 0, 0, 1, byte(len(d.version)), 3, 0}
		if revision == 4 {
			record = append(record, 2, 0, 0, 0)
		}
		record = append(append(record, d.components), d.version...)
		for _, kind := range slices.Sorted(func(yield func(uint16) bool) {
			for k := range d.ids {
				if !yield(k) {
					return
				}
			}
		}) {
			record = le.AppendUint16(le.AppendUint16(le.AppendUint16(record, kind), 2), d.ids[kind])
		}
		record = append(record, "pkg"...)
		if revision == 4 {
			record = append(record, "rm"...)
		}
		out = append(le.AppendUint16(out, uint16(len(record)+2)), record...)
	}
	if revision > 1 {
		out = append(out, 1, 6, 0, 'd', 'o', 'w', 'n')
	}
	out = le.AppendUint16(out, uint16(len(components)))
	for _, c := range components {
		out = append(append(out, make([]byte, 20)...), 1, byte(len(c)))
		out = append(out, c...)
		if revision > 2 {
			out = append(le.AppendUint32(out, 3), "opq"...)
		}
	}
	size := len(out) + 4
	if revision == 4 {
		size += 4
	}
	le.PutUint16(out[17:], uint16(size))
	out = le.AppendUint32(out, crc32.ChecksumIEEE(out))
	if revision == 4 {
		out = append(out, "sum2"...)
	}
	return append(out, strings.Repeat("FIRMWARE", 100)...)
}

var (
	e810 = device{"4.80 set", map[uint16]uint16{pldmVendor: 0x8086, pldmDevice: 0x1592, pldmSubsystemVendor: 0x8086, pldmSubsystem: 2}, 1}
	x710 = device{"9.50", map[uint16]uint16{pldmVendor: 0x8086, pldmDevice: 0x1572}, 2}
)

// Each device may name each component, and each component many versions.
func TestPLDMBoundsItsVersions(t *testing.T) {
	many := strings.Repeat("1 ", 127)
	_, err := readBytes(t, pldmOf(1, "1", slices.Repeat([]device{{"1", map[uint16]uint16{pldmVendor: 0x8086}, 0xff}}, 8), slices.Repeat([]string{many}, 8)...))
	assert.ErrorIs(t, err, ErrInvalid)
	assert.ErrorContains(t, err, "too many versions")
}

func TestPLDMSaysItsVersionsAndDevices(t *testing.T) { // R001-16
	for revision := 1; revision <= 4; revision++ {
		got, err := readBytes(t, pldmOf(revision, "bundle 30.1", []device{e810, x710}, "NVM-4.80.1", "9.50.7"))
		require.NoError(t, err, revision)
		assert.Equal(t, []Firmware{
			{
				Versions: []string{"30.1", "4.80", "4.80 set", "4.80.1", "NVM-4.80.1", "bundle 30.1"},
				PCI:      []PCIDevice{{"8086", "1592", "8086", "0002"}},
			},
			{Versions: []string{"30.1", "9.50", "9.50.7", "bundle 30.1"}, PCI: []PCIDevice{{Vendor: "8086", Device: "1572"}}},
		}, got, revision)
	}
	got, err := readBytes(t, pldmOf(1, "\xff\x00", []device{{"", nil, 0}}, "1"))
	require.NoError(t, err)
	assert.Equal(t, []Firmware{{}}, got, "what is not legible or not there says nothing")
}

func TestDamagedPLDMFails(t *testing.T) {
	good := pldmOf(2, "30.1", []device{e810, x710}, "4.80.1", "9.50.7")
	length := int(binary.LittleEndian.Uint16(good[17:]))
	sound := func(change func([]byte)) []byte { // with a checksum that is right
		out := bytes.Clone(good)
		change(out)
		n := int(binary.LittleEndian.Uint16(out[17:]))
		binary.LittleEndian.PutUint32(out[n-4:], crc32.ChecksumIEEE(out[:n-4]))
		return out
	}
	for name, tc := range map[string]struct {
		content []byte
		says    string
	}{
		"a flipped bit":          {func() []byte { b := bytes.Clone(good); b[40] ^= 1; return b }(), "checksum"},
		"cut off in its header":  {good[:length-1], "has only"},
		"its UUID only":          {good[:28], "has only"},
		"a header of no size":    {func() []byte { b := bytes.Clone(good); b[17], b[18] = 4, 0; return b }(), "checksum"},
		"a long version":         {sound(func(b []byte) { b[35] = 0xff }), "it ends too early"},
		"many devices":           {sound(func(b []byte) { b[36+4] = 0xff }), "it ends too early"},
		"a record of no size":    {sound(func(b []byte) { b[36+5], b[36+6] = 1, 0 }), "it ends too early"},
		"a record with too much": {sound(func(b []byte) { b[36+7] = 60 }), "it ends too early"},
		"many components":        {sound(func(b []byte) { i := bytes.Index(b, []byte("down")); b[i+4] = 3 }), "it ends too early"},
	} {
		_, err := readBytes(t, tc.content)
		require.ErrorIs(t, err, ErrInvalid, name)
		assert.ErrorContains(t, err, tc.says, name)
	}
}

func FuzzHeaders(f *testing.F) {
	f.Add(fmpCapsuleOf(fmp{3, true, 7}.image(), fmp{1, false, 7}.image()))
	f.Add(capsuleOf(rawGUID, []byte("FIRMWARE")))
	for revision := 1; revision <= 4; revision++ {
		f.Add(pldmOf(revision, "30.1", []device{e810, x710}, "4.80.1", "9.50.7"))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		image := sized{bytes.NewReader(content), int64(len(content))}
		if revision := pldmRevision(content); revision > 0 && len(content) > pldmBegin {
			n := min(len(content), 1<<16-1) // or few would get past the checksum
			binary.LittleEndian.PutUint16(content[17:], uint16(n))
			binary.LittleEndian.PutUint32(content[n-4:], crc32.ChecksumIEEE(content[:n-4]))
			_, err := image.pldm()
			if err != nil {
				assert.ErrorIs(t, err, ErrInvalid)
			}
		}
		if image.isCapsule(content) {
			got, err := image.capsule(content[:capsuleHeader])
			assert.LessOrEqual(t, len(got), fmpMostItems)
			if err != nil {
				assert.ErrorIs(t, err, ErrInvalid)
			}
		}
	})
}
