package sysfs_test

import (
	"io/fs"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/sysfs"
	"github.com/nodefirmware/node-firmware-operator/pkg/sysfs/sysfstest"
)

const vendor = "sys/devices/virtual/firmware-attributes/vendor"

// withAttribute is a machine with one setting, beside files that are none, and two ways to prove that one may change it.
func withAttribute() sysfstest.Machine {
	m := sysfstest.NewMachine()
	m.Link("sys/class/firmware-attributes/vendor", vendor)
	m.File(vendor+"/attributes/pending_reboot", "0")
	m.File(vendor+"/attributes/Sure_Start/audit_log_entries", "")
	m.Files(vendor+"/attributes/Option", map[string]string{"type": "string", "current_value": "a"})
	m.Files(vendor+"/authentication/Admin", map[string]string{"is_enabled": "1", "role": "bios-admin", "mechanism": "password"})
	m.Files(vendor+"/authentication/Drive", map[string]string{"is_enabled": "0", "role": "HDD", "mechanism": "password"})
	return m
}

func TestASettingThatCannotBeReadIsListed(t *testing.T) {
	const option = vendor + "/attributes/Option"
	for path, broken := range map[string]error{
		option + "/type": syscall.EIO, option + "/current_value": syscall.EIO, option + "/default_value": fs.ErrPermission,
	} {
		tree := sysfstest.Broken{FS: withAttribute(), Errors: map[string]error{path: broken}}
		interfaces, err := sysfs.FirmwareInterfaces(tree)
		require.NoError(t, err, path)
		require.Equal(t, []string{"Option"}, interfaces[0].Attributes, path)
		a := interfaces[0].ReadAttribute(tree, "Option")
		require.ErrorIs(t, a.Err, broken, path)
		assert.ErrorContains(t, a.Err, path)
	}
	_, err := sysfs.FirmwareInterfaces(sysfstest.Broken{FS: withAttribute(), Errors: map[string]error{vendor + "/attributes": syscall.EIO}})
	require.ErrorIs(t, err, syscall.EIO)
}

// once lets a file be opened a few times, and then no more.
type once struct {
	sysfstest.Machine
	path string
	left *int
}

func (o once) Open(name string) (fs.File, error) {
	if name == o.path {
		if *o.left == 0 {
			return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.EIO}
		}
		*o.left--
	}
	return o.Machine.Open(name)
}

func (o once) Stat(name string) (fs.FileInfo, error) {
	f, err := o.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Stat()
}

func TestAModeThatCannotBeReadIsNotTakenForReadOnly(t *testing.T) {
	one := 1
	tree := once{withAttribute(), vendor + "/attributes/Option/current_value", &one}
	interfaces, err := sysfs.FirmwareInterfaces(tree)
	require.NoError(t, err)
	assert.ErrorIs(t, interfaces[0].ReadAttribute(tree, "Option").Err, syscall.EIO)
}

// Which of several passwords protects the settings may not be known, and the settings are read nonetheless. One that is not set says nothing.
func TestAPasswordThatCannotBeReadHidesNoSetting(t *testing.T) {
	for path, err := range map[string]error{"Admin/role": syscall.EIO, "Admin/is_enabled": syscall.EIO, "Drive/role": nil} {
		tree := sysfstest.Broken{FS: withAttribute(), Errors: map[string]error{vendor + "/authentication/" + path: syscall.EIO}}
		interfaces, failed := sysfs.FirmwareInterfaces(tree)
		require.NoError(t, failed, path)
		require.Len(t, interfaces[0].Authentications, 2)
		admin, drive := interfaces[0].Authentications[0], interfaces[0].Authentications[1]
		assert.True(t, admin.Enabled, path)
		require.ErrorIs(t, admin.Err, err, path)
		assert.NoError(t, drive.Err)
		assert.False(t, drive.Enabled)
	}
}

// What cannot be read of a function is not taken for a function that cannot have it.
func TestAFunctionThatDoesNotAnswerIsNoneWithoutSettings(t *testing.T) {
	at := inventory.PCIAddress{Bus: 0x3b}
	const dir = "sys/bus/pci/devices/0000:3b:00.0"
	m := sysfstest.NewMachine()
	_, err := sysfs.ReadSRIOV(m, at)
	require.ErrorContains(t, err, "0000:3b:00.0")
	require.ErrorIs(t, err, fs.ErrNotExist, "the kernel has no such function any more")
	real := m.PCI(sysfstest.Function{Address: "0000:3b:00.0", Vendor: "8086", Device: "1521", Class: "020000"})
	for path, broken := range map[string]error{"sriov_totalvfs": syscall.EIO, "sriov_numvfs": syscall.ENXIO, "driver": syscall.EIO} {
		m.File(real+"/sriov_totalvfs", "8")
		m.File(real+"/sriov_numvfs", "0")
		_, err = sysfs.ReadSRIOV(sysfstest.Broken{FS: m, Errors: map[string]error{dir + "/" + path: broken}}, at)
		require.ErrorContains(t, err, path)
	}
	m.File(real+"/config", string(silent(256)))
	_, err = sysfs.MaxReadRequest(m, at)
	require.ErrorContains(t, err, "does not answer")
	_, err = sysfs.MaxReadRequest(sysfstest.Broken{FS: m, Errors: map[string]error{dir + "/config": syscall.EIO}}, at)
	require.ErrorIs(t, err, syscall.EIO)
}

// silent is what a read returns of a function that has fallen off its bus.
func silent(n int) []byte {
	out := make([]byte, n)
	for i := range out {
		out[i] = 0xff
	}
	return out
}
