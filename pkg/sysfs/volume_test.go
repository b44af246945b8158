package sysfs

import (
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestGenericNumber(t *testing.T) {
	m := fstest.MapFS{}
	for name, number := range map[string]string{
		"sys/class/block/sda/device/scsi_generic/sg3/dev": "21:3\n", "sys/class/nvme-generic/ng0n1/dev": "241:0\n", "sys/class/block/vda/dev": "253:0\n",
	} {
		m[name] = &fstest.MapFile{Data: []byte(number)}
	}
	for name, want := range map[string]string{"sda": "21:3", "nvme0n1": "241:0", "nvme1n1": "", "vda": "", "dm-0": ""} {
		got, err := GenericNumber(m, name)
		require.NoError(t, err)
		assert.Equal(t, want, got, name)
	}
}
