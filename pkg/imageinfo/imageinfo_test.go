package imageinfo

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func read(t *testing.T, path string) ([]Firmware, error) {
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	return Read(t.Context(), f)
}

// testdata/fwupd.cab was made with gcab -c -z.
func TestACabinetSaysWhatItIsFor(t *testing.T) {
	got, err := read(t, "testdata/fwupd.cab")
	require.NoError(t, err)
	assert.Equal(t, []Firmware{{Versions: []string{"2.19.1"}, Boards: []string{"230c8b18-8d9b-53ec-838b-6cfc0383493a", "3db22676-3287-51ae-9d3d-1a7f7eb9cf91"}, GUIDs: true}}, got)
}

func TestOtherFormatSaysNothing(t *testing.T) {
	for _, content := range []string{"", "x", strings.Repeat("firmware", 100)} {
		path := filepath.Join(t.TempDir(), "image")
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		got, err := read(t, path)
		require.NoError(t, err)
		assert.Empty(t, got)
	}
}

// A vendor's own tool may take a cabinet too, which need not be compressed as fwupd reads it.
func TestForeignCabinetSaysNothing(t *testing.T) {
	mszip, err := os.ReadFile("../unpack/testdata/mszip.cab")
	require.NoError(t, err)
	lzx := bytes.Clone(mszip)
	lzx[36+6] = 3 // typeCompress of its only folder ([MS-CAB] 2.2)
	for name, content := range map[string][]byte{"MSZIP": mszip, "LZX": lzx} {
		path := filepath.Join(t.TempDir(), "image")
		require.NoError(t, os.WriteFile(path, content, 0o600))
		got, err := read(t, path)
		require.NoError(t, err, name)
		assert.Empty(t, got, name)
	}
}

func TestADamagedCabinetIsAnError(t *testing.T) {
	whole, err := os.ReadFile("testdata/fwupd.cab")
	require.NoError(t, err)
	vendors, err := os.ReadFile("../unpack/testdata/mszip.cab")
	require.NoError(t, err)
	flipped, lzx := bytes.Clone(whole), bytes.Clone(whole)
	flipped[len(flipped)-5] ^= 1
	lzx[36+6] = 3
	for name, content := range map[string][]byte{
		"cut off": whole[:len(whole)-20], "of a vendor, cut off": vendors[:len(vendors)-20], "its magic only": []byte("MSCF"),
		"a flipped bit": flipped, "a compression that fwupd does not read": lzx,
	} {
		path := filepath.Join(t.TempDir(), "image")
		require.NoError(t, os.WriteFile(path, content, 0o600))
		_, err := read(t, path)
		require.ErrorIs(t, err, ErrInvalid, name)
	}
}

// packedCabinet is a cabinet of so many folders, each of a description in blocks of MSZIP. Where they overlap, all have the same blocks.
func packedCabinet(t *testing.T, folders, size int, overlap bool) []byte {
	t.Helper()
	le := binary.LittleEndian
	var blocks bytes.Buffer
	noise := make([]byte, size/2)
	_, err := rand.NewChaCha8([32]byte{}).Read(noise)
	require.NoError(t, err)
	text := "<!--" + hex.EncodeToString(noise)[:size-len(good)-7] + "-->" + good
	count := 0
	for before := ""; len(text) > 0; count++ {
		block := text[:min(len(text), 32<<10)]
		var packed bytes.Buffer
		w, err := flate.NewWriterDict(&packed, flate.BestCompression, []byte(before))
		require.NoError(t, err)
		_, err = w.Write([]byte(block))
		require.NoError(t, err)
		require.NoError(t, w.Close())
		blocks.Write(le.AppendUint16(le.AppendUint16(le.AppendUint32(nil, 0), uint16(packed.Len()+2)), uint16(len(block))))
		blocks.WriteString("CK")
		blocks.Write(packed.Bytes())
		before, text = block, text[len(block):]
	}
	data := 36 + folders*8
	var files bytes.Buffer
	for i := range folders {
		files.Write(append(le.AppendUint16(le.AppendUint32(le.AppendUint32(nil, uint32(size)), 0), uint16(i)), make([]byte, 6)...))
		fmt.Fprintf(&files, "%d.metainfo.xml\x00", i)
	}
	at := data + files.Len()
	out := append([]byte("MSCF"), make([]byte, 32)...)
	le.PutUint32(out[16:], uint32(data))
	out[24], out[25] = 3, 1
	le.PutUint16(out[26:], uint16(folders))
	le.PutUint16(out[28:], uint16(folders))
	for i := range folders {
		place := at
		if !overlap {
			place += i * blocks.Len()
		}
		out = le.AppendUint16(le.AppendUint16(le.AppendUint32(out, uint32(place)), uint16(count)), 1)
	}
	out = append(out, files.Bytes()...)
	if overlap {
		folders = 1
	}
	out = append(out, bytes.Repeat(blocks.Bytes(), folders)...)
	le.PutUint32(out[8:], uint32(len(out)))
	return out
}

// What is unpacked and read of a cabinet is bounded by its own bytes, and by a bound of its own: a small file must not keep the operator busy.
func TestCabinetIsReadQuickly(t *testing.T) {
	for name, tc := range map[string]struct {
		folders, size int
		overlap       bool
		says          string
	}{
		"two descriptions":          {2, 100_000, false, ""},
		"many folders of one place": {2000, 5000, true, "the folders of the cabinet overlap"},
		"many large descriptions":   {20, 1 << 20, false, "read 16.metainfo.xml: EOF"},
	} {
		path := filepath.Join(t.TempDir(), "image")
		require.NoError(t, os.WriteFile(path, packedCabinet(t, tc.folders, tc.size, tc.overlap), 0o600))
		got, err := read(t, path)
		if tc.says == "" {
			require.NoError(t, err, name)
			assert.Len(t, got, tc.folders)
			continue
		}
		require.ErrorIs(t, err, ErrInvalid, name)
		assert.ErrorContains(t, err, tc.says, name)
	}
}

const good = `<component type="firmware"><provides><firmware type="flashed">230c8b18-8d9b-53ec-838b-6cfc0383493a</firmware></provides><releases><release version="1.2.3"/></releases></component>`

func TestMetainfoThatDoesNotSayWhatItIsForIsRefused(t *testing.T) {
	_, err := metainfo(strings.NewReader(good))
	require.NoError(t, err)
	for name, tc := range map[string]struct{ old, with, says string }{
		"invalid XML":          {"</releases>", "", "syntax error"},
		"no firmware":          {`type="firmware"`, `type="desktop"`, "not firmware"},
		"no GUID at all":       {"230c8b18-8d9b-53ec-838b-6cfc0383493a", "main", "no GUID"},
		"none":                 {"<provides>", "<x/><provides>", ""},
		"an entity of its own": {"1.2.3", "&v;", "entity"},
		"no release":           {`<release version="1.2.3"/>`, "", "no release"},
		"another root":         {"component", "html", "expected element type"},
		"nothing":              {good, "", "EOF"},
	} {
		text := strings.ReplaceAll(good, tc.old, tc.with)
		_, err := metainfo(strings.NewReader(text))
		if tc.says == "" {
			require.NoError(t, err, name)
			continue
		}
		require.ErrorContains(t, err, tc.says, name)
	}
	bomb := `<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;">]>` + strings.Replace(good, "1.2.3", "&b;", 1)
	_, err = metainfo(strings.NewReader(bomb))
	require.ErrorContains(t, err, "entity")
}

// A release that is a number is known by each spelling that fwupd may give it, or by the one that is declared.
func TestNumericVersionIsSpelled(t *testing.T) { // R001-16
	declared := func(format string) string {
		return `<custom><value key="LVFS::VersionFormat">` + format + `</value></custom></component>`
	}
	for name, tc := range map[string]struct {
		version, custom string
		has, lacks      []string
	}{
		"a number":            {"131073", "</component>", []string{"131073", "0x00020001", "2.1", "0.2.1", "0.2.0.1"}, []string{"2.0.1.0"}},
		"in hexadecimal":      {"0x20001", "</component>", []string{"0x20001", "131073", "2.1", "0.2.1", "2.0.1"}, nil},
		"with its format":     {"131073", declared("triplet"), []string{"131073", "0x00020001", "0.2.1"}, []string{"2.1", "0.2.0.1"}},
		"with an unknown one": {"131073", declared("new"), []string{"131073", "2.1", "0.2.1"}, nil},
		"with a plain one":    {"131073", declared("plain"), []string{"131073", "2.1"}, nil},
		"more than 32 bits":   {"4294967296", "</component>", []string{"4294967296"}, []string{"0.0"}},
		"nothing":             {"", "</component>", nil, []string{""}},
		"a version, with one": {"1.2.3", declared("triplet"), []string{"1.2.3"}, []string{"131073"}},
	} {
		text := strings.Replace(strings.Replace(good, "1.2.3", tc.version, 1), "</component>", tc.custom, 1)
		got, err := metainfo(strings.NewReader(text))
		require.NoError(t, err, name)
		assert.Subset(t, got.Versions, tc.has, name)
		for _, v := range tc.lacks {
			assert.NotContains(t, got.Versions, v, name)
		}
		assert.NotEmpty(t, got.Boards)
	}
}

// fwupd installs the release that is listed first. Those below it are the history, and say nothing of what is in the cabinet.
func TestFirstReleaseCounts(t *testing.T) {
	for name, tc := range map[string]struct{ before, after, want string }{
		"alone":                         {"", "", "1.2.3"},
		"above older ones":              {"", `<release version="1.2.2"/><release version="1.2.0"/>`, "1.2.3"},
		"above an older number":         {"", `<release version="131073"/>`, "1.2.3"},
		"below a newer number":          {`<release version="8"/>`, "", "8 0x00000008 0.8 0.0.8 0.0.0.8 00.08 11.0.0.8 19.0.0.8"},
		"below one that sorts below it": {`<release version="1.2.0"/>`, "", "1.2.0"},
	} {
		text := strings.Replace(good, "<releases>", "<releases>"+tc.before, 1)
		got, err := metainfo(strings.NewReader(strings.Replace(text, "</releases>", tc.after+"</releases>", 1)))
		require.NoError(t, err, name)
		want := strings.Fields(tc.want)
		assert.Subset(t, got.Versions, want, name)
		assert.Equal(t, want[0], got.Versions[0], name)
		assert.NotContains(t, got.Versions[1:], "1.2.3", name)
	}
}

func FuzzMetainfo(f *testing.F) {
	f.Add(good)
	f.Fuzz(func(t *testing.T, text string) {
		got, err := metainfo(strings.NewReader(text))
		assert.True(t, err != nil || len(got.Boards) > 0)
	})
}
