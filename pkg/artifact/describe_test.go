package artifact

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/imageinfo"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

func TestAnImageIsWhatItSaysItIs(t *testing.T) { // R001-16
	cab, err := os.ReadFile("../imageinfo/testdata/fwupd.cab")
	require.NoError(t, err)
	nicImage, err := os.ReadFile("../imageinfo/testdata/fs3.bin")
	require.NoError(t, err)
	bios := func(version string, boards ...string) Description {
		return Description{Class: inventory.BIOS, Version: inventory.Version(version), BoardIDs: boards}
	}
	member := bios("2.19.1", "00000000-0000-0000-0000-000000000000")
	member.Path = "fw.cab"
	shared := func(name string) []byte {
		content, err := os.ReadFile("../imageinfo/testdata/" + name)
		require.NoError(t, err)
		return content
	}
	pci := func(version, vendor string, models ...string) Description {
		return Description{Class: inventory.NIC, Version: inventory.Version(version), Vendor: vendor, Models: models}
	}
	numbered := cabinetOf("fw.metainfo.xml", `<component type="firmware"><provides><firmware type="flashed">230c8b18-8d9b-53ec-838b-6cfc0383493a</firmware></provides>`+
		`<releases><release version="34799872"/></releases></component>`)
	for name, tc := range map[string]struct {
		content []byte
		images  Description
		says    string
	}{
		"a cabinet with a number":             {numbered, bios("2.19.1.0"), ""},
		"a number that stands for another":    {numbered, bios("2.18.1"), "says that it is version 34799872, 0x02130100, 531.256, 2.19.256, 2.19.1.0, ..., and the source says 2.18.1"},
		"a capsule":                           {shared("bios.cap"), bios("2.19.1.0"), ""},
		"a capsule of another version":        {shared("bios.cap"), bios("2.18.1"), "says that it is version 34799872"},
		"a capsule of a text":                 {shared("bios.cap"), bios("U30 v2.76"), ""},
		"a capsule for another machine":       {shared("bios.cap"), bios("2.19.1.0", "00000000-0000-0000-0000-000000000000"), "says that it is for 230c8b18"},
		"a PLDM package":                      {shared("nic.pldm"), pci("4.80", "8086", "1592"), ""},
		"a PLDM package for a board":          {shared("nic.pldm"), nic("", "4.80", "K91258-006"), ""},
		"a PLDM package by names":             {shared("nic.pldm"), pci("4.80", "Intel Corporation", "E810-C"), ""},
		"a PLDM package of another version":   {shared("nic.pldm"), pci("4.70", "8086", "1592"), "says that it is version 4.80, 4.80 set, bundle 4.80, and the source says 4.70"},
		"a PLDM package of another device":    {shared("nic.pldm"), pci("4.80", "8086", "1592", "1593"), "says that it is for PCI devices 8086:1592, and the source says for 1593"},
		"a PLDM package of another vendor":    {shared("nic.pldm"), pci("4.80", "15B3", "1592"), "and the source says for 15B3"},
		"an image of the newest adapters":     {shared("fs5.bin"), nic("", "40.43.1014", "MT_0000001069"), ""},
		"of the newest, of another version":   {shared("fs5.bin"), nic("", "40.44.1014", "MT_0000001069"), "says that it is version 40.43.1014"},
		"of the newest adapters, for another": {shared("fs5.bin"), nic("", "40.43.1014", "MT_0000000436"), "says that it is for MT_0000001069"},
		"the right one":                       {cab, bios("2.19.1", "230C8B18-8D9B-53EC-838B-6CFC0383493A"), ""},
		"for any board":                       {cab, bios("2.19.1"), ""},
		"another version":                     {cab, bios("2.19.0"), "says that it is version 2.19.1, and the source says 2.19.0"},
		"a foreign GUID":                      {cab, bios("2.19.1", "00000000-0000-0000-0000-000000000000"), "says that it is for 230c8b18"},
		"a foreign GUID beside a good one":    {cab, bios("2.19.1", "230c8b18-8d9b-53ec-838b-6cfc0383493a", "00000000-0000-0000-0000-000000000000"), "the source says for 00000000"},
		"the machine's board by its name":     {cab, bios("2.19.1", "0H28RR"), ""},
		"its name beside a foreign GUID":      {cab, bios("2.19.1", "0H28RR", "00000000-0000-0000-0000-000000000000"), "the source says for 00000000"},
		"damaged":                             {cab[:len(cab)-9], bios("2.19.1"), "cut off"},
		"a member of an archive":              {tarOf(t, "fw.cab", string(cab)), member, "fw.cab says that it is for"},
		"an image that says nothing":          {[]byte("raw"), bios("2.19.1", "230c8b18-8d9b-53ec-838b-6cfc0383493a"), ""},
		"an adapter's image":                  {nicImage, nic("", "22.41.1000", "MT_0000000436"), ""},
		"of another version":                  {nicImage, nic("", "22.39.1002", "MT_0000000436"), "says that it is version 22.41.1000, and the source says 22.39.1002"},
		"for another card":                    {nicImage, nic("", "22.41.1000", "MT_0000000359"), "says that it is for MT_0000000436, and the source says for MT_0000000359"},
		"for one card of two":                 {nicImage, nic("", "22.41.1000", "MT_0000000436", "MT_0000000359"), "the source says for MT_0000000359"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShop(t)
			_, err := s.publish("src", s.file("a", tc.content, tc.images))
			if tc.says == "" {
				require.NoError(t, err)
				return
			}
			reason, again := ReasonOf(err)
			assert.Equal(t, ImageMismatch, reason, "%v", err)
			assert.False(t, again)
			assert.ErrorContains(t, err, tc.says)
			stored, err := filepath.Glob(filepath.Join(s.root, "blobs", "*"))
			require.NoError(t, err)
			assert.Empty(t, stored)
		})
	}
}

// What an image says counts where the source says nothing, also after a restart.
func TestAnImageIsOfferedForTheBoardsThatItNamesItself(t *testing.T) { // R001-16
	s := newShop(t)
	var files []File
	for name, class := range map[string]inventory.Class{"fs3.bin": inventory.NIC, "fwupd.cab": inventory.BIOS} {
		content, err := os.ReadFile("../imageinfo/testdata/" + name)
		require.NoError(t, err)
		version := map[inventory.Class]inventory.Version{inventory.NIC: "22.41.1000", inventory.BIOS: "2.19.1"}[class]
		files = append(files, s.file(name, content, Description{Class: class, Version: version}))
	}
	boards := map[inventory.Class][]string{
		inventory.NIC:  {"MT_0000000436"},
		inventory.BIOS: {"230c8b18-8d9b-53ec-838b-6cfc0383493a", "3db22676-3287-51ae-9d3d-1a7f7eb9cf91"},
	}
	for range 2 {
		images, err := s.publish("src", files...)
		require.NoError(t, err)
		require.Len(t, images, 2)
		for _, i := range images {
			assert.Equal(t, boards[i.Class], i.BoardIDs)
		}
		s.reopen()
	}
	assert.DirExists(t, filepath.Join(s.root, "sources", "src", "firmware-binaries", "22.41.1000", "MT_0000000436"))

	// A drive is known by another id than its GUIDs, and so is a machine whose firmware fwupd does not list: the source names its model.
	cab, err := os.ReadFile("../imageinfo/testdata/fwupd.cab")
	require.NoError(t, err)
	for _, class := range []inventory.Class{inventory.Disk, inventory.BIOS} {
		images, err := s.publish("model-"+strings.ToLower(string(class)), s.file("model.cab", cab, Description{Class: class, Version: "2.19.1", Models: []string{"R650"}}))
		require.NoError(t, err)
		assert.Empty(t, images[0].BoardIDs, class)
	}
}

// What an image does not say itself, its source has to say.
func TestAnImageOfWhichNobodySaysForWhatItIsIsNotStored(t *testing.T) { // R001-16
	cab, err := os.ReadFile("../imageinfo/testdata/fwupd.cab")
	require.NoError(t, err)
	vendors := cabinetOf("setup.exe", "raw")
	bare := Description{Class: inventory.BIOS, Version: "2.19.1"}
	disk, member, model, maker, every := bare, bare, bare, bare, bare
	disk.Class = inventory.Disk
	member.Path = "raw.bin"
	model.Models = []string{"R650"}
	maker.Vendor, every.Vendor = "Dell Inc.", "Any."
	for name, tc := range map[string]struct {
		content []byte
		image   Description
		refused bool
	}{
		"a raw image":                      {[]byte("raw"), bare, true},
		"a raw image for a model":          {[]byte("raw"), model, false},
		"a raw image of a vendor":          {[]byte("raw"), maker, true},
		"a raw image for every machine":    {[]byte("raw"), every, false},
		"a cabinet":                        {cab, bare, false},
		"a cabinet for a drive":            {cab, disk, true},
		"a vendor's cabinet":               {vendors, bare, true},
		"a vendor's cabinet for a model":   {vendors, model, false},
		"one image of an archive":          {zipOf(t, "raw.bin", "raw"), member, true},
		"an adapter's image of new layout": {[]byte("MTFW and what nobody knows"), Description{Class: inventory.NIC, Version: "1"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShop(t)
			f := s.file("a", tc.content, tc.image)
			_, err := s.publish("src", f)
			if !tc.refused {
				require.NoError(t, err)
				return
			}
			reason, again := ReasonOf(err)
			assert.Equal(t, BoardsUnknown, reason, "%v", err)
			assert.False(t, again)
			assert.ErrorContains(t, err, "name boardIDs or models in the source")
			assert.Empty(t, s.everything())
		})
	}

	// An edit may take away what was said, and an operator of before did not ask.
	s := newShop(t)
	f := s.file("a", []byte("raw"), model)
	_, err = s.publish("src", f)
	require.NoError(t, err)
	f.Images = []Description{bare}
	_, err = s.publish("src", f)
	reason, _ := ReasonOf(err)
	assert.Equal(t, BoardsUnknown, reason)
	assert.Empty(t, s.store.InStore("src", []File{f}))
}

// What can be told by its beginning is not stored as something else.
func TestLiesOfImagesAreRefused(t *testing.T) { // R001-16
	fs3, err := os.ReadFile("../imageinfo/testdata/fs3.bin")
	require.NoError(t, err)
	cab, err := os.ReadFile("../imageinfo/testdata/fwupd.cab")
	require.NoError(t, err)
	every := []inventory.Class{inventory.NIC, inventory.StorageController, inventory.Disk, inventory.BIOS}
	var none []inventory.Class
	raw := func(begin string) []byte { return append([]byte(begin), make([]byte, 600)...) }
	for name, tc := range map[string]struct {
		content []byte
		fits    []inventory.Class
		says    string
	}{
		"an image of an adapter":              {fs3, []inventory.Class{inventory.NIC}, "is an image of a Mellanox adapter, and the source says"},
		"an image of an adapter, cut off":     {fs3[:0x1600], none, "refers to"},
		"the head of an image of an adapter":  {fs3[:24], none, "has only 24 bytes"},
		"an archive for adapters":             {raw("MLNX.MFA2.XZ.00!"), []inventory.Class{inventory.NIC}, "an archive of images of Mellanox adapters"},
		"a capsule":                           {raw("\xed\xd5\xcb\x6d\x2d\xe8\x44\x4c\xbd\xa1\x71\x94\x19\x9a\xd9\x2a\x1c\x00\x00\x00\x00\x00\x00\x00\x74\x02\x00\x00"), []inventory.Class{inventory.BIOS}, "is a UEFI capsule"},
		"a capsule, cut off":                  {raw("\xed\xd5\xcb\x6d\x2d\xe8\x44\x4c\xbd\xa1\x71\x94\x19\x9a\xd9\x2a\x1c\x00\x00\x00\x00\x00\x00\x00\x75\x02\x00\x00"), none, "the capsule says that it has 629 bytes, but has only 628"},
		"a bundle for BlueField":              {raw("Bf\x02\x13"), []inventory.Class{inventory.NIC}, "is a BlueField bundle (BFB), and the source says"},
		"a Debian package":                    {raw("!<arch>\ndebian-binary"), none, "begins like a Debian package"},
		"a firmware volume":                   {raw(strings.Repeat("\x00", 40) + "_FVH"), []inventory.Class{inventory.BIOS}, "is a UEFI firmware volume"},
		"a cabinet":                           {cab, every, ""},
		"a page":                              {[]byte("<!DOCTYPE html>\n<html><body>404</body></html>"), none, "begins like an HTML page"},
		"a page after blanks":                 {[]byte("\ufeff\r\n\t <!doctype\nHTML PUBLIC"), none, "begins like an HTML page"},
		"a bare page":                         {[]byte("<HTML lang=en>"), none, "begins like an HTML page"},
		"an answer of a bucket":               {[]byte(`<?xml version="1.0" encoding="UTF-8"?><Error><Code>AccessDenied</Code></Error>`), none, "begins like an XML document"},
		"an answer of an API":                 {[]byte(`{"message":"Not Found"}`), none, "begins like a JSON document"},
		"a list of an API":                    {[]byte("[\n  {\n    \"name\": \"fw.bin\"}]"), none, "begins like a JSON document"},
		"a document":                          {raw("%PDF-1.7\n%\xe2\xe3"), none, "begins like a PDF document"},
		"a key":                               {[]byte("-----BEGIN PUBLIC KEY-----\nMFkw"), none, "in PEM"},
		"a signature":                         {[]byte("-----BEGIN PGP SIGNATURE-----\n"), none, "in PEM"},
		"bzip2":                               {raw("BZh91AY&SY"), none, "begins like a file of bzip2"},
		"7z":                                  {raw("7z\xbc\xaf\x27\x1c"), none, "begins like a 7z archive"},
		"rar":                                 {raw("Rar!\x1a\x07\x01"), none, "begins like a rar archive"},
		"an image that nobody knows":          {raw("\x55\xaa"), every, ""},
		"a new layout":                        {[]byte("MTFW and what nobody knows"), every, ""},
		"a program, which a profile may run":  {raw("\x7fELF\x02"), every, ""},
		"a script, which a profile may run":   {[]byte("#!/bin/sh\ncat <<E\n<html>\n"), every, ""},
		"an image that begins with a brace":   {raw(`{"`), every, ""},
		"a text that is no page":              {[]byte("{ firmware }"), every, ""},
		"a mark of a volume in another place": {raw(strings.Repeat("\x00", 39) + "_FVH"), every, ""},
	} {
		for _, class := range every {
			s := newShop(t)
			f := s.file("a", tc.content, Description{Class: class, Version: "2.19.1", Models: []string{"R650"}})
			if name == "an image of an adapter" {
				f.Images[0].Version = "22.41.1000"
			}
			_, err := s.publish("src", f)
			if slices.Contains(tc.fits, class) {
				require.NoError(t, err, "%s for %s", name, class)
				continue
			}
			reason, again := ReasonOf(err)
			assert.Equal(t, ImageMismatch, reason, "%s for %s: %v", name, class, err)
			assert.False(t, again)
			require.ErrorContains(t, err, tc.says, name)
			assert.Empty(t, s.everything())
		}
	}

	s := newShop(t)
	f := s.file("a", fs3, Description{Class: inventory.NIC, Version: "22.41.1000"})
	_, err = s.publish("src", f)
	require.NoError(t, err)
	f.Images[0].Class = inventory.Disk
	_, err = s.publish("src", f)
	require.ErrorContains(t, err, "and the source says Disk", "an edit is compared with what is in store")
	member := s.file("a.zip", zipOf(t, "fw.bin", "<html>"), Description{Path: "fw.bin", Class: inventory.Disk, Version: "1", Models: []string{"x"}})
	_, err = s.publish("other", member)
	require.ErrorContains(t, err, "fw.bin begins like an HTML page")
}

// A file that is in store is not fetched again for an edit of what its images are, and the edit may be wrong as well.
func TestComparesEditWithStore(t *testing.T) { // R001-16
	for name, tc := range map[string]struct {
		file, as string
		image    Description
		edit     func(*Description)
		says     string
	}{
		"another version": {"fs3.bin", "a.bin", nic("", "22.41.1000", "MT_0000000436"), func(d *Description) { d.Version = "22.42.1000" },
			"says that it is version 22.41.1000, and the source says 22.42.1000"},
		"another board": {"fs3.bin", "a.bin", nic("", "22.41.1000", "MT_0000000436"), func(d *Description) { d.BoardIDs = []string{"MT_0000000359"} },
			"says that it is for MT_0000000436, and the source says for MT_0000000359"},
		"an archive for another board": {"fwupd.cab", "a.cab", Description{Class: inventory.BIOS, Version: "2.19.1", Models: []string{"R650"}},
			func(d *Description) { d.BoardIDs = []string{"00000000-0000-0000-0000-000000000000"} }, "and the source says for 00000000"},
		"the same in other words": {"fs3.bin", "a.bin", nic("", "22.41.1000", "MT_0000000436"), func(d *Description) { d.BoardIDs, d.Models = nil, []string{"101d"} }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			content, err := os.ReadFile("../imageinfo/testdata/" + tc.file)
			require.NoError(t, err)
			s := newShop(t)
			f := s.file(tc.as, content, tc.image)
			_, err = s.publish("src", f)
			require.NoError(t, err)
			edited := tc.image
			tc.edit(&edited)
			f.Images = []Description{edited}
			_, err = s.publish("src", f)
			if tc.says == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tc.says)
			reason, again := ReasonOf(err)
			assert.Equal(t, ImageMismatch, reason)
			assert.False(t, again)
			assert.Empty(t, s.store.InStore("src", []File{f}), "it is offered as nothing that it is not")
		})
	}
}

// A file may hold the firmware of several boards in several versions.
func TestBoardGetsOnlyItsVersion(t *testing.T) { // R001-16
	said := []imageinfo.Firmware{
		{Versions: []string{"1"}, Boards: []string{"b", "a"}}, {Versions: []string{"2", "1"}, Boards: []string{"b"}}, {Versions: []string{"3"}, Boards: []string{"c"}},
	}
	assert.Equal(t, []string{"a", "b"}, boardsOf(nic("", "1"), said))
	assert.Equal(t, []string{"b"}, boardsOf(nic("", "2"), said))
	assert.Equal(t, []string{"X"}, boardsOf(nic("", "2", "X"), said), "the source may name fewer")
	assert.Empty(t, boardsOf(nic("", "1"), nil))
}

func TestAnImageThatNamesTooManyBoardsIsRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		guids    int
		declared []string
		says     string
	}{
		"as many as a device may be compared with": {guids: 64},
		"more":                          {guids: 65, says: "is for 65 boards, the limit is 64"},
		"more, and the source names it": {guids: 65, declared: []string{"00000000-0000-0000-0000-000000000007"}},
		"very many":                     {guids: 1024, declared: []string{"00000000-0000-0000-0000-000000000007"}, says: "names 1025 boards and versions"},
	} {
		t.Run(name, func(t *testing.T) {
			var guids strings.Builder
			for i := range tc.guids {
				fmt.Fprintf(&guids, `<firmware type="flashed">00000000-0000-0000-0000-%012x</firmware>`, i)
			}
			content := cabinetOf("a.metainfo.xml", fmt.Sprintf(`<component type="firmware"><provides>%s</provides><releases><release version="1.0.0"/></releases></component>`, &guids))
			s := newShop(t)
			images, err := s.publish("src", s.file("a.cab", content, Description{Class: inventory.BIOS, Version: "1.0.0", BoardIDs: tc.declared}))
			if tc.says == "" {
				require.NoError(t, err)
				assert.NotEmpty(t, images[0].BoardIDs)
				return
			}
			reason, _ := ReasonOf(err)
			assert.Equal(t, ImageMismatch, reason)
			assert.ErrorContains(t, err, tc.says)
			assert.Empty(t, s.everything())
		})
	}
}

// cabinetOf is a cabinet with one stored file of at most one block and no checksum ([MS-CAB] 2).
func cabinetOf(name, content string) []byte {
	le := binary.LittleEndian
	const block = 0x8000
	data := 36 + 8 + 16 + len(name) + 1
	blocks := (len(content) + block - 1) / block
	out := make([]byte, 0, data+8*blocks+len(content))
	out = append(out, "MSCF\x00\x00\x00\x00"...)
	out = le.AppendUint32(out, uint32(data+8*blocks+len(content)))
	out = le.AppendUint64(append(out, 0, 0, 0, 0), 36+8)
	out = append(out, 3, 1, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0) // one folder and one file
	out = le.AppendUint16(le.AppendUint16(le.AppendUint32(out, uint32(data)), uint16(blocks)), 0)
	out = le.AppendUint64(le.AppendUint32(out, uint32(len(content))), 0)
	out = append(append(append(out, 0, 0, 0, 0), name...), 0)
	for len(content) > 0 {
		n := min(len(content), block)
		out = le.AppendUint16(le.AppendUint16(le.AppendUint32(out, 0), uint16(n)), uint16(n))
		out, content = append(out, content[:n]...), content[n:]
	}
	return out
}

// A source may say which member of an archive it means. Another one is not stored, and what was stored is not offered once the source says
// something else.
func TestAMemberHasItsDigest(t *testing.T) {
	right := inventory.Digest(sha256.Sum256([]byte("right")))
	archive := zipOf(t, "a.bin", "right", "b.bin", "wrong")
	of := func(path string, digest inventory.Digest) Description {
		d := nic(path, "1.0", "MT_1")
		d.Digest = digest
		return d
	}
	s := newShop(t)
	images, err := s.publish("src", s.file("fw.zip", archive, of("a.bin", right)))
	require.NoError(t, err)
	assert.Equal(t, right, images[0].Digest)
	for name, d := range map[string]Description{"another member": of("b.bin", right), "another digest": of("a.bin", inventory.Digest{1})} {
		_, err = s.publish("src", s.file("fw.zip", archive, d))
		reason, _ := ReasonOf(err)
		assert.Equal(t, DigestMismatch, reason, name)
		assert.ErrorContains(t, err, "the source says sha256:", name)
	}
	_, err = s.publish("src", s.file("fw.zip", archive, of("b.bin", inventory.Digest{})))
	require.NoError(t, err, "it need not say")
}
