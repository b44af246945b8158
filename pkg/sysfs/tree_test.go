package sysfs_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/sysfs"
)

// A driver that trusted a tree of files would flash the machine a simulated one runs on.
func TestFileTreeIsNotRealSysfs(t *testing.T) {
	dir := t.TempDir()
	kernel, err := sysfs.DirFS(dir).Mounted()
	require.NoError(t, err)
	assert.False(t, kernel, "nothing there")

	require.NoError(t, os.MkdirAll(filepath.Join(dir, "sys/class/net"), 0o700))
	kernel, err = sysfs.DirFS(dir).Mounted()
	require.NoError(t, err)
	assert.False(t, kernel)

	kernel, err = sysfs.DirFS("/").Mounted()
	require.NoError(t, err)
	assert.True(t, kernel)
}
