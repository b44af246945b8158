package host

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nodefirmware/node-firmware-operator/pkg/sysfs"
)

// loopOver makes a loop device of this kernel over a file.
func loopOver(t *testing.T, file string) sysfs.BlockDevice {
	t.Helper()
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		t.Skip("no loop devices here: ", err)
	}
	defer control.Close()
	n, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
	if err != nil {
		t.Skip("no loop devices here: ", err)
	}
	name := fmt.Sprint("loop", n)
	if _, err := os.Stat("/dev/" + name); err != nil {
		t.Skip("no loop devices here: ", err)
	}
	device, err := os.OpenFile("/dev/"+name, os.O_RDWR, 0)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, device.Close()) })
	backing, err := os.OpenFile(file, os.O_RDWR, 0)
	require.NoError(t, err)
	defer backing.Close()
	if err := unix.IoctlSetInt(int(device.Fd()), unix.LOOP_SET_FD, int(backing.Fd())); err != nil {
		t.Skip("no loop devices here: ", err)
	}
	t.Cleanup(func() { assert.NoError(t, unix.IoctlSetInt(int(device.Fd()), unix.LOOP_CLR_FD, 0)) })
	return sysfs.BlockDevice{Name: name, Number: fmt.Sprint("7:", n)}
}

// The kernel gives a block device to one process alone, and what is read comes from the device itself.
func TestOpenOfARealBlockDevice(t *testing.T) {
	file := filepath.Join(t.TempDir(), "disk")
	require.NoError(t, os.WriteFile(file, bytes.Repeat([]byte("data"), 1<<18), 0o600))
	b := loopOver(t, file)
	s := stack{fsys: sysfs.DirFS("/")}
	volumes, err := s.open([]sysfs.BlockDevice{b}, os.O_EXCL)
	require.NoError(t, err)
	assert.Equal(t, int64(1<<20), volumes[0].Size)
	got := make([]byte, 4096)
	_, err = volumes[0].ReadAt(got, 8192)
	require.NoError(t, err)
	assert.Equal(t, bytes.Repeat([]byte("data"), 1024), got)

	_, err = s.open([]sysfs.BlockDevice{b}, os.O_EXCL)
	require.ErrorAs(t, err, new(*InUseError))
	require.NoError(t, volumes[0].Close())

	_, err = s.open([]sysfs.BlockDevice{{Name: b.Name, Number: "259:0"}}, 0)
	require.ErrorContains(t, err, "is not the block device 259:0")
}

// A loop device is known by the number of what it is made of, by whatever path that was opened.
func TestLoopOverADeviceUnderAnotherName(t *testing.T) {
	file := filepath.Join(t.TempDir(), "disk")
	require.NoError(t, os.WriteFile(file, make([]byte, 1<<20), 0o600))
	below := loopOver(t, file)
	above := loopOver(t, "/dev/"+below.Name)
	s := stack{fsys: sysfs.DirFS("/")}
	for number, want := range map[string]bool{below.Number: true, "259:0": false} {
		is, err := s.isBehind(above.Name, "/var/lib/kubelet/plugins/volumeDevices/1", sysfs.Devices{Blocks: []string{number}})
		require.NoError(t, err)
		assert.Equal(t, want, is, number)
	}
}
