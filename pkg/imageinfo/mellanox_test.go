package imageinfo

import (
	"bytes"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func readBytes(t testing.TB, content []byte) ([]Firmware, error) {
	path := filepath.Join(t.TempDir(), "fw.bin")
	require.NoError(t, os.WriteFile(path, content, 0o600))
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	return Read(t.Context(), f)
}

// layouts are the ways in which an image says what it is.
var layouts = map[string]func(adapter) []byte{"FS3": adapter.fs3, "FS4": adapter.fs4, "FS4, encrypted": adapter.encrypted, "FS5": adapter.fs5}

func TestAnImageOfAnAdapterSaysItsVersionAndItsBoard(t *testing.T) {
	for layout, build := range layouts {
		for version, a := range map[string]adapter{
			"22.41.1000":   {[3]uint16{22, 41, 1000}, "MT_0000000436"},
			"12.28.0098":   {[3]uint16{12, 28, 98}, "DEL0000000004XYZ"}, // a PSID may fill its place
			"22.0141.1000": {[3]uint16{22, 141, 1000}, "MT_1"},
		} {
			got, err := readBytes(t, build(a))
			require.NoError(t, err, layout)
			assert.Equal(t, []Firmware{{Versions: []string{version}, Boards: []string{a.psid}}}, got, layout)
		}
	}
}

// The files are for tests of other packages.
func TestSharedImagesAreUpToDate(t *testing.T) {
	for name, want := range map[string][]byte{
		"fs3.bin":  adapter{[3]uint16{22, 41, 1000}, "MT_0000000436"}.fs3(),
		"fs5.bin":  adapter{[3]uint16{40, 43, 1014}, "MT_0000001069"}.fs5(),
		"nic.pldm": pldmOf(1, "bundle 4.80", []device{e810}, "4.80"),
		"bios.cap": fmpCapsuleOf(fmp{3, true, 0x02130100}.image()),
	} {
		if os.Getenv("UPDATE_GOLDEN") != "" {
			require.NoError(t, os.WriteFile("testdata/"+name, want, 0o600))
		}
		got, err := os.ReadFile("testdata/" + name)
		require.NoError(t, err)
		assert.Equal(t, want, got, name)
	}
}

// The pointers of some adapters have the checksum of whole words.
func TestOtherChecksumOfPointers(t *testing.T) {
	image := adapter{[3]uint16{40, 43, 1014}, "MT_0000001069"}.fs5()
	for i := range 16 {
		entry := image[fs4Pointers+8*i:][:8]
		if string(entry[:4]) != "\xff\xff\xff\xff" {
			binary.BigEndian.PutUint32(entry[4:], uint32(mlxSum(entry[:4])))
		}
	}
	got, err := readBytes(t, image)
	require.NoError(t, err)
	assert.Equal(t, []Firmware{{Versions: []string{"40.43.1014"}, Boards: []string{"MT_0000001069"}}}, got)
}

// The tool that flashes the adapter takes the image for one of that layout, and reads the same from it.
func TestTheRealToolReadsTheSame(t *testing.T) {
	tool, err := exec.LookPath("mstflint")
	if err != nil {
		t.Skip("mstflint is not installed here: what is read of an image is not compared with what the tool reads")
	}
	for layout, build := range layouts {
		if layout == "FS5" { // which this version of the tool does not know
			continue
		}
		for _, v := range [][3]uint16{{22, 41, 1000}, {12, 28, 98}, {22, 141, 1000}} {
			content := build(adapter{v, "MT_2190110032"})
			path := filepath.Join(t.TempDir(), "fw.bin")
			require.NoError(t, os.WriteFile(path, content, 0o600))
			out, err := exec.CommandContext(t.Context(), tool, "-i", path, "query").CombinedOutput()
			require.NoError(t, err, "%s: %s", layout, out)
			said := func(what string) string {
				found := regexp.MustCompile(`(?m)^` + what + `:\s+(\S+)$`).FindSubmatch(out)
				require.NotNil(t, found, "%s: no %s in %s", layout, what, out)
				return string(found[1])
			}
			assert.Equal(t, layout[:3], said("Image type"))
			got, err := readBytes(t, content)
			require.NoError(t, err)
			assert.Equal(t, []Firmware{{Versions: []string{said("FW Version")}, Boards: []string{said("PSID")}}}, got, layout)
			if layout == "FS4, encrypted" { // which it refuses to verify
				continue
			}
			out, err = exec.CommandContext(t.Context(), tool, "-i", path, "verify").CombinedOutput()
			require.NoError(t, err, "%s: %s", layout, out)
		}
	}
}

func TestDamagedAdapterImageFails(t *testing.T) {
	flip := func(at int) func([]byte) []byte {
		return func(b []byte) []byte { b[at]++; return b }
	}
	cut := func(to int) func([]byte) []byte {
		return func(b []byte) []byte { return b[:to] }
	}
	const second = tocPlace + mlxTOCHeader + mlxEntry // the entry of the section that says what the image is
	for name, tc := range map[string]struct {
		build  func(adapter) []byte
		change func([]byte) []byte
		says   string
	}{
		"FS3, another version":         {adapter.fs3, flip(infoPlace + 5), "the checksum of its section IMAGE_INFO"},
		"FS3, another board":           {adapter.fs3, flip(infoPlace + 0x24), "the checksum of its section IMAGE_INFO"},
		"FS3, another entry":           {adapter.fs3, flip(second + 0x16), "entry 1 of its table"},
		"FS3, another header":          {adapter.fs3, flip(tocPlace + 0x10), "the checksum of its table of contents"},
		"FS3, boot code without end":   {adapter.fs3, flip(fs3Boot + 4), "its boot code has 16777228 words"},
		"FS3, cut off in a section":    {adapter.fs3, cut(infoPlace + 0x100), "but has only 5376 bytes"},
		"FS3, cut off in the table":    {adapter.fs3, cut(tocPlace + mlxTOCHeader + 8), "but has only 4136 bytes"},
		"FS4, another version":         {adapter.fs4, flip(fs4InfoPlace + 5), "the checksum of its section IMAGE_INFO"},
		"FS4, another header":          {adapter.fs4, flip(tocPlace + 0x10), "the checksum of its table of contents"},
		"FS4, another pointer":         {adapter.fs4, flip(fs4Pointers + 8*fs4TOC + 3), "the checksum of its pointer 2"},
		"FS4, cut off in a section":    {adapter.fs4, cut(fs4InfoPlace + 8), "but has only 12296 bytes"},
		"FS4, encrypted and cut off":   {adapter.encrypted, cut(fs4InfoPlace + 8), "but has only 12296 bytes"},
		"FS4, encrypted, bad pointer":  {adapter.encrypted, flip(fs4Pointers + 8*fs4InfoPtr + 3), "the checksum of its pointer 10"},
		"FS5, another pointer":         {adapter.fs5, flip(fs4Pointers + 8*fs4TOC + 3), "the checksum of its pointer 2"},
		"FS5, cut off in a section":    {adapter.fs5, cut(fs4InfoPlace + 8), "but has only 12296 bytes"},
		"FS5, no more than its mark":   {adapter.fs5, cut(16), "but has only 16 bytes"},
		"FS3, a table without an end":  {adapter.fs3, sections(tocEntry{0x1, 0x1c00, 0x10, 0}, 70), "no end"},
		"FS3, two sections":            {adapter.fs3, sections(tocEntry{mlxInfo, infoPlace, mlxInfoSize, 0}, 2), "two sections IMAGE_INFO"},
		"FS3, a section of no size":    {adapter.fs3, sections(tocEntry{mlxInfo, infoPlace, 0x10, 0}, 1), "has 16 bytes"},
		"FS3, no more than its mark":   {adapter.fs3, cut(16), "but has only 16 bytes"},
		"FS4, no more than its mark":   {adapter.fs4, cut(16), "but has only 16 bytes"},
		"FS3, another table":           {adapter.fs3, flip(tocPlace), "no table of contents"},
		"FS3, cut off before a table":  {adapter.fs3, cut(tocPlace), "no table of contents"},
		"FS4, cut off before a table":  {noInfo, cut(tocPlace), "ends before its table of contents"},
		"FS4, a checksum in a section": {adapter.fs4, sections(tocEntry{mlxInfo, fs4InfoPlace, mlxInfoSize, byte(sumInSection)}, 1), "the checksum of its section IMAGE_INFO"},
	} {
		_, err := readBytes(t, tc.change(tc.build(adapter{[3]uint16{22, 41, 1000}, "MT_1"})))
		require.ErrorIs(t, err, ErrInvalid, name)
		assert.ErrorContains(t, err, tc.says, name)
	}
}

// noInfo has no pointer to the section that says what the image is.
func noInfo(a adapter) []byte {
	image := a.fs4()
	binary.BigEndian.PutUint32(image[fs4Pointers+8*fs4InfoPtr:], 0xffffffff)
	return image
}

// sections has a table of contents name the section of an entry, several times.
func sections(entry tocEntry, times int) func([]byte) []byte {
	return func(image []byte) []byte {
		entries := make([]tocEntry, times)
		for i := range entries {
			entries[i] = entry
		}
		putTOC(image, "ITOC", tocPlace, entries)
		return image
	}
}

// What is not known is not guessed.
func TestUnknownLayoutSaysNothing(t *testing.T) {
	set := func(at int, to byte) func([]byte) []byte {
		return func(b []byte) []byte { b[at] = to; return b }
	}
	for name, tc := range map[string]struct {
		build  func(adapter) []byte
		psid   string
		change func([]byte) []byte
	}{
		"FS2":                         {adapter.fs3, "MT_1", set(fs3VersionAt, 0)},
		"a later layout":              {adapter.fs4, "MT_1", set(fs4VersionAt, 3)},
		"FS5 without a pointer":       {adapter.fs5, "MT_1", func(b []byte) []byte { copy(b[fs4Pointers+8*fs4InfoPtr:], "\xff\xff\xff\xff"); return b }},
		"another mark":                {adapter.fs4, "MT_1", set(15, 0)},
		"FS3 without such a section":  {adapter.fs3, "MT_1", sections(tocEntry{0x1, 0x1c00, 0x10, 0}, 1)},
		"no version":                  {func(a adapter) []byte { a.version = [3]uint16{}; return a.fs4() }, "MT_1", set(0xf00, 0)},
		"no PSID":                     {adapter.fs4, "", set(0xf00, 0)},
		"a PSID with a blank":         {adapter.fs4, "MT 1", set(0xf00, 0)},
		"a PSID with a line break":    {adapter.encrypted, "MT_\n1", set(0xf00, 0)},
		"a section of a new version":  {adapter.encrypted, "MT_1", set(fs4InfoPlace, 1)},
		"encrypted without a pointer": {adapter.encrypted, "MT_1", func(b []byte) []byte { binary.BigEndian.PutUint32(b[fs4Pointers+8*fs4InfoPtr:], 0xffffffff); return b }},
	} {
		got, err := readBytes(t, tc.change(tc.build(adapter{[3]uint16{22, 41, 1000}, tc.psid})))
		require.NoError(t, err, name)
		assert.Empty(t, got, name)
	}
}

func FuzzMellanox(f *testing.F) {
	for _, build := range layouts {
		f.Add(build(adapter{[3]uint16{22, 41, 1000}, "MT_0000000436"}))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		for range 2 {
			got, err := mellanox(sized{bytes.NewReader(content), int64(len(content))})
			for _, firmware := range got {
				assert.NoError(t, err)
				assert.NotEmpty(t, firmware.Boards)
				assert.NotEmpty(t, firmware.Versions)
			}
			mend(content) // or few would get past the checksums
		}
	})
}

// mend makes the checksums right of what leads to the section that says what an image is.
func mend(image []byte) {
	if len(image) < tocPlace+mlxSector {
		return
	}
	be := binary.BigEndian
	for i := range 16 {
		entry := image[fs4Pointers+8*i:][:8]
		be.PutUint32(entry[4:], uint32(pointerSum(entry)))
	}
	toc := image[tocPlace:]
	copy(toc, mlxTOC)
	be.PutUint16(toc[mlxTOCHeader-2:], mlxSum(toc[:mlxTOCHeader-4]))
	for i := range 8 {
		entry := toc[mlxTOCHeader+i*mlxEntry:][:mlxEntry]
		be.PutUint16(entry[mlxEntry-2:], mlxSum(entry[:mlxEntry-4]))
	}
}
