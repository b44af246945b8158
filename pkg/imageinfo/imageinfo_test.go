package imageinfo

import (
	"bytes"
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

// fwupd spells such a version in another way, which depends on the vendor.
func TestNumericVersionNotCompared(t *testing.T) {
	for _, v := range []string{"131073", "0x20001", ""} {
		got, err := metainfo(strings.NewReader(strings.Replace(good, "1.2.3", v, 1)))
		require.NoError(t, err)
		assert.Empty(t, got.Versions, v)
		assert.NotEmpty(t, got.Boards)
	}
}

func FuzzMetainfo(f *testing.F) {
	f.Add(good)
	f.Fuzz(func(t *testing.T, text string) {
		got, err := metainfo(strings.NewReader(text))
		assert.True(t, err != nil || len(got.Boards) > 0)
	})
}
