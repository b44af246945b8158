package scsi

import (
	"bytes"
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

func TestParseInquiryRefusesWhatItDoesNotKnow(t *testing.T) {
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

func TestADownloadIsClassifiedByCodeAndSense(t *testing.T) {
	c := download("/dev/sg0", "/i", "lock", 4096, modeDefer)
	assert.NoError(t, classifyDownload(c, command.Result{}))
	rejected := new(*driver.RejectedError)
	require.ErrorAs(t, classifyDownload(c, command.Result{ExitCode: 5, Stderr: golden(t, "download-1.46-refused.txt")}), rejected)
	require.ErrorAs(t, classifyDownload(c, command.Result{ExitCode: 17}), rejected)
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
		downloading("dmc_offs_defer"):                                   download("/dev/sg0", "/i", "l", 9<<20, modeDefer),
		downloading("dmc_offs_save"):                                    download("/dev/sg0", "/i", "l", 9<<20, modeSave),
	} {
		assert.Equal(t, want, c.String())
	}
	assert.Equal(t, "0x05", mode(5).String())
}

func downloading(mode string) string {
	return "sg_write_buffer -v --mode=" + mode + " --bpw=4096 --length=9437184 --timeout=1200 --in=/i /dev/sg0"
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
