package nvmetcp_test

import (
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/vm/nvmetcp"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest/nvmectrl"
)

func TestTheDownloadThatIsToFailFails(t *testing.T) {
	d := newDrive(t, nil)
	h := attach(t, d)
	d.SetFaults(nvmetcp.Faults{FailDownload: 2})
	image := testImage(t, "2.0", 10<<10)
	require.Equal(t, nvmectrl.Success, h.do(pieceOf(0, image[:4096])).status)
	require.Equal(t, nvmectrl.InternalError, h.do(pieceOf(4096, image[4096:8192])).status)
	for at := 4096; at < len(image); at += 4096 {
		require.Equal(t, nvmectrl.Success, h.do(pieceOf(at, image[at:at+4096])).status)
	}
	assert.Equal(t, nvmectrl.Success, h.commit(2, store))
}

func TestADownloadHangsUntilItIsReleased(t *testing.T) {
	d := newDrive(t, nil)
	h := attach(t, d)
	d.SetFaults(nvmetcp.Faults{HangDownload: 1})
	image := testImage(t, "2.0", 10<<10)
	hanging := h.submit(pieceOf(0, image[:4096]))
	require.Equal(t, "1.0", h.revision(), "the drive does other things meanwhile")
	require.NotContains(t, h.ended, hanging)
	d.SetFaults(nvmetcp.Faults{})
	require.Equal(t, nvmectrl.Success, h.await(hanging).status)
	require.Equal(t, nvmectrl.Success, h.do(pieceOf(4096, image[4096:])).status)
	assert.Equal(t, nvmectrl.Success, h.commit(2, store))
}

func TestACommandThatHangsCanBeAborted(t *testing.T) {
	d := newDrive(t, nil)
	h := attach(t, d)
	d.SetFaults(nvmetcp.Faults{HangDownload: 1})
	hanging := h.submit(pieceOf(0, make([]byte, 4096)))
	require.Eventually(t, func() bool { return h.do(abortOf(hanging)).value == 0 }, 10*time.Second, time.Millisecond)
	assert.Equal(t, nvmetcp.AbortRequested, h.await(hanging).status)
	assert.Equal(t, uint64(1), h.do(abortOf(hanging)).value, "there is nothing to abort any more")
	assert.Equal(t, nvmectrl.InvalidFirmwareImage, h.commit(2, store), "nothing was downloaded")
}

func TestADriveThatVanishesEndsConnectionsAndReturns(t *testing.T) {
	d := newDrive(t, nil)
	h := attach(t, d)
	io := attachIO(t, d, h, 1)
	d.SetFaults(nvmetcp.Faults{VanishDownload: 1, VanishTime: time.Hour})
	h.submit(pieceOf(0, make([]byte, 4096)))
	h.requireTerminated()
	io.requireTerminated()
	refused, err := net.Dial("tcp", d.addr)
	require.NoError(t, err)
	(&initiator{t: t, conn: refused}).requireTerminated()
	d.Vanish(0)
	assert.Equal(t, "1.0", attach(t, d).revision())
}

func TestADriveLiesAboutWhatItStored(t *testing.T) {
	d := newDrive(t, nil)
	h := attach(t, d)
	d.SetFaults(nvmetcp.Faults{LieOnCommit: true})
	h.download(testImage(t, "2.0", 10<<10), 4096)
	require.Equal(t, nvmectrl.Success, h.commit(2, storeAndReset))
	assert.Equal(t, byte(0x11), h.log(3, 512).data[0])
	h.reset()
	assert.Equal(t, "1.0", h.revision())
	assert.Empty(t, d.Firmware().Slots[1])
}

func TestAFlashTakesTime(t *testing.T) {
	d := newDrive(t, nil)
	h := attach(t, d)
	d.SetFaults(nvmetcp.Faults{PieceTime: 20 * time.Millisecond, CommitTime: 40 * time.Millisecond})
	begin := time.Now()
	h.download(testImage(t, "2.0", 10<<10), 4096)
	require.Equal(t, nvmectrl.Success, h.commit(2, storeAndReset))
	assert.GreaterOrEqual(t, time.Since(begin), 100*time.Millisecond)
}

func TestAHostThatIsSilentIsDisconnected(t *testing.T) {
	d := newDrive(t, nil)
	h := attach(t, d)
	require.Equal(t, nvmectrl.Success, h.do(submission{opcode: 0x09, dwords: []uint32{0x0f, 100}}).status)
	_, err := h.conn.Read(make([]byte, 1))
	assert.True(t, errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET), "%v", err)
}
