package unpack

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// exe is a program for Windows with something behind it.
func exe(behind []byte) []byte {
	return append([]byte("MZ\x90\x00"+strings.Repeat("\x00stub PK\x03\x04 stub", 300)), behind...)
}

// script is laid out like a package of Dell's for Linux.
func script(behind []byte) []byte {
	return append([]byte("#!/bin/sh\nsed -e '1,/^#####Startofarchive#####$/d' \"$0\" | tar xz\nexit 0\n#####Startofpackage#####\n"+
		"<SoftwareComponent/>\n#####Startofarchive#####\n"), behind...)
}

func cpioOf(name string, mode, links int, content string) []byte {
	out := fmt.Appendf(nil, "070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x", 1, mode, 0, 0, links, 0, len(content), 0, 0, 0, 0, len(name)+1, 0)
	out = append(append(out, name...), 0)
	out = append(append(out, make([]byte, pad(int64(len(out))))...), content...)
	return append(out, make([]byte, pad(int64(len(out))))...)
}

func cpioFile(name, content string) []byte { return cpioOf(name, 0o100644, 1, content) }

// hugeCPIO says that it has 2 GiB.
func hugeCPIO() []byte {
	b := cpioFile("./a", "x")
	copy(b[6+8*6:], "80000000")
	return b
}

// rpmOf is an RPM package with the members.
func rpmOf(t testing.TB, members []byte) []byte {
	return rpmAround(gzipped(t, append(bytes.Clone(members), cpioOf(cpioTrailer, 0, 1, "")...)))
}

// rpmAround is an RPM package with that payload, a header of signatures that is padded, and a header.
func rpmAround(payload []byte) []byte {
	be := binary.BigEndian
	header := func(data int) []byte {
		out := append([]byte(rpmHeaderMagic), make([]byte, 12+rpmEntrySize+data)...)
		be.PutUint32(out[8:], 1)
		be.PutUint32(out[12:], uint32(data))
		return out
	}
	out := append([]byte(rpmMagic), make([]byte, rpmLeadSize-len(rpmMagic))...)
	out = append(out, header(5)...)
	for len(out)%8 != 0 {
		out = append(out, 0)
	}
	return append(append(out, header(3)...), payload...)
}

// changedIn has other bytes at an offset behind the first place of a mark.
func changedIn(content []byte, mark string, at int, to string) []byte {
	out := bytes.Clone(content)
	copy(out[bytes.Index(out, []byte(mark))+at:], to)
	return out
}

// moved is a zip archive with another member before it of which its directory says nothing, though its offsets are right.
func moved(t testing.TB, first []byte) []byte {
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	w.SetOffset(int64(len(first)))
	m, err := w.Create("a")
	require.NoError(t, err)
	_, err = m.Write([]byte("other"))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return append(bytes.Clone(first), out.Bytes()...)
}

// overlapping has two entries in its directory of one member, as archives have that unpack to more than their size allows.
func overlapping(t testing.TB) []byte {
	content := zipOf(t, zipped("a", strings.Repeat("x", 100)))
	at, end := bytes.Index(content, []byte(zipCentral)), bytes.Index(content, []byte(zipEnd))
	entry := content[at:end]
	out := append(append(bytes.Clone(content[:end]), entry...), content[end:]...)
	tail := out[end+len(entry):]
	binary.LittleEndian.PutUint16(tail[8:], 2)
	binary.LittleEndian.PutUint16(tail[10:], 2)
	binary.LittleEndian.PutUint32(tail[12:], uint32(2*len(entry)))
	return out
}

// What vendors ship is read as it is.
func TestReadsPackagesOfVendors(t *testing.T) {
	bundle := gzipped(t, tarOf(t, file("payload/fw.bin", "FW"), entry{header: tar.Header{Name: "lib/a.so", Linkname: "a.so.1", Typeflag: tar.TypeSymlink}}))
	packed := zipOf(t, zipped("package.xml", "<x/>"), zipped("payload/fw.bin", "FW"))
	adjusted := func() []byte { // as zip -A leaves it: offsets count from the beginning of the file
		stub := exe(nil)
		return moved(t, stub)
	}()
	for name, tc := range map[string]struct {
		content []byte
		is      Format
		want    []string
	}{
		"a program with a zip":          {exe(packed), ProgramZip, []string{"package.xml=<x/>", "payload/fw.bin=FW"}},
		"that is signed behind the zip": {append(exe(packed), bytes.Repeat([]byte("certificate"), 1500)...), ProgramZip, []string{"package.xml=<x/>", "payload/fw.bin=FW"}},
		"that counts from its start":    {adjusted, ProgramZip, []string{"a=other"}},
		"a program for Linux":           {append([]byte("\x7fELF\x02\x01"), packed...), ProgramZip, []string{"package.xml=<x/>", "payload/fw.bin=FW"}},
		"a script with a tar":           {script(bundle), ScriptTar, []string{"payload/fw.bin=FW"}},
		"a script with a zip":           {append([]byte("#!/bin/sh\nunzip $0\nexit\n"), packed...), ProgramZip, []string{"package.xml=<x/>", "payload/fw.bin=FW"}},
		"an RPM package": {rpmOf(t, bytes.Join([][]byte{cpioOf("./usr", 0o040755, 2, ""), cpioOf("./usr/link", 0o120777, 1, "fw.bin"),
			cpioOf("./usr/fw.bin", 0o100644, 2, ""), cpioOf("./usr/same.bin", 0o100644, 2, "FW"), cpioFile("/usr/b.bin", "B")}, nil)), RPM,
			[]string{"usr/same.bin=FW", "usr/b.bin=B"}},
		"an RPM package that is not compressed": {rpmAround(append(cpioFile("./fw.bin", "FW"), cpioFile(cpioTrailer, "")...)), RPM, []string{"fw.bin=FW"}},
		"a zip with a tar in it": {zipOf(t, zipped("readme", "R"), zipped("Linux.tgz", string(gzipped(t, tarOf(t, file("E810/fw.bin", "FW"))))), zipped("last", "L")), Zip,
			[]string{"readme=R", "Linux.tgz/E810/fw.bin=FW", "last=L"}},
		"a firmware package of HPE": {zipOf(t, zipped("payload.json", "{}"), zipped("fw.bin", "FW")), Zip, []string{"payload.json={}", "fw.bin=FW"}},
	} {
		path := written(t, tc.content)
		assert.Equal(t, tc.is, detected(t, path), name)
		got, err := members(t, path, tc.is, Limits{})
		require.NoError(t, err, name)
		assert.Equal(t, tc.want, got, name)
	}
	for _, name := range []string{"zstd.rpm", "xz.rpm"} {
		path := filepath.Join("testdata", name)
		assert.Equal(t, RPM, detected(t, path), name)
		got, err := members(t, path, RPM, Limits{})
		require.NoError(t, err, name)
		assert.ElementsMatch(t, []string{"usr/lib/firmware-nic/" + long, "usr/lib/firmware-nic/dir/two.bin=TWO"}, got, name)
	}
}

// An archive within an archive counts against the same limits, and one within that is not read.
func TestArchiveWithinArchive(t *testing.T) {
	tgz := func(entries ...entry) string { return string(gzipped(t, tarOf(t, entries...))) }
	zeros := strings.Repeat("\x00", 8<<20)
	many := make([]entry, 30)
	for i := range many {
		many[i] = file(fmt.Sprint(i), "x")
	}
	for name, tc := range map[string]struct {
		content []byte
		want    error
		says    string
	}{
		"that climbs":                    {zipOf(t, zipped("a.tgz", tgz(file("../b", "x")))), ErrUnsafe, "escapes the archive"},
		"that explodes":                  {zipOf(t, zipped("a.tgz", tgz(file("a", zeros)))), ErrTooLarge, "size limit"},
		"of two that explode":            {zipOf(t, zipped("a.tgz", tgz(file("a", zeros[:700<<10]))), zipped("b.tgz", tgz(file("a", zeros[:700<<10])))), ErrTooLarge, "size limit"},
		"with many entries":              {zipOf(t, zipped("a.tgz", tgz(many...)), zipped("b.tgz", tgz(many...))), ErrTooLarge, "more than 40 entries"},
		"that is a zip":                  {zipOf(t, zipped("a.tgz", string(zipOf(t, zipped("b", "x"))))), ErrUnsafe, "only tar archives are read"},
		"that is none":                   {zipOf(t, zipped("a.tgz", "firmware")), ErrDamaged, "a.tgz is a file and no directory or archive"},
		"with one more within":           {zipOf(t, zipped("a.tgz", tgz(file("b.tgz", tgz(file("c", "x")))))), ErrUnsafe, "archive within an archive within an archive"},
		"that is compressed, and no tar": {zipOf(t, zipped("a.tgz", string(gzipped(t, []byte(strings.Repeat("firmware", 100)))))), ErrDamaged, "not a readable tar archive"},
		"that is empty":                  {zipOf(t, zipped("b", "x"), zipped("a.tgz", tgz())), ErrDamaged, "empty"},
	} {
		_, err := members(t, written(t, tc.content), Zip, Limits{Entries: 40})
		require.ErrorIs(t, err, tc.want, name)
		assert.ErrorContains(t, err, tc.says, name)
	}
}

// What is known and not unpacked is called by its name, with what to do.
func TestNamesWhatIsNotUnpacked(t *testing.T) {
	pldm := "\x12\x44\xd2\x64\x8d\x7d\x47\x18\xa0\x30\xfc\x8a\x56\x58\x7d\x5a"
	for content, says := range map[string][]string{
		"Bf\x02\x13":                       {"a BlueField bundle (BFB)", "bfb-install", "leave out the path"},
		pldm:                               {"a PLDM package", "leave out the path"},
		"7z\xbc\xaf\x27\x1c":               {"a 7z archive", "unpack it yourself"},
		"!<arch>\ndebian-binary":           {"a Debian package", "unpack it yourself"},
		"MLNX.MFA2.XZ.00!":                 {"MFA2", "leave out the path"},
		"\xed\xd5\xcb\x6d\x2d\xe8\x44\x4c": {"a UEFI capsule", "leave out the path"},
		"MZ no archive":                    {"nor a program with a zip"},
		"#!/bin/sh\nexit 0\n":              {"nor a program with a zip or a script with a tar archive in it"},
		"FIRMWARE":                         {"not a zip, tar, cabinet or RPM archive"},
	} {
		file, err := os.Open(written(t, []byte(content)))
		require.NoError(t, err)
		_, err = Detect(file)
		require.NoError(t, file.Close())
		require.ErrorIs(t, err, ErrDamaged, "%q", content)
		for _, s := range says {
			assert.ErrorContains(t, err, s, "%q", content)
		}
	}
	// A member that is an image as a whole is one.
	got, err := members(t, written(t, zipOf(t, zipped("a.pldm", pldm))), Zip, Limits{})
	require.NoError(t, err)
	assert.Len(t, got, 1)
}

func FuzzDetect(f *testing.F) {
	f.Add(exe(zipOf(f, zipped("a", "x"))))
	f.Add(script(gzipped(f, tarOf(f, file("a", "x")))))
	f.Add(rpmOf(f, cpioFile("./a", "x")))
	f.Fuzz(func(t *testing.T, content []byte) {
		file, err := os.Open(written(t, content))
		require.NoError(t, err)
		defer file.Close()
		format, err := Detect(file)
		assert.Equal(t, err != nil, format == "")
		if err != nil {
			assert.ErrorIs(t, err, ErrDamaged)
		}
	})
}
