package nvmetcp_test

import (
	"bytes"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/vm/nvmetcp"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest/nvmectrl"
)

func TestKernelFindsDrive(t *testing.T) {
	k := connectKernel(t, testConfig())
	assert.Equal(t, "lab drive", strings.TrimRight(k.attribute("model"), " "))
	assert.Equal(t, "S1", strings.TrimRight(k.attribute("serial"), " "))
	assert.Equal(t, "1.0", strings.TrimRight(k.attribute("firmware_rev"), " "))
	assert.Equal(t, "tcp", k.attribute("transport"))
	assert.Equal(t, k.drive.NQN(), k.attribute("subsysnqn"))
	assert.Contains(t, k.attribute("address"), "traddr=127.0.0.1,trsvcid=")
	assert.Equal(t, "io", k.attribute("cntrltype"))
	// It is no function of PCI, and looks like none.
	device, err := os.Readlink("/sys/class/nvme/" + k.name)
	require.NoError(t, err)
	assert.Equal(t, "../../devices/virtual/nvme-fabrics/ctl/"+k.name, device)
	disk := k.name + "n1"
	require.Eventually(t, func() bool { _, err := os.Stat("/dev/" + disk); return err == nil }, kernelTime, 50*time.Millisecond)
	nguid := strings.ReplaceAll(k.attribute(disk+"/nguid"), "-", "")
	assert.Len(t, nguid, 32)
	assert.Equal(t, "eui."+nguid, k.attribute(disk+"/wwid"))
	assert.Len(t, strings.Fields(k.attribute(disk+"/eui")), 8)
	assert.Equal(t, "1", k.attribute(disk+"/nsid"))
}

func TestKernelReadsWhatItWrote(t *testing.T) {
	k := connectKernel(t, testConfig())
	disk := "/dev/" + k.name + "n1"
	require.Eventually(t, func() bool { _, err := os.Stat(disk); return err == nil }, kernelTime, 50*time.Millisecond)
	random := make([]byte, 8<<20)
	_, err := rand.NewChaCha8([32]byte{1}).Read(random)
	require.NoError(t, err)
	device, err := os.OpenFile(disk, os.O_RDWR, 0)
	require.NoError(t, err)
	defer device.Close()
	_, err = device.WriteAt(random, 64<<10)
	require.NoError(t, err)
	require.NoError(t, device.Sync())
	require.NoError(t, unix.Fadvise(int(device.Fd()), 0, 0, unix.FADV_DONTNEED))
	read := make([]byte, len(random))
	_, err = device.ReadAt(read, 64<<10)
	require.NoError(t, err)
	assert.True(t, bytes.Equal(random, read))
}

func TestKernelUpdatesFirmware(t *testing.T) {
	k := connectKernel(t, testConfig())
	image := testImage(t, "2.0", 300<<10)
	require.Equal(t, "1.0", k.revision())
	k.download(image, 4096)
	require.Equal(t, nvmectrl.Success, k.commit(2, 1))
	assert.Equal(t, byte(1|2<<4), k.slots()[0])
	assert.Equal(t, "2.0     ", string(k.slots()[16:24]))
	assert.Equal(t, "1.0", k.revision())
	k.resetController()
	assert.Equal(t, "2.0", k.revision())
	assert.Equal(t, byte(2), k.slots()[0])
	assert.Equal(t, "2.0     ", k.attribute("firmware_rev"))

	// Pieces that do not fit into a capsule.
	image = testImage(t, "3.0", 300<<10)
	k.download(image, 128<<10)
	assert.Equal(t, nvmectrl.NeedsControllerReset, k.commit(3, 3))
	k.resetController()
	assert.Equal(t, "3.0", k.revision())

	k.download(image[:4096], 4096)
	assert.Equal(t, nvmectrl.InvalidFirmwareImage, k.commit(2, 1))
	assert.Equal(t, nvmectrl.InvalidFirmwareSlot, k.commit(7, 1))
	assert.Equal(t, nvmectrl.ActivationProhibited, func() nvmectrl.Status {
		old, err := nvmectrl.MakeImage(nvmectrl.Image{Model: "lab drive", Revision: "0.1"})
		require.NoError(t, err)
		k.download(old, 4096)
		return k.commit(2, 1)
	}())
	k.download(image[:8192], 4096)
	assert.Equal(t, nvmectrl.OverlappingRange, k.admin(adminCommand{opcode: 0x11, cdw10: 4096/4 - 1, cdw11: 4096 / 4}, image[:4096]))
}

func TestKernelActivatesFirmwareWithoutReset(t *testing.T) {
	config := testConfig()
	config.Activation, config.ActivationTime, config.MTFA = nvmectrl.Immediately, time.Second, 3*time.Second
	k := connectKernel(t, config)
	k.download(testImage(t, "2.0", 20<<10), 4096)
	assert.Equal(t, nvmectrl.Success, k.commit(2, 3))
	// The kernel was told that the drive processes nothing, and lets nobody open it meanwhile.
	k.waitLive()
	assert.Equal(t, "2.0", k.revision())
	assert.Equal(t, "1.0     ", k.attribute("firmware_rev"), "what the kernel read is stale until the next reset")
}

func TestKernelResetsSubsystem(t *testing.T) {
	config := testConfig()
	config.Activation = nvmectrl.AtSubsystemReset
	k := connectKernel(t, config)
	k.download(testImage(t, "2.0", 20<<10), 4096)
	assert.Equal(t, nvmectrl.NeedsSubsystemReset, k.commit(2, 1))
	k.resetController()
	assert.Equal(t, "1.0", k.revision())
	device, err := os.OpenFile("/dev/"+k.name, os.O_RDWR, 0)
	require.NoError(t, err)
	defer device.Close()
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, device.Fd(), 0x4e45, 0)
	require.Zero(t, errno)
	require.Eventually(t, func() bool { return k.drive.Firmware().Active == 2 }, kernelTime, 50*time.Millisecond)
	k.waitLive()
	require.Equal(t, "2.0", k.revision())
}

func TestKernelFindsFirmwareAfterPowerCycle(t *testing.T) {
	config := testConfig()
	config.Activation = nvmectrl.AtPowerCycle
	k := connectKernel(t, config)
	k.download(testImage(t, "2.0", 20<<10), 4096)
	assert.Equal(t, nvmectrl.NeedsConventionalReset, k.commit(2, 1))
	k.resetController()
	assert.Equal(t, "1.0", k.revision())
	k.powerOff()
	require.Eventually(t, func() bool { return k.attribute("state") == "connecting" }, kernelTime, 50*time.Millisecond)
	k.powerOn()
	k.waitLive()
	assert.Equal(t, "2.0", k.revision())
	assert.Equal(t, uint64(2), le.Uint64(func() []byte {
		data := make([]byte, 512)
		require.Equal(t, nvmectrl.Success, k.admin(adminCommand{opcode: 0x02, namespace: 0xffffffff, cdw10: 2 | (512/4-1)<<16}, data))
		return data[112:]
	}()))
	assert.Equal(t, "2.0     ", k.attribute("firmware_rev"))
}

func TestKernelStaysConnectedWhileAFlashTakesLong(t *testing.T) {
	k := connectKernel(t, testConfig())
	k.drive.SetFaults(nvmetcp.Faults{PieceTime: 2 * time.Second, CommitTime: 8 * time.Second})
	k.download(testImage(t, "2.0", 5<<10), 4096)
	require.Equal(t, nvmectrl.Success, k.commit(2, 1))
	k.drive.SetFaults(nvmetcp.Faults{})
	assert.Equal(t, "live", k.attribute("state"))
	assert.Equal(t, 2, k.drive.Firmware().Next)
}

func TestKernelReconnectsToADriveThatVanished(t *testing.T) {
	k := connectKernel(t, testConfig())
	k.drive.Vanish(3 * time.Second)
	require.Eventually(t, func() bool { return k.attribute("state") == "connecting" }, kernelTime, 10*time.Millisecond)
	k.waitLive()
	assert.Equal(t, "1.0", k.revision())
}
