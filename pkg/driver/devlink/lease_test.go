package devlink

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest"
)

func TestOffersNoChangedImage(t *testing.T) {
	a, _ := broadcom()
	k := newFakeKernel(t, a)
	img := drivertest.NewImage(t, a.ForImages, "1.1.0")
	require.NoError(t, os.WriteFile(img.Path, drivertest.ImageBytes(a.ForImages, "1.2.0"), 0o600)) // a good one, but another
	code, _, stderr := run(k, "flash", a.Handle, "--file", img.Path, "--digest", img.Digest.String())
	assert.Equal(t, exitChanged, code)
	assert.Contains(t, stderr, "nothing was written, because the image is not the one that was verified")
	after, err := k.load()
	require.NoError(t, err)
	assert.Empty(t, after.Stored)
	assert.Equal(t, "/lib/vendor", k.lookedIn(t))
	assertOnly(t, filepath.Dir(img.Path), "image.bin")

	code, _, stderr = run(k, "flash", a.Handle, "--file", img.Path)
	assert.Zero(t, code, stderr, "a person who names no digest decides alone")
}

func TestNobodyWritesToAnImageWhileTheKernelReadsIt(t *testing.T) {
	img := drivertest.NewImage(t, "board", "1.1.0")
	writer, err := os.OpenFile(img.Path, os.O_WRONLY, 0)
	require.NoError(t, err)
	err = unchanged(img.Path, &img.Digest, func() error { return nil })
	if err == nil {
		t.Skip("the file system of the temporary directory has no leases")
	}
	require.ErrorIs(t, err, errChanged)
	require.ErrorContains(t, err, "has it open for writing")
	require.NoError(t, writer.Close())

	flashed := false
	require.NoError(t, unchanged(img.Path, &img.Digest, func() error {
		flashed = true
		_, err := os.ReadFile(img.Path)
		require.NoError(t, err, "the kernel opens it to read")
		fd, err := syscall.Open(img.Path, syscall.O_WRONLY|syscall.O_NONBLOCK, 0)
		assert.ErrorIs(t, err, syscall.EWOULDBLOCK, "who opens it to write waits")
		if err == nil {
			_ = syscall.Close(fd)
		}
		return nil
	}))
	assert.True(t, flashed)
}
