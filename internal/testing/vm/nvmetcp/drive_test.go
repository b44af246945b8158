package nvmetcp_test

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/vm/nvmetcp"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest/nvmectrl"
)

const storeAndReset = 1

// powerOn switches a drive on, with the state that it left.
func powerOn(t *testing.T, state string, activation nvmectrl.Activation) (*nvmetcp.Drive, string) {
	t.Helper()
	d, err := nvmetcp.Open(state, nvmetcp.Config{
		Profile: nvmectrl.Profile{Model: "lab drive", Serial: "S1", Activation: activation}, Revision: "1.0",
	})
	require.NoError(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { listener.Close() })
	go func() { _ = nvmetcp.Serve(listener, d) }() // until the test ends
	return d, listener.Addr().String()
}

func newDrive(t *testing.T) (*nvmetcp.Drive, string) {
	return powerOn(t, filepath.Join(t.TempDir(), "state.json"), nvmectrl.AtControllerReset)
}

func testImage(t *testing.T, revision string) []byte {
	t.Helper()
	image, err := nvmectrl.MakeImage(nvmectrl.Image{Model: "lab drive", Revision: revision, Payload: bytes.Repeat([]byte(revision), 100<<10)})
	require.NoError(t, err)
	return image
}

func TestFirmwareRunsAfterReset(t *testing.T) {
	for name, unit := range map[string]int{"pieces in capsules": 4 << 10, "pieces that are asked for": 128 << 10} {
		t.Run(name, func(t *testing.T) {
			d, address := newDrive(t)
			h := attach(t, address, d)
			h.download(testImage(t, "2.0"), unit)
			require.Equal(t, nvmectrl.Success, h.commit(2, storeAndReset))
			assert.Equal(t, "1.0", h.revision())
			log := h.log(3)
			assert.Equal(t, byte(1|2<<4), log[0])
			assert.Equal(t, "1.0     2.0     \x00", string(log[8:25]))
			assert.Equal(t, "2.0", d.Firmware().Slots[1].Revision)
			h.reset()
			assert.Equal(t, "2.0", h.revision())
			assert.Equal(t, byte(0x22), h.log(3)[0])
		})
	}
}

func TestLostControllerIsReset(t *testing.T) {
	d, address := newDrive(t)
	h := attach(t, address, d)
	h.download(testImage(t, "2.0"), 4096)
	require.Equal(t, nvmectrl.Success, h.commit(2, storeAndReset))
	require.NoError(t, h.conn.Close())
	require.Eventually(t, func() bool { return d.Firmware().Active == 2 }, time.Minute, time.Millisecond)
	assert.Equal(t, "2.0", attach(t, address, d).revision())
}

func TestFirmwareRunsAfterPowerCycle(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state.json")
	d, address := powerOn(t, state, nvmectrl.AtPowerCycle)
	h := attach(t, address, d)
	h.download(testImage(t, "2.0"), 4096)
	require.Equal(t, nvmectrl.NeedsConventionalReset, h.commit(2, storeAndReset))
	h.reset()
	assert.Equal(t, "1.0", h.revision())
	d, address = powerOn(t, state, nvmectrl.AtPowerCycle)
	h = attach(t, address, d)
	assert.Equal(t, "2.0", h.revision())
	assert.Equal(t, byte(2), h.log(2)[112], "power cycles")
}

func TestUnwrittenCommitFails(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "disk")
	require.NoError(t, os.Mkdir(dir, 0o700))
	d, address := powerOn(t, filepath.Join(dir, "state.json"), nvmectrl.AtControllerReset)
	h := attach(t, address, d)
	h.download(testImage(t, "2.0"), 4096)
	require.NoError(t, os.RemoveAll(dir))
	assert.Equal(t, nvmectrl.InternalError, h.commit(2, storeAndReset))
	assert.Empty(t, d.Firmware().Slots[1])
}

func TestDriveSaysWhatItIs(t *testing.T) {
	d, address := newDrive(t)
	h := attach(t, address, d)
	b := h.identify(1, 0)
	assert.Equal(t, "S1                  lab drive                               1.0     ", string(b[4:72]))
	assert.Equal(t, h.controller, le.Uint16(b[78:]))
	assert.Equal(t, h.property(8), uint64(le.Uint32(b[80:])), "version")
	assert.NotZero(t, le.Uint16(b[320:]), "keep alive")
	assert.Equal(t, uint32(1|1<<20), le.Uint32(b[536:]), "descriptors")
	assert.Equal(t, "nqn.2014-08.org.nvmexpress:lab:S1\x00", string(b[768:802]))
	assert.Equal(t, uint32((64+8192)/16), le.Uint32(b[1792:]), "capsule of commands")

	assert.Equal(t, append([]byte{1}, make([]byte, 4095)...), h.identify(2, 0), "the list of namespaces")
	space, ids := h.identify(0, 1), h.identify(3, 1)
	assert.Equal(t, uint64(16<<20/512), le.Uint64(space))
	assert.Equal(t, space[120:128], ids[4:12])
	assert.Equal(t, space[104:120], ids[16:32])

	other, status := dial(t, address, "nqn.of.another", 0xffff, 0)
	assert.NotEqual(t, nvmectrl.Success, status)
	assert.NotEqual(t, nvmectrl.Success, other.commit(1, storeAndReset))
	io, status := dial(t, address, d.NQN(), h.controller, 1)
	require.Equal(t, nvmectrl.Success, status)
	assert.Equal(t, make([]byte, 8192), io.do(submission{opcode: 2, namespace: 1, dwords: []uint32{0, 0, 15}, room: 8192}).data)
	assert.Equal(t, nvmectrl.Success, io.do(submission{opcode: 1, namespace: 1, dwords: []uint32{0, 0, 31}, send: make([]byte, 16<<10)}).status)
	assert.Equal(t, nvmectrl.InvalidOpcode, io.do(submission{opcode: 9, namespace: 1}).status)
}

func TestImpossibleStateIsRefused(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state.json")
	for _, content := range []string{"", `{"slots":[{"revision":"1"},{},{}],"running":{"revision":"1"}}`} {
		require.NoError(t, os.WriteFile(state, []byte(content), 0o600))
		_, err := nvmetcp.Open(state, nvmetcp.Config{Profile: nvmectrl.Profile{Model: "lab drive", Serial: "S1"}, Revision: "1.0"})
		require.ErrorContains(t, err, state)
		kept, err := os.ReadFile(state)
		require.NoError(t, err)
		assert.Equal(t, content, string(kept))
	}
}
