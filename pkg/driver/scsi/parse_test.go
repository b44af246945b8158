package scsi

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

func golden(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	require.NoError(t, err)
	return b
}

// with is a copy of the bytes in which some were replaced.
func with(b []byte, at int, replacement string) []byte {
	out := bytes.Clone(b)
	copy(out[at:], replacement)
	return out
}

func TestParseInquiry(t *testing.T) {
	good := golden(t, "inquiry.bin")
	got, err := parseInquiry(good)
	require.NoError(t, err)
	assert.Equal(t, inquiry{Vendor: "SEAGATE", Model: "ST16000NM006J", Revision: "E004"}, got)
	got, err = parseInquiry(with(append(good, 1, 2, 3), 0, "\x14"))
	require.NoError(t, err, "a zoned drive, and more than was asked for")
	assert.Equal(t, inventory.Version("E004"), got.Revision)
}

func TestParseInquiryRefusesUnknown(t *testing.T) {
	good := golden(t, "inquiry.bin")
	for name, out := range map[string][]byte{
		"nothing":             nil,
		"text":                []byte("Segmentation fault"),
		"long text":           []byte("standard INQUIRY:\n  PQual=0  PDT=0  RMB=0  LU_CONG=0"),
		"an enclosure":        with(good, 0, "\x0d"),
		"no logical unit":     with(good, 0, "\x20"),
		"a cut answer":        good[:35],
		"a blank revision":    with(good, 32, "    "),
		"a binary revision":   with(good, 32, "E\x00\xff4"),
		"a model with a line": with(good, 16, "ST\n16"),
		"a vendor not ASCII":  with(good, 8, "\xe9"),
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parseInquiry(out)
			require.Error(t, err)
			assert.Zero(t, got)
		})
	}
}

func TestParseSerial(t *testing.T) {
	good := golden(t, "serial.bin")
	got, err := parseSerial(good)
	require.NoError(t, err)
	assert.Equal(t, "ZR5000000000C2048", got)
	got, err = parseSerial([]byte{0, 0x80, 0, 0})
	require.NoError(t, err)
	assert.Empty(t, got)
	for name, out := range map[string][]byte{
		"nothing": nil, "another page": with(good, 1, "\x83"), "a cut page": good[:10], "too long": with(good, 2, "\xff\xff"),
		"not ASCII": with(good, 6, "\x01"), "text": []byte("Segmentation fault"),
	} {
		_, err := parseSerial(out)
		assert.Error(t, err, name)
	}
}

func TestParseSupport(t *testing.T) {
	good := golden(t, "opcodes-supported.bin")
	got, err := parseSupport(good)
	require.NoError(t, err)
	assert.True(t, got)
	for name, out := range map[string][]byte{
		"unsupported": golden(t, "opcodes-unsupported.bin"), "a vendor's own way": with(good, 1, "\x05"),
	} {
		got, err := parseSupport(out)
		require.NoError(t, err, name)
		assert.False(t, got, name)
	}
	for name, out := range map[string][]byte{
		"nothing": nil, "text": []byte("Segmentation fault"), "a cut answer": good[:9], "not now": with(good, 1, "\x00"),
		"another command": with(good, 3, "\x06"), "a list": with(good, 0, "\x01"),
	} {
		got, err := parseSupport(out)
		require.Error(t, err, name)
		assert.False(t, got, name)
	}
}

func TestClassifiesDownloadBySense(t *testing.T) {
	c := download("/dev/sg0", "/i", "lock", 4096, transfer{mode: modeDefer, piece: 4096})
	assert.NoError(t, classifyDownload(c, command.Result{}))
	rejected := new(*driver.RejectedError)
	require.ErrorAs(t, classifyDownload(c, command.Result{ExitCode: 5, Stderr: golden(t, "download-1.46-refused.txt")}), rejected)
	require.ErrorAs(t, classifyDownload(c, command.Result{ExitCode: 17}), rejected)
	require.ErrorAs(t, classifyDownload(c, command.Result{ExitCode: 19}), rejected, "sg3_utils 1.48")
	for code, says := range map[int]string{
		2: "not ready", 6: "unit attention", 9: "does not know", 11: "aborted", 24: "reservation", 26: "busy", 33: "in time", 99: "failed",
	} {
		err := classifyDownload(c, command.Result{ExitCode: code, Stderr: []byte("the tool's text")})
		require.ErrorAs(t, err, new(*command.Error))
		assert.NotErrorAs(t, err, rejected)
		require.ErrorContains(t, err, says)
		assert.ErrorContains(t, err, "the tool's text")
	}
	err := classifyDownload(c, command.Result{ExitCode: 5, Stderr: golden(t, "download-1.46-field.txt")})
	assert.NotErrorAs(t, err, rejected, "this is about the command, not about the image")
	assert.ErrorContains(t, err, "rejects a field")
}

func TestTheCommands(t *testing.T) {
	for want, c := range map[string]command.Command{
		"sg_inq --raw --maxlen=36 /dev/sg0":                             standardInquiry("/dev/sg0"),
		"sg_inq --raw --page=0x80 /dev/sg0":                             serialPage("/dev/sg0"),
		"sg_opcodes --raw --opcode=0x3b,0x0e /dev/sg0":                  supports("/dev/sg0", modeDefer),
		"sg_write_buffer -v --mode=activate_mc --timeout=1200 /dev/sg0": activate("/dev/sg0", "l"),
		"sg_inq --raw --page=0x86 /dev/sg0":                             extendedPage("/dev/sg0"),
		"sg_opcodes --raw --opcode=0x3b /dev/sg0":                       supportsAny("/dev/sg0"),
		"sg_read_buffer --mode=desc --length=4 --raw /dev/sg0":          descriptor("/dev/sg0"),
		downloading("dmc_offs_defer --bpw=4096"):                        download("/dev/sg0", "/i", "l", 9<<20, transfer{modeDefer, 0, 4096}),
		downloading("dmc_offs_save --bpw=32768"):                        download("/dev/sg0", "/i", "l", 9<<20, transfer{modeSave, 0, 32768}),
		downloading("dmc_offs_ev_defer --specific=6 --bpw=512"):         download("/dev/sg0", "/i", "l", 9<<20, transfer{modeSelect, 6, 512}),
	} {
		assert.Equal(t, want, c.String())
	}
	assert.Equal(t, "0x05", mode(5).String())
}

func downloading(mode string) string {
	return "sg_write_buffer -v --mode=" + mode + " --length=9437184 --timeout=1200 --in=/i /dev/sg0"
}

// page is the page of extended INQUIRY data with some of its bytes.
func page(bytes map[int]byte) []byte {
	out := make([]byte, 64)
	out[1], out[3] = 0x86, 60
	for at, b := range bytes {
		out[at] = b
	}
	return out
}

func TestParseExtended(t *testing.T) {
	for name, c := range map[string]struct {
		out  []byte
		want extended
	}{
		"nothing said":                 {page(nil), extended{}},
		"activates as it writes":       {page(map[int]byte{4: 0x40}), extended{After: afterWrite}},
		"activates after a reset":      {page(map[int]byte{4: 0x89}), extended{After: afterReset}},
		"power-on and hard reset":      {page(map[int]byte{12: 0xc0}), extended{OnPowerOn: true, OnHardReset: true}},
		"an old page that ends before": {[]byte{0, 0x86, 0, 4, 0x40, 0, 0, 0}, extended{After: afterWrite}},
		"modes that are not valid":     {page(map[int]byte{19: 0xff}), extended{}},
		"listed modes": {page(map[int]byte{12: 0x10, 19: 0x16}), extended{
			Listed: map[mode]bool{modeSave: true, modeSelect: false, modeDefer: true, modeActivate: true},
		}},
	} {
		got, err := parseExtended(c.out)
		require.NoError(t, err, name)
		assert.Equal(t, c.want, got, name)
	}
	for name, out := range map[string][]byte{
		"nothing": nil, "text": []byte("Segmentation fault"), "another page": with(page(nil), 1, "\x83"), "a cut page": page(nil)[:20],
	} {
		_, err := parseExtended(out)
		assert.Error(t, err, name)
	}
}

// The offset boundary and the capacity of the buffer decide on the pieces.
func TestPiecesFitDrivesBuffer(t *testing.T) {
	for name, c := range map[string]struct {
		out  string
		want int
	}{
		"512 bytes, 1 MiB":               {"\x09\x10\x00\x00", 4096},
		"any offset, no capacity":        {"\x00\x00\x00\x00", 4096},
		"32 KiB":                         {"\x0f\x10\x00\x00", 32768},
		"512 bytes of a small buffer":    {"\x09\x00\x08\x00", 2048},
		"a capacity that is no multiple": {"\x0a\x00\x0b\x00", 2048},
	} {
		b, err := parseDescriptor([]byte(c.out))
		require.NoError(t, err, name)
		got, err := b.piece()
		require.NoError(t, err, name)
		assert.Equal(t, c.want, got, name)
	}
	for name, out := range map[string]string{
		"in one command": "\xff\x10\x00\x00", "1 MiB": "\x14\x20\x00\x00", "larger than the buffer": "\x0c\x00\x02\x00",
	} {
		b, err := parseDescriptor([]byte(out))
		require.NoError(t, err, name)
		_, err = b.piece()
		assert.Error(t, err, name)
	}
	for _, out := range []string{"", "\x09\x10", "\x19\x00\x00\x00", "\x09\x10\x00\x00\x00", "Segmentation fault"} {
		_, err := parseDescriptor([]byte(out))
		require.Error(t, err, out)
	}
}

func FuzzParseExtended(f *testing.F) {
	f.Add(page(map[int]byte{4: 0x40, 12: 0xd0, 19: 0x16}))
	f.Fuzz(func(t *testing.T, out []byte) {
		if got, err := parseExtended(out); err != nil {
			assert.Zero(t, got)
		}
	})
}

func FuzzParseDescriptor(f *testing.F) {
	f.Add([]byte{9, 0x10, 0, 0})
	f.Fuzz(func(t *testing.T, out []byte) {
		b, err := parseDescriptor(out)
		if err != nil {
			return
		}
		if piece, err := b.piece(); err == nil {
			assert.Positive(t, piece)
			assert.LessOrEqual(t, piece, maxPiece)
			assert.Zero(t, piece%(1<<b.Boundary), "every piece but the last one ends at a boundary")
			assert.True(t, b.Capacity == 0 || piece <= b.Capacity)
		}
	})
}

func FuzzParseInquiry(f *testing.F) {
	f.Add(golden(f, "inquiry.bin"))
	f.Add([]byte("Segmentation fault"))
	f.Fuzz(func(t *testing.T, out []byte) {
		got, err := parseInquiry(out)
		if err != nil {
			assert.Zero(t, got)
			return
		}
		assert.NotEmpty(t, got.Revision)
		assert.LessOrEqual(t, len(got.Revision), maxRevision)
		for _, c := range got.Vendor + got.Model + string(got.Revision) {
			assert.True(t, c >= ' ' && c <= '~')
		}
	})
}

func FuzzParseSerial(f *testing.F) {
	f.Add(golden(f, "serial.bin"))
	f.Fuzz(func(t *testing.T, out []byte) {
		got, err := parseSerial(out)
		if err != nil {
			assert.Empty(t, got)
		}
		assert.LessOrEqual(t, len(got), max(0, len(out)-4))
	})
}

func FuzzParseSupport(f *testing.F) {
	f.Add(golden(f, "opcodes-supported.bin"))
	f.Add(golden(f, "opcodes-unsupported.bin"))
	f.Fuzz(func(t *testing.T, out []byte) {
		if got, err := parseSupport(out); err != nil || got {
			assert.Equal(t, err == nil, got)
		}
	})
}

// scanLog is a Background Scan log page of a drive that has been on for the minutes.
func scanLog(minutes uint32) []byte {
	page := binary.BigEndian.AppendUint32([]byte{0x15, 0, 0, 16, 0, 0, 3, 12}, minutes)
	return append(page, make([]byte, 8)...)
}

func TestPowerOnTimeIsReadFromTheBackgroundScanPage(t *testing.T) {
	for minutes, want := range map[uint32]int64{0: 0, 59: 0, 60: 1, 32768*60 - 1: 32767, 32768 * 60: 32768} {
		hours, err := parsePowerOnHours(scanLog(minutes))
		require.NoError(t, err)
		assert.Equal(t, want, hours)
	}
	good := scanLog(60)
	for name, out := range map[string][]byte{
		"nothing": nil, "another page": append([]byte{0x0d}, good[1:]...), "cut": good[:19], "no parameter": {0x15, 0, 0, 0},
		"another parameter": append([]byte{0x15, 0, 0, 16, 0, 1}, good[6:]...), "too many": scanLog(1<<32 - 1), "a text": []byte("log_sense: field in cdb illegal"),
	} {
		_, err := parsePowerOnHours(out)
		require.Error(t, err, name)
	}
}

func FuzzParsePowerOnHours(f *testing.F) {
	f.Add(scanLog(60))
	f.Fuzz(func(t *testing.T, out []byte) {
		hours, err := parsePowerOnHours(out)
		assert.True(t, hours >= 0 && (err == nil || hours == 0))
	})
}
