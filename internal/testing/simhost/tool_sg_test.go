package simhost

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const newSAS = "E005"

func TestSgToolsReadTheDisk(t *testing.T) {
	m := newMachine(t)
	assert.Contains(t, run(m, "sg_inq", "--raw", "/dev/sg0").stdout, "SEAGATE ST16000NM006J   E004")
	assert.Contains(t, run(m, "sg_inq", "--raw", "--page=0x80", "/dev/sda").stdout, "ZR5")
	assert.Equal(t, 5, run(m, "sg_inq", "--raw", "--page=0xc0", "/dev/sg0").code)
	assert.Equal(t, 52, run(m, "sg_inq", "/dev/sg9").code)
	assert.Equal(t, 1, run(m, "sg_inq").code)
	assert.Equal(t, output{0, "", "sg_inq: unrecognized option '--bogus'\nUsage: sg_inq [--help] [--raw] [--verbose] [--version] DEVICE\n"},
		run(m, "sg_inq", "--bogus", "/dev/sg0"), "the real tools exit with 0")
}

func TestSgWriteBufferDefersAndActivatesWithOneUnitAttention(t *testing.T) {
	m := newMachine(t)
	path := image(t, "sda", newSAS)
	assert.Equal(t, output{}, run(m, "sg_write_buffer", "-m", "dmc_offs_defer", "-b", "4k", "-I", path, "/dev/sg0"))
	assert.Equal(t, DefaultSASVersion, device(t, m, "sda").Running)
	assert.Equal(t, newSAS, device(t, m, "sda").Stored)
	assert.Equal(t, output{}, run(m, "sg_write_buffer", "-m", "activate_mc", "/dev/sg0"))
	assert.Equal(t, newSAS, device(t, m, "sda").Running)

	attention := run(m, "sg_inq", "--raw", "/dev/sg0")
	assert.Equal(t, output{6, "", "sg_inq failed: Unit attention\n"}, attention)
	again := run(m, "sg_inq", "--raw", "/dev/sg0")
	assert.Zero(t, again.code, "only once")
	assert.Contains(t, again.stdout, "E005")
	assert.Equal(t, "E004", read(t, m, "sys/class/scsi_device/0:0:0:0/device/rev"), "sysfs lies until a boot")
	require.NoError(t, m.Boot())
	assert.Equal(t, "E005", read(t, m, "sys/class/scsi_device/0:0:0:0/device/rev"))
}

func TestSgWriteBufferSavesAtOnce(t *testing.T) {
	m := newMachine(t)
	assert.Zero(t, run(m, "sg_write_buffer", "--mode=7", "--bpw=4k", "--in="+image(t, "sda", newSAS), "/dev/sg0").code)
	assert.Equal(t, newSAS, device(t, m, "sda").Running)
	assert.Equal(t, 6, run(m, "sg_write_buffer", "-m", "activate_mc", "/dev/sg0").code, "the attention hits any tool")
	assert.Equal(t, 5, run(m, "sg_write_buffer", "-m", "activate_mc", "/dev/sg0").code, "nothing waits")
}

func TestSgWriteBufferRefuses(t *testing.T) {
	m := newMachine(t)
	good := image(t, "sda", newSAS)
	tests := map[string]struct {
		args []string
		code int
	}{
		"another model's image": {[]string{"-m", "dmc_offs_defer", "-b", "4k", "-I", image(t, "nvme0", "X")}, 5},
		"a missing file":        {[]string{"-m", "dmc_offs_defer", "-b", "4k", "-I", "/nowhere"}, 15},
		"an unknown mode":       {[]string{"-m", "dmc_save_the_world", "-b", "4k", "-I", good}, 1},
		"one chunk too big": {[]string{"-m", "dmc_offs_defer", "-I", save(t, BuildImage(SCSIImage, ImageOptions{
			Version: newSAS, Model: "ST16000NM006J", Size: 1 << 20,
		}))}, 15},
	}
	for name, test := range tests {
		out := run(m, append(append([]string{"sg_write_buffer"}, test.args...), "/dev/sg0")...)
		assert.Equal(t, test.code, out.code, name)
		assert.NotEmpty(t, out.stderr, name)
		assert.Equal(t, DefaultSASVersion, device(t, m, "sda").Stored, name)
	}
}

func TestBootActivatesMicrocode(t *testing.T) {
	m := newMachine(t)
	require.Zero(t, run(m, "sg_write_buffer", "-m", "dmc_offs_defer", "-b", "4k", "-I", image(t, "sda", newSAS), "/dev/sg0").code)
	require.NoError(t, m.Boot())
	assert.Equal(t, newSAS, device(t, m, "sda").Running)
	assert.Zero(t, run(m, "sg_inq", "--raw", "/dev/sg0").code)
}

func TestSgToolsAnswerInBinary(t *testing.T) {
	m := newMachine(t)
	inquiry := run(m, "sg_inq", "--raw", "--maxlen=36", "/dev/sg0").stdout
	require.Len(t, inquiry, 36)
	assert.Equal(t, DefaultSASVersion, inquiry[32:])
	assert.Len(t, run(m, "sg_inq", "--raw", "/dev/sg0").stdout, 144)
	serial := run(m, "sg_inq", "--raw", "--page=0x80", "/dev/sg0").stdout
	assert.Equal(t, "\x00\x80\x00\x11", serial[:4])
	assert.Equal(t, 5, run(m, "sg_inq", "--raw", "--page=0xc0", "/dev/sg0").code)
	assert.Equal(t, "\x00\x03\x00\x0a\x3b\x0f", run(m, "sg_opcodes", "--raw", "--opcode=0x3b,0x0f", "/dev/sg0").stdout[:6])
	assert.Equal(t, "\x00\x01\x00\x00", run(m, "sg_opcodes", "--raw", "--opcode=0x3b,0x05", "/dev/sg0").stdout)
	assert.Equal(t, 1, run(m, "sg_opcodes", "/dev/sg0").code)
}

func TestSgWriteBufferTellsSense(t *testing.T) {
	m := newMachine(t)
	path := image(t, "sda", newSAS)
	nothing := run(m, "sg_write_buffer", "-v", "-m", "activate_mc", "/dev/sg0")
	assert.Equal(t, 5, nothing.code)
	assert.Contains(t, nothing.stderr, "\nAdditional sense: Command sequence error\nWrite buffer failed: Illegal request\n")
	// Half of the image, and the image with what fills it up, are not the image.
	for _, length := range []string{"1024", "1048576"} {
		out := run(m, "sg_write_buffer", "-v", "-m", "dmc_offs_defer", "-b", "4k", "--length="+length, "-I", path, "/dev/sg0")
		assert.Equal(t, 5, out.code, length)
		assert.Contains(t, out.stderr, "Additional sense: Invalid field in parameter list", length)
	}
	assert.Equal(t, DefaultSASVersion, device(t, m, "sda").Stored)
}
