package unpack

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// members reads everything in an archive: the name and content of each member, or its hash where it is long.
func members(t testing.TB, path string, format Format, limits Limits) ([]string, error) {
	file, err := os.Open(path)
	require.NoError(t, err)
	defer file.Close()
	var out []string
	err = Walk(t.Context(), file, format, limits, func(name string, open func() (io.Reader, error)) error {
		if strings.HasSuffix(name, ".tgz") {
			return ErrDescend
		}
		r, err := open()
		if err != nil {
			return err
		}
		content, err := io.ReadAll(r)
		if len(content) > 64 {
			content = []byte(fmt.Sprintf("%d bytes", len(content)))
		}
		out = append(out, name+"="+string(content))
		return err
	})
	return out, err
}

func written(t testing.TB, content []byte) string {
	path := filepath.Join(t.TempDir(), "archive")
	require.NoError(t, os.WriteFile(path, content, 0o600))
	return path
}

type entry struct {
	header  tar.Header
	content string
}

func file(name, content string) entry {
	return entry{tar.Header{Name: name, Size: int64(len(content)), Mode: 0o600}, content}
}

func tarOf(t testing.TB, entries ...entry) []byte {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range entries {
		require.NoError(t, w.WriteHeader(&e.header))
		_, err := io.WriteString(w, e.content)
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return out.Bytes()
}

func gzipped(t testing.TB, content []byte) []byte {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	_, err := z.Write(content)
	require.NoError(t, err)
	require.NoError(t, z.Close())
	return out.Bytes()
}

// twoEnds is a zip archive with an end of zip64 that names another place of its directory than the usual end.
func twoEnds(plain []byte) []byte {
	le := binary.LittleEndian
	end := len(plain) - 22
	out := bytes.Clone(plain[:end])
	end64 := append([]byte("PK\x06\x06"), make([]byte, 52)...)
	le.PutUint64(end64[4:], 44)
	le.PutUint64(end64[24:], 1)
	le.PutUint64(end64[32:], 1)
	le.PutUint64(end64[40:], uint64(le.Uint32(plain[end+12:])))
	locator := append([]byte("PK\x06\x07"), make([]byte, 16)...)
	le.PutUint64(locator[8:], uint64(end))
	le.PutUint32(locator[16:], 1)
	return append(append(append(out, end64...), locator...), plain[end:]...)
}

func zipOf(t testing.TB, headers ...zip.FileHeader) []byte {
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, h := range headers {
		content := h.Comment // where these tests keep it
		h.Comment = ""
		m, err := w.CreateHeader(&h)
		require.NoError(t, err)
		if !strings.HasSuffix(h.Name, "/") {
			_, err = io.WriteString(m, content)
			require.NoError(t, err)
		}
	}
	require.NoError(t, w.Close())
	return out.Bytes()
}

func zipped(name, content string) zip.FileHeader {
	return zip.FileHeader{Name: name, Comment: content, Method: zip.Deflate}
}

// long is what one.bin holds in the archives that the tools of others made: testdata/README.md.
const long = "one.bin=91000 bytes"

func TestReadsForeignArchives(t *testing.T) {
	for name, format := range map[string]Format{"mszip.cab": Cabinet, "stored.cab": Cabinet, "bundle.tar.xz": TarXz, "bundle.tar.zst": TarZstd} {
		assert.Equal(t, format, detected(t, filepath.Join("testdata", name)), name)
		got, err := members(t, filepath.Join("testdata", name), format, Limits{})
		require.NoError(t, err, name)
		assert.ElementsMatch(t, []string{long, "dir/two.bin=TWO"}, got, name)

		f, err := os.Open(filepath.Join("testdata", name))
		require.NoError(t, err)
		defer f.Close()
		sum := sha256.New()
		require.NoError(t, Walk(t.Context(), f, format, Limits{}, func(member string, open func() (io.Reader, error)) error {
			if member != "one.bin" { // the other one is skipped, wherever it stands
				return nil
			}
			r, err := open()
			if err == nil {
				_, err = io.Copy(sum, r)
			}
			return err
		}))
		assert.Equal(t, "d1daa1affb1920ca88236ee6af1bd26c03c09f4b6459f34a067cd2d9b6b85ead", hex.EncodeToString(sum.Sum(nil)), name)
	}
}

func detected(t *testing.T, path string) Format {
	t.Helper()
	file, err := os.Open(path)
	require.NoError(t, err)
	defer file.Close()
	format, err := Detect(file)
	require.NoError(t, err)
	return format
}

func TestEveryFormatIsReadTheSame(t *testing.T) {
	bundle := tarOf(t, entry{header: tar.Header{Name: "dir/", Typeflag: tar.TypeDir, Mode: 0o700}}, file("./dir/a.bin", "A"), file("b ü.bin", "B"))
	for format, content := range map[Format][]byte{
		Tar: bundle, TarGzip: gzipped(t, bundle), Zip: zipOf(t, zipped("dir/", ""), zipped("dir/a.bin", "A"), zipped("b ü.bin", "B")),
	} {
		path := written(t, content)
		assert.Equal(t, format, detected(t, path))
		got, err := members(t, path, format, Limits{})
		require.NoError(t, err, format)
		assert.Equal(t, []string{"dir/a.bin=A", "b ü.bin=B"}, got, format)
	}
}

func TestAnArchiveThatCouldHarmIsRefusedAsAWhole(t *testing.T) {
	link := func(kind byte) entry {
		return entry{header: tar.Header{Name: "a", Linkname: "/etc/shadow", Typeflag: kind, Mode: 0o600}}
	}
	zipLink := zip.FileHeader{Name: "a", Comment: "/etc/shadow"}
	zipLink.SetMode(os.ModeSymlink | 0o777)
	zipDevice := zip.FileHeader{Name: "a"}
	zipDevice.SetMode(os.ModeDevice | 0o666)
	zeros := strings.Repeat("\x00", 64<<20)
	many := make([]entry, 50)
	zips := make([]zip.FileHeader, 50)
	for i := range many {
		many[i], zips[i] = file(fmt.Sprint(i), "x"), zipped(fmt.Sprint(i), "x")
	}
	sparse := file("a", "x")
	sparse.header.PAXRecords = map[string]string{"VENDOR.sparse.major": "1"}
	cab, err := os.ReadFile("testdata/mszip.cab")
	require.NoError(t, err)
	changed := func(at int, b ...byte) []byte { return append(append(bytes.Clone(cab[:at]), b...), cab[at+len(b):]...) }
	cut := func(content []byte) []byte { return content[:len(content)*2/3] }
	xz, err := os.ReadFile("testdata/bundle.tar.xz")
	require.NoError(t, err)
	zst, err := os.ReadFile("testdata/bundle.tar.zst")
	require.NoError(t, err)

	for name, tc := range map[string]struct {
		format  Format
		content []byte
		want    error
		message string
	}{
		"a tar that climbs":                     {Tar, tarOf(t, file("a/../../b", "x")), ErrUnsafe, "escapes the archive"},
		"a tar with an absolute name":           {Tar, tarOf(t, file("/etc/passwd", "x")), ErrUnsafe, "absolute"},
		"a tar with a symbolic link":            {TarGzip, gzipped(t, tarOf(t, link(tar.TypeSymlink))), ErrUnsafe, "link to"},
		"a tar with a hard link":                {Tar, tarOf(t, link(tar.TypeLink)), ErrUnsafe, "link to"},
		"a tar with a character device":         {Tar, tarOf(t, link(tar.TypeChar)), ErrUnsafe, "neither a file"},
		"a tar with a block device":             {Tar, tarOf(t, link(tar.TypeBlock)), ErrUnsafe, "neither a file"},
		"a tar with a pipe":                     {Tar, tarOf(t, link(tar.TypeFifo)), ErrUnsafe, "neither a file"},
		"a tar with a name of no UTF-8":         {Tar, tarOf(t, file("a\xff", "x")), ErrUnsafe, "not UTF-8"},
		"a tar with a name that clears screens": {Tar, tarOf(t, file("a\x1b[2J", "x")), ErrUnsafe, "control characters"},
		"a tar within a tar":                    {Tar, tarOf(t, file("a.tar", string(tarOf(t, file("b", "x"))))), ErrUnsafe, "a tar archive: name the image in it, as a.tar/PATH"},
		"a gzip within a zip":                   {Zip, zipOf(t, zipped("a", string(gzipped(t, []byte("x"))))), ErrUnsafe, "a file of gzip: name the image in it, as a/PATH"},
		"a zip within a tar":                    {Tar, tarOf(t, file("a.zip", string(zipOf(t, zipped("b", "x"))))), ErrUnsafe, "itself an archive, a zip archive: unpack it"},
		"an xz within a tar":                    {Tar, tarOf(t, file("a", string(xz))), ErrUnsafe, "a file of xz: name"},
		"a cabinet within a cabinet":            {Cabinet, cabinetOf("a.cab", cab), ErrUnsafe, "within a cabinet"},
		"a zip with two directories":            {Zip, twoEnds(zipOf(t, zipped("a", "x"))), ErrUnsafe, "two directories that differ"},
		"a zip that climbs":                     {Zip, zipOf(t, zipped("../b", "x")), ErrUnsafe, "escapes the archive"},
		"a zip with an absolute name":           {Zip, zipOf(t, zipped("/b", "x")), ErrUnsafe, "absolute"},
		"a zip with a name of Windows":          {Zip, zipOf(t, zipped(`..\b`, "x")), ErrUnsafe, "Windows path"},
		"a zip with a drive":                    {Zip, zipOf(t, zipped("c:b", "x")), ErrUnsafe, "Windows path"},
		"a zip with a symbolic link":            {Zip, zipOf(t, zipLink), ErrUnsafe, "neither a file"},
		"a zip with a device":                   {Zip, zipOf(t, zipDevice), ErrUnsafe, "neither a file"},
		"a zip with a name of no UTF-8":         {Zip, zipOf(t, zipped("a\xff", "x")), ErrUnsafe, "not UTF-8"},
		"a program with a zip that climbs":      {ProgramZip, exe(zipOf(t, zipped("../b", "x"))), ErrUnsafe, "escapes the archive"},
		"a script with a tar that climbs":       {ScriptTar, script(gzipped(t, tarOf(t, file("../b", "x")))), ErrUnsafe, "escapes the archive"},
		"a script with a device":                {ScriptTar, script(gzipped(t, tarOf(t, link(tar.TypeBlock)))), ErrUnsafe, "neither a file"},
		"an RPM that climbs":                    {RPM, rpmOf(t, cpioFile("./../b", "x")), ErrUnsafe, "escapes the archive"},
		"an RPM with a name of no UTF-8":        {RPM, rpmOf(t, cpioFile("./a\xff", "x")), ErrUnsafe, "not UTF-8"},
		"an RPM with a device":                  {RPM, rpmOf(t, cpioOf("./a", 0o060600, 1, "")), ErrUnsafe, "neither a file"},
		"a tar within an RPM":                   {RPM, rpmOf(t, cpioFile("./a", string(tarOf(t, file("b", "x"))))), ErrUnsafe, "a tar archive: name the image in it"},
		"two zips, one behind the other":        {Zip, append(zipOf(t, zipped("a", "x")), zipOf(t, zipped("a", "y"))...), ErrUnsafe, "two zip archives"},
		"two zips of other sizes":               {Zip, append(zipOf(t, zipped("a", "x")), zipOf(t, zipped("a", "y"), zipped("b", "y"))...), ErrUnsafe, "bytes before the first member"},
		"two zips behind a program":             {ProgramZip, exe(append(zipOf(t, zipped("a", "x")), zipOf(t, zipped("a", "y"))...)), ErrUnsafe, "two zip archives"},
		"a zip behind a hidden zip":             {Zip, moved(t, zipOf(t, zipped("a", "x"))), ErrUnsafe, "bytes before the first member"},
		"a zip with overlapping members":        {Zip, overlapping(t), ErrUnsafe, "overlap in the archive"},
		"a zip whose directory has other names": {Zip, changedIn(zipOf(t, zipped("name", "x")), "PK\x01\x02", 46, "lies"), ErrUnsafe, "another name"},
		"a zip whose directory packs otherwise": {Zip, changedIn(zipOf(t, zipped("a", "x")), "PK\x01\x02", 10, "\x00"), ErrUnsafe, "packed in another way"},
		"a cabinet that climbs":                 {Cabinet, cabinetOf(`..\b`, []byte("x")), ErrUnsafe, "escapes the archive"},
		"a cabinet with an absolute name":       {Cabinet, cabinetOf(`\b`, []byte("x")), ErrUnsafe, "absolute"},
		"a cabinet with a name of no UTF-8":     {Cabinet, cabinetOf("a\xff", []byte("x")), ErrUnsafe, "not UTF-8"},

		"a program that explodes":     {ProgramZip, exe(zipOf(t, zipped("a", zeros))), ErrTooLarge, "size limit"},
		"a script that explodes":      {ScriptTar, script(gzipped(t, tarOf(t, file("a", zeros)))), ErrTooLarge, "size limit"},
		"an RPM that explodes":        {RPM, rpmOf(t, cpioFile("./a", zeros)), ErrTooLarge, "size limit"},
		"an RPM with many entries":    {RPM, rpmOf(t, slices.Repeat(cpioFile("./a", "x"), 50)), ErrTooLarge, "more than 40 entries"},
		"an RPM with a long header":   {RPM, changedIn(rpmOf(t, cpioFile("./a", "x")), rpmHeaderMagic, 8, "\x7f\xff\xff\xff"), ErrTooLarge, "2147483647 entries"},
		"an RPM with a huge member":   {RPM, rpmOf(t, hugeCPIO()), ErrTooLarge, "size limit of 1073741824 bytes"},
		"a zip that explodes":         {Zip, zipOf(t, zipped("a", zeros)), ErrTooLarge, "size limit"},
		"a gzip that explodes":        {TarGzip, gzipped(t, tarOf(t, file("a", zeros))), ErrTooLarge, "size limit"},
		"a zip with many entries":     {Zip, zipOf(t, zips...), ErrTooLarge, "50 entries, the limit is 40"},
		"a tar with many entries":     {TarGzip, gzipped(t, tarOf(t, many...)), ErrTooLarge, "more than 40 entries"},
		"a cabinet with many entries": {Cabinet, changed(28, 0xff, 0xff), ErrTooLarge, "the limit is 40"},
		"an xz that wants memory":     {TarXz, xz, ErrTooLarge, "too much memory"},
		"a zstd that wants memory":    {TarZstd, bytes.Join([][]byte{zst[:4], {0x00, 0xff}, zst[6:]}, nil), ErrTooLarge, "too much memory"},

		"an RPM that is cut off":             {RPM, cut(rpmOf(t, cpioFile("./a", strings.Repeat("firmware", 40)))), ErrDamaged, ""},
		"an RPM without files":               {RPM, rpmOf(t, nil), ErrDamaged, "no files"},
		"an RPM without a header":            {RPM, []byte(rpmMagic + strings.Repeat("x", 200)), ErrDamaged, "no header"},
		"an RPM with a header beyond it":     {RPM, changedIn(rpmOf(t, cpioFile("./a", "x")), rpmHeaderMagic, 12, "\x00\x10"), ErrDamaged, "beyond its end"},
		"an RPM of bzip2":                    {RPM, rpmAround([]byte("BZh91AY&SY")), ErrDamaged, "unpack it with rpm2cpio"},
		"an RPM with no cpio in it":          {RPM, rpmAround(gzipped(t, []byte(strings.Repeat("<html>", 40)))), ErrDamaged, "like one of cpio"},
		"an RPM with a name without end":     {RPM, rpmOf(t, []byte(strings.Replace(string(cpioFile("./a", "x")), "a\x00", "ab", 1))), ErrDamaged, "no end"},
		"an RPM with a number that is none":  {RPM, rpmOf(t, []byte("07070100zz"+strings.Repeat("0", 100))), ErrDamaged, "hexadecimal"},
		"an RPM for very large files":        {RPM, rpmOf(t, []byte(strings.Replace(string(cpioFile("./a", "x")), "070701", "07070X", 1))), ErrDamaged, "4 GiB"},
		"a script without an archive":        {ScriptTar, []byte("#!/bin/sh\nexit 0\n"), ErrDamaged, "no archive behind it"},
		"a script with a text behind it":     {ScriptTar, script(gzipped(t, []byte(strings.Repeat("<html>", 400)))), ErrDamaged, "not a readable tar"},
		"a program without an archive":       {ProgramZip, exe(nil), ErrDamaged, "no directory"},
		"a zip whose directory is elsewhere": {Zip, changedIn(zipOf(t, zipped("a", "x")), zipEnd, 16, "\xff\xff\xff"), ErrDamaged, "not within the zip"},
		"a zip whose member is elsewhere":    {Zip, changedIn(zipOf(t, zipped("a", "x")), "PK\x01\x02", 42, "\x05"), ErrDamaged, "not where the directory"},
		"no zip":                             {Zip, []byte("<html>"), ErrDamaged, "not a zip"},
		"nothing":                            {Zip, nil, ErrDamaged, "empty"},
		"no tar":                             {Tar, []byte(strings.Repeat("<html>", 200)), ErrDamaged, "not a readable tar"},
		"an empty tar":                       {Tar, tarOf(t), ErrDamaged, "empty"},
		"no gzip":                            {TarGzip, []byte("<html>"), ErrDamaged, "gzip"},
		"no xz":                              {TarXz, []byte("<html><html>"), ErrDamaged, "xz"},
		"no zstd":                            {TarZstd, []byte("<html><html>"), ErrDamaged, ""},
		"no cabinet":                         {Cabinet, []byte(strings.Repeat("<html>", 20)), ErrDamaged, "not a cabinet"},
		"a zip that is cut off":              {Zip, cut(zipOf(t, zipped("a", "x"))), ErrDamaged, "cut off"},
		"a tar that is cut off":              {Tar, tarOf(t, file("a", strings.Repeat("x", 4000)))[:2000], ErrDamaged, "EOF"},
		"an xz that is cut off":              {TarXz, cut(xz), ErrDamaged, ""},
		"a cabinet that is cut off":          {Cabinet, cut(cab), ErrDamaged, "cut off"},
		"a cabinet of LZX":                   {Cabinet, changed(36+6, cabLZX), ErrDamaged, "LZX, which is not supported"},
		"a cabinet of a set":                 {Cabinet, changed(30, 1), ErrDamaged, "part of a set"},
		"a cabinet with a flipped bit":       {Cabinet, changed(len(cab)-5, cab[len(cab)-5]^1), ErrDamaged, "checksum"},
		"a cabinet with a folder elsewhere":  {Cabinet, changed(36, 0xff, 0xff, 0xff, 0x7f), ErrDamaged, "not within"},
		"a cabinet with files beyond itself": {Cabinet, changed(16, 0xff, 0xff, 0xff, 0x7f), ErrDamaged, "EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			limits := Limits{Entries: 40}
			if strings.Contains(name, "memory") {
				limits.Memory = 1 << 20
			}
			_, err := members(t, written(t, tc.content), tc.format, limits)
			require.ErrorIs(t, err, tc.want)
			assert.ErrorContains(t, err, tc.message)
		})
	}
}

// A directory of millions of entries takes 47 bytes of the file for each, and five times as many of memory.
func TestAHugeDirectoryIsRefusedBeforeItIsInMemory(t *testing.T) {
	const n = 1_000_000
	header := make([]byte, 47) // of APPNOTE.TXT 4.3.12
	copy(header, "PK\x01\x02")
	header[28], header[46] = 1, 'a'
	end := func(entries uint16) []byte {
		out := append([]byte(zipEnd), make([]byte, 18)...)
		binary.LittleEndian.PutUint16(out[8:], entries)
		binary.LittleEndian.PutUint16(out[10:], entries)
		binary.LittleEndian.PutUint32(out[12:], n*47)
		return out
	}
	end64 := append([]byte(zipEnd64), make([]byte, 52)...)
	binary.LittleEndian.PutUint64(end64[4:], 44)
	for _, at := range []int{24, 32} {
		binary.LittleEndian.PutUint64(end64[at:], n)
	}
	binary.LittleEndian.PutUint64(end64[40:], n*47)
	locator := append([]byte(zipLocator64), make([]byte, 16)...)
	binary.LittleEndian.PutUint64(locator[8:], n*47)
	directory := bytes.Repeat(header, n)
	for name, tail := range map[string][]byte{
		"the archive says so":               bytes.Join([][]byte{end64, locator, end(0xffff)}, nil),
		"it says how many modulo 65536":     end(n % 65536),
		"it says that it has a single one":  end(1),
		"its 64-bit end says so, unasked":   bytes.Join([][]byte{end64, locator, end(1)}, nil),
		"the end of its directory is twice": bytes.Join([][]byte{end(1), end(n % 65536)}, nil),
	} {
		t.Run(name, func(t *testing.T) {
			path := written(t, append(bytes.Clone(directory), tail...))
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := members(t, path, Zip, Limits{})
			runtime.ReadMemStats(&after)
			require.Error(t, err)
			assert.True(t, errors.Is(err, ErrTooLarge) || errors.Is(err, ErrDamaged) || errors.Is(err, ErrUnsafe), "%v", err)
			assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(100<<20), "one entry takes 186 bytes")
		})
	}
}

func TestWalkEndsWithItsContext(t *testing.T) {
	f, err := os.Open("testdata/mszip.cab")
	require.NoError(t, err)
	defer f.Close()
	ctx, cancel := context.WithCancel(t.Context())
	err = Walk(ctx, f, Cabinet, Limits{}, func(_ string, open func() (io.Reader, error)) error {
		r, err := open()
		require.NoError(t, err)
		cancel()
		_, err = io.Copy(io.Discard, r)
		return err
	})
	require.ErrorIs(t, err, context.Canceled)
}

func TestDiskFaultIsNoBadArchive(t *testing.T) {
	f, err := os.Open("testdata/mszip.cab")
	require.NoError(t, err)
	err = Walk(t.Context(), f, Cabinet, Limits{}, func(_ string, open func() (io.Reader, error)) error {
		require.NoError(t, f.Close()) // every read after it fails
		r, err := open()
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, r)
		return err
	})
	var read *ReadError
	require.ErrorAs(t, err, &read)
}

// cabinetOf is a cabinet with one stored file and no checksum.
func cabinetOf(name string, content []byte) []byte {
	le := binary.LittleEndian
	out := append([]byte(cabMagic), make([]byte, cabHeaderSize-4+cabFolderSize)...)
	le.PutUint32(out[16:], cabHeaderSize+cabFolderSize)
	out[26], out[28] = 1, 1
	out = le.AppendUint32(out, uint32(len(content)))
	out = append(out, make([]byte, cabFileSize-4)...)
	out = append(append(out, name...), 0)
	le.PutUint32(out[cabHeaderSize:], uint32(len(out)))
	le.PutUint16(out[cabHeaderSize+4:], uint16((len(content)+cabBlock-1)/cabBlock))
	for len(content) > 0 {
		n := min(len(content), cabBlock)
		out = append(out, 0, 0, 0, 0)
		out = le.AppendUint16(le.AppendUint16(out, uint16(n)), uint16(n))
		out = append(out, content[:n]...)
		content = content[n:]
	}
	le.PutUint32(out[8:], uint32(len(out)))
	return out
}

func FuzzWalk(f *testing.F) {
	formats := []Format{Zip, Tar, TarGzip, TarXz, TarZstd, Cabinet, RPM, ProgramZip, ScriptTar}
	for i, name := range []string{"mszip.cab", "stored.cab", "bundle.tar.xz", "bundle.tar.zst", "zstd.rpm", "xz.rpm"} {
		content, err := os.ReadFile(filepath.Join("testdata", name))
		require.NoError(f, err)
		f.Add(content, uint8([]int{5, 5, 3, 4, 6, 6}[i]))
	}
	f.Add(cabinetOf("a", []byte("x")), uint8(5))
	f.Add(rpmAround(append(cpioFile("./a", "x"), cpioFile(cpioTrailer, "")...)), uint8(6))
	f.Add(exe(zipOf(f, zipped("a", "x"), zipped("b", "y"))), uint8(7))
	f.Add(script(gzipped(f, tarOf(f, file("a", "x")))), uint8(8))
	f.Add(zipOf(f, zipped("a.tgz", string(gzipped(f, tarOf(f, file("a", "x")))))), uint8(0))
	f.Fuzz(func(t *testing.T, content []byte, format uint8) {
		limits := Limits{Entries: 100, Bytes: 4 << 20, Memory: 1 << 20}
		got, _ := members(t, written(t, content), formats[int(format)%len(formats)], limits)
		assert.LessOrEqual(t, len(got), 100)
		for _, m := range got {
			name, _, _ := strings.Cut(m, "=")
			assert.True(t, filepath.IsLocal(name), name)
		}
	})
}

// The directory of a cabinet names what a walk visits.
func FuzzCabinetNames(f *testing.F) {
	for _, name := range []string{"mszip.cab", "stored.cab"} {
		content, err := os.ReadFile(filepath.Join("testdata", name))
		require.NoError(f, err)
		f.Add(content)
	}
	f.Add(cabinetOf("a", []byte("x")))
	f.Fuzz(func(t *testing.T, content []byte) {
		file, err := os.Open(written(t, content))
		require.NoError(t, err)
		defer file.Close()
		names, err := CabinetNames(t.Context(), file)
		for _, name := range names {
			assert.True(t, filepath.IsLocal(name), name)
		}
		var visited []string
		if Walk(t.Context(), file, Cabinet, Limits{Bytes: 4 << 20}, func(name string, _ func() (io.Reader, error)) error {
			visited = append(visited, name)
			return nil
		}) == nil {
			require.NoError(t, err)
			assert.ElementsMatch(t, visited, names)
		}
	})
}
