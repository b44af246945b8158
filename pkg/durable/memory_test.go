package durable_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/durable"
)

func TestVolatileIsSaid(t *testing.T) {
	kind, err := durable.InMemory("/proc")
	require.NoError(t, err)
	assert.Empty(t, kind, "not every file system without a disk is in memory")
	if kind, err = durable.InMemory("/dev/shm"); err == nil {
		assert.Equal(t, "tmpfs", kind, "shm_overview(7)")
	}
	_, err = durable.InMemory(filepath.Join(t.TempDir(), "absent"))
	require.ErrorIs(t, err, os.ErrNotExist)
}
