package nvmetcp_test

import (
	"crypto/sha256"
	"encoding/hex"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/vm/nvmetcp"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest/nvmectrl"
)

// Commit actions.
const (
	store         = 0
	storeAndReset = 1
	atReset       = 2
	now           = 3
)

func TestFirmwareRunsAfterAControllerReset(t *testing.T) {
	for name, unit := range map[string]int{"pieces in capsules": 4 << 10, "pieces that are asked for": 128 << 10} {
		t.Run(name, func(t *testing.T) {
			d := newDrive(t, nil)
			h := attach(t, d)
			image := testImage(t, "2.0", 300<<10)
			h.download(image, unit)
			require.Equal(t, nvmectrl.Success, h.commit(2, storeAndReset))
			assert.Equal(t, "1.0", h.revision())
			log := h.log(3, 512).data
			assert.Equal(t, byte(1|2<<4), log[0])
			assert.Equal(t, "1.0     2.0     \x00", string(log[8:25]))
			sum := sha256.Sum256(image)
			assert.Equal(t, hex.EncodeToString(sum[:]), d.Firmware().Slots[1].Digest)

			h.reset()
			assert.Equal(t, "2.0", h.revision())
			assert.Equal(t, byte(0x22), h.log(3, 512).data[0])
		})
	}
}

func TestPiecesComeInAnyOrder(t *testing.T) {
	h := attach(t, newDrive(t, nil))
	image := testImage(t, "2.0", 10<<10)
	for _, at := range []int{4096, 8192, 0} {
		require.Equal(t, nvmectrl.Success, h.do(pieceOf(at, image[at:at+4096])).status)
	}
	assert.Equal(t, nvmectrl.Success, h.commit(0, store))
	assert.Equal(t, "2.0     ", string(h.log(3, 512).data[16:24]), "the drive chose a slot")
}

func TestStoredFirmwareRunsWhenItIsAskedFor(t *testing.T) {
	h := attach(t, newDrive(t, nil))
	h.download(testImage(t, "2.0", 10<<10), 4096)
	require.Equal(t, nvmectrl.Success, h.commit(3, store))
	h.reset()
	require.Equal(t, "1.0", h.revision())
	require.Equal(t, nvmectrl.Success, h.commit(3, atReset))
	h.reset()
	assert.Equal(t, "2.0", h.revision())
}

func TestCommitSaysWhatActivationNeeds(t *testing.T) {
	for activation, want := range map[nvmectrl.Activation]map[uint32]nvmectrl.Status{
		nvmectrl.Immediately:       {storeAndReset: nvmectrl.Success, now: nvmectrl.Success},
		nvmectrl.AtControllerReset: {storeAndReset: nvmectrl.Success, now: nvmectrl.NeedsControllerReset},
		nvmectrl.AtSubsystemReset:  {storeAndReset: nvmectrl.NeedsSubsystemReset, now: nvmectrl.NeedsSubsystemReset},
		nvmectrl.AtPowerCycle:      {storeAndReset: nvmectrl.NeedsConventionalReset, now: nvmectrl.NeedsConventionalReset},
	} {
		for action, status := range want {
			d := newDrive(t, func(c *nvmetcp.Config) { c.Activation = activation })
			h := attach(t, d)
			h.download(testImage(t, "2.0", 10<<10), 4096)
			assert.Equal(t, status, h.commit(2, action), "%s, action %d", activation, action)
			assert.Equal(t, activation == nvmectrl.Immediately && action == now, h.revision() == "2.0", "%s, action %d", activation, action)
			h.reset()
			strong := activation == nvmectrl.AtSubsystemReset || activation == nvmectrl.AtPowerCycle
			assert.Equal(t, !strong, h.revision() == "2.0", "%s after a controller reset", activation)
			require.Equal(t, nvmectrl.Success, h.setProperty(0x20, 0x4e564d65))
			require.Equal(t, nvmetcp.CommandSequenceError, h.identify(1, 0).status, "the subsystem reset disabled the controller")
			h.enable()
			assert.Equal(t, activation != nvmectrl.AtPowerCycle, h.revision() == "2.0", "%s after a subsystem reset", activation)
		}
	}
}

func TestFirmwareRunsAfterAPowerCycle(t *testing.T) {
	for _, activation := range []nvmectrl.Activation{
		nvmectrl.Immediately, nvmectrl.AtControllerReset, nvmectrl.AtSubsystemReset, nvmectrl.AtPowerCycle,
	} {
		config, state := testConfig(), t.TempDir()+"/state.json"
		config.Activation = activation
		d := serve(t, state, config)
		h := attach(t, d)
		h.download(testImage(t, "2.0", 10<<10), 4096)
		h.commit(2, storeAndReset)
		d.stop()
		h = attach(t, serve(t, state, config))
		assert.Equal(t, "2.0", h.revision(), activation)
		assert.Equal(t, byte(2), h.log(2, 512).data[112], "power cycles")
	}
}

func TestAControllerThatIsLostIsReset(t *testing.T) {
	d := newDrive(t, nil)
	h := attach(t, d)
	h.download(testImage(t, "2.0", 10<<10), 4096)
	require.Equal(t, nvmectrl.Success, h.commit(2, storeAndReset))
	require.NoError(t, h.conn.Close())
	require.Eventually(t, func() bool { return d.Firmware().Active == 2 }, 10*time.Second, time.Millisecond)
	assert.Equal(t, "2.0", attach(t, d).revision())
}

func TestImagesThatAreRefused(t *testing.T) {
	good := testImage(t, "2.0", 10<<10)
	other, err := nvmectrl.MakeImage(nvmectrl.Image{Model: "other drive", Revision: "2.0"})
	require.NoError(t, err)
	damaged := append([]byte(nil), good...)
	damaged[len(damaged)-1] ^= 1
	for name, image := range map[string][]byte{
		"nothing": nil, "a part": good[:4096], "a damaged one": damaged, "that of another model": other, "no image": make([]byte, 4096),
	} {
		d := newDrive(t, nil)
		h := attach(t, d)
		h.download(image, 4096)
		assert.Equal(t, nvmectrl.InvalidFirmwareImage, h.commit(2, storeAndReset), name)
		assert.Empty(t, d.Firmware().Slots[1], name)
		h.download(good, 4096)
		assert.Equal(t, nvmectrl.Success, h.commit(2, storeAndReset), "what was refused after %s is gone", name)
	}
}

func TestAnImageWithAGapIsRefused(t *testing.T) {
	h := attach(t, newDrive(t, nil))
	image := testImage(t, "2.0", 10<<10)
	require.Equal(t, nvmectrl.Success, h.do(pieceOf(0, image[:4096])).status)
	require.Equal(t, nvmectrl.Success, h.do(pieceOf(8192, image[8192:])).status)
	assert.Equal(t, nvmectrl.InvalidFirmwareImage, h.commit(2, storeAndReset))
}

func TestSlotsThatAreRefused(t *testing.T) {
	h := attach(t, newDrive(t, func(c *nvmetcp.Config) { c.FirstSlotReadOnly = true; c.Slots = 2 }))
	assert.Equal(t, byte(2<<1|1), h.identify(1, 0).data[260])
	h.download(testImage(t, "2.0", 10<<10), 4096)
	assert.Equal(t, nvmectrl.InvalidFirmwareSlot, h.commit(1, store), "read-only")
	assert.Equal(t, nvmectrl.InvalidFirmwareSlot, h.commit(3, store), "the drive has two")
	assert.Equal(t, nvmectrl.InvalidFirmwareImage, h.commit(0, atReset), "the slot the drive chooses is empty")
	assert.Equal(t, nvmectrl.InvalidFirmwareImage, h.commit(2, atReset), "empty")
	h.download(testImage(t, "2.0", 10<<10), 4096)
	assert.Equal(t, nvmectrl.InvalidField, h.commit(2, 5), "unknown action")
	assert.Equal(t, nvmectrl.Success, h.commit(2, store), "the wrong commits did not take the image")
	assert.Equal(t, nvmectrl.Success, h.commit(1, atReset), "read-only is no obstacle to running")
}

func TestOlderSecurityIsNotActivated(t *testing.T) {
	d := newDrive(t, nil)
	h := attach(t, d)
	h.download(testImage(t, "2.0", 10<<10), 4096)
	require.Equal(t, nvmectrl.Success, h.commit(2, storeAndReset))
	h.reset()
	old, err := nvmectrl.MakeImage(nvmectrl.Image{Model: "lab drive", Revision: "1.5"})
	require.NoError(t, err)
	h.download(old, 4096)
	assert.Equal(t, nvmectrl.ActivationProhibited, h.commit(3, storeAndReset))
	assert.Equal(t, nvmectrl.ActivationProhibited, h.commit(1, atReset))
	h.reset()
	assert.Equal(t, "2.0", h.revision())
	assert.Equal(t, "1.5", d.Firmware().Slots[2].Revision)
}

func TestPiecesThatAreRefused(t *testing.T) {
	h := attach(t, newDrive(t, nil))
	piece := make([]byte, 8192)
	require.Equal(t, nvmectrl.Success, h.do(pieceOf(8192, piece)).status)
	for name, c := range map[string]struct {
		submission
		want nvmectrl.Status
	}{
		"same":                {pieceOf(8192, piece), nvmectrl.OverlappingRange},
		"end overlaps":        {pieceOf(4096, piece), nvmectrl.OverlappingRange},
		"begin overlaps":      {pieceOf(12288, piece), nvmectrl.OverlappingRange},
		"between two units":   {pieceOf(512, piece), nvmectrl.InvalidField},
		"half a unit":         {pieceOf(0, piece[:2048]), nvmectrl.InvalidField},
		"beyond all images":   {pieceOf(32<<20, piece), nvmectrl.InvalidField},
		"at the end of space": {submission{opcode: 0x11, dwords: []uint32{1023, 0xfffffc00}, send: piece[:4096]}, nvmectrl.InvalidField},
		"shorter than said":   {submission{opcode: 0x11, dwords: []uint32{2047, 0}, send: piece[:4096]}, nvmetcp.DataLengthInvalid},
		"without data":        {submission{opcode: 0x11, dwords: []uint32{1023, 0}}, nvmetcp.DataLengthInvalid},
		"more than the most":  {submission{opcode: 0x11, dwords: []uint32{65535, 0}, send: make([]byte, 256<<10)}, nvmectrl.InvalidField},
	} {
		assert.Equal(t, c.want, h.do(c.submission).status, name)
	}
	require.Equal(t, nvmectrl.Success, h.do(pieceOf(0, piece)).status, "what was refused is not kept")
	require.Equal(t, nvmectrl.OverlappingRange, h.do(pieceOf(0, piece)).status)
	h.reset()
	assert.Equal(t, nvmectrl.Success, h.do(pieceOf(0, piece)).status, "a reset drops what was downloaded")
}

func TestADriveThatRestartsAtZeroDropsAnImageThatWasGivenUp(t *testing.T) {
	h := attach(t, newDrive(t, func(c *nvmetcp.Config) { c.RestartsAtZero = true }))
	h.download(testImage(t, "9.9", 20<<10), 4096)
	h.download(testImage(t, "2.0", 10<<10), 4096)
	require.Equal(t, nvmectrl.Success, h.commit(2, storeAndReset))
	h.reset()
	assert.Equal(t, "2.0", h.revision())
}

func TestActivationThatTakesLongerThanTheMostIsRefused(t *testing.T) {
	h := attach(t, newDrive(t, func(c *nvmetcp.Config) {
		c.Activation, c.MTFA, c.ActivationTime = nvmectrl.Immediately, 100*time.Millisecond, 200*time.Millisecond
	}))
	controller := h.identify(1, 0).data
	assert.Equal(t, byte(3<<1|1<<4), controller[260])
	assert.Equal(t, uint16(1), le.Uint16(controller[270:]))
	h.download(testImage(t, "2.0", 10<<10), 4096)
	assert.Equal(t, nvmectrl.ActivationTooLong, h.commit(2, now))
	assert.Equal(t, "1.0", h.revision())
	require.Equal(t, nvmectrl.Success, h.commit(2, atReset))
	begin := time.Now()
	h.reset()
	assert.GreaterOrEqual(t, time.Since(begin), 200*time.Millisecond, "the drive is not ready while it activates")
	assert.Equal(t, "2.0", h.revision())
}

func TestTheHostIsToldThatAnActivationStarts(t *testing.T) {
	d := newDrive(t, func(c *nvmetcp.Config) { c.Activation, c.ActivationTime = nvmectrl.Immediately, time.Hour })
	h := attach(t, d)
	assert.Equal(t, uint32(1<<9), le.Uint32(h.identify(1, 0).data[92:]))
	require.Equal(t, nvmectrl.Success, h.do(submission{opcode: 0x09, dwords: []uint32{0x0b, 1 << 9}}).status)
	event := h.submit(submission{opcode: 0x0c})
	h.download(testImage(t, "2.0", 10<<10), 4096)
	commit := h.submit(commitOf(2, now))
	assert.Equal(t, uint64(0x030102), h.await(event).value)
	assert.Equal(t, uint64(1|1<<5), h.property(0x1c).value, "ready, and paused")

	require.Eventually(t, func() bool { return h.do(abortOf(commit)).value == 0 }, 10*time.Second, time.Millisecond)
	assert.Equal(t, nvmetcp.AbortRequested, h.await(commit).status)
	assert.Equal(t, uint64(1), h.property(0x1c).value)
	assert.Equal(t, "1.0", h.revision())
	assert.Equal(t, "2.0", d.Firmware().Slots[1].Revision)
}
