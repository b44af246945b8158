package admin

import (
	"os"
	"path/filepath"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

const devices = "Character devices:\n  1 mem\n 10 misc\n241 nvme-generic\n242 nvme\n\nBlock devices:\n  8 sd\n259 nvme\n"

func TestTheMajorOfTheDriverIsThatOfItsCharacterDevices(t *testing.T) {
	major, found := characterMajor(devices, "nvme")
	assert.True(t, found)
	assert.Equal(t, uint32(242), major)
	_, found = characterMajor("Character devices:\n  1 mem\n\nBlock devices:\n259 nvme\n", "nvme")
	assert.False(t, found)
}

// The kernel's struct has 72 bytes, and the number of the request says so (bits 29:16).
func TestCommandHasKernelLayout(t *testing.T) {
	var c Command
	require.Equal(t, uintptr(72), unsafe.Sizeof(c))
	assert.Equal(t, unsafe.Sizeof(c), uintptr(ioctlAdminCommand>>16&0x3fff))
	for want, got := range map[uintptr]uintptr{
		4: unsafe.Offsetof(c.Namespace), 16: unsafe.Offsetof(c.Metadata), 24: unsafe.Offsetof(c.Data),
		36: unsafe.Offsetof(c.DataLength), 40: unsafe.Offsetof(c.CDW10), 60: unsafe.Offsetof(c.CDW15),
		64: unsafe.Offsetof(c.TimeoutMilliseconds), 68: unsafe.Offsetof(c.Result),
	} {
		assert.Equal(t, want, got)
	}
}

func TestOnlyControllersAreOpened(t *testing.T) {
	for _, name := range []string{"", "sda", "nvme", "nvme0n1", "ng0n1", "../dev/nvme0", "nvme0/x", "nvme00", "nvme0 ", "nvme-fabrics"} {
		_, err := Open(name)
		require.ErrorContains(t, err, "want a name", name)
	}
}

func TestOpensOnlyNVMeDevices(t *testing.T) {
	file := filepath.Join(t.TempDir(), "nvme0")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	const major = 242
	_, err := openFile(file, major)
	require.ErrorContains(t, err, "not a character device of the kernel's NVMe driver")
	_, err = openFile("/dev/null", major)
	require.ErrorContains(t, err, "not a character device of the kernel's NVMe driver")
	_, err = openFile(file+"1", major)
	require.ErrorIs(t, err, ErrGone)
	link := file + "2"
	require.NoError(t, os.Symlink("/dev/null", link))
	_, err = openFile(link, 1)
	require.Error(t, err, "a link may lead anywhere")
}

// The kernel itself answers: /dev/null is no NVMe drive.
func TestNonDriveIsAnError(t *testing.T) {
	const memory = 1
	d, err := openFile("/dev/null", memory)
	require.NoError(t, err)
	_, err = Identify(d)
	require.ErrorIs(t, err, unix.ENOTTY)
	require.ErrorContains(t, err, "send command 0x06 to /dev/null")
	_, err = Commit(d, 1, ReplaceAtReset)
	require.ErrorIs(t, err, unix.ENOTTY)
	require.ErrorIs(t, d.Reset(), unix.ENOTTY)
	require.NoError(t, d.Close())
}

func TestKernelErrorsAreExplained(t *testing.T) {
	for errno, want := range map[unix.Errno]error{
		unix.ENODEV: ErrGone, unix.ENXIO: ErrGone, unix.EAGAIN: ErrNotReady, unix.ENETRESET: ErrNotReady, unix.EBUSY: ErrNotReady,
		unix.EACCES: unix.EACCES, unix.EIO: unix.EIO,
	} {
		err := reason(errno)
		require.ErrorIs(t, err, want)
		require.ErrorIs(t, err, errno)
	}
}
