package sysfs_test

import (
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/sysfs"
)

func TestKexecSeen(t *testing.T) {
	const loader, tree = "proc/sys/kernel/bootloader_type", "proc/device-tree/chosen/linux,booted-from-kexec"
	for name, c := range map[string]struct {
		files fstest.MapFS
		want  bool
	}{
		"GRUB":                   {fstest.MapFS{loader: {Data: []byte("114\n")}}, false},
		"the EFI stub":           {fstest.MapFS{loader: {Data: []byte("33\n")}}, false},
		"an extended type":       {fstest.MapFS{loader: {Data: []byte("340\n")}}, false},
		"kexec":                  {fstest.MapFS{loader: {Data: []byte("208\n")}}, true},
		"a device tree":          {fstest.MapFS{"proc/device-tree/chosen/bootargs": {}}, false},
		"kexec in a device tree": {fstest.MapFS{tree: {}}, true},
		"neither":                {fstest.MapFS{}, false},
	} {
		is, err := sysfs.Kexec(c.files)
		require.NoError(t, err, name)
		assert.Equal(t, c.want, is, name)
	}
	_, err := sysfs.Kexec(fstest.MapFS{loader: {Data: []byte("no number")}})
	require.ErrorContains(t, err, loader)
}
