package sysfs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/sysfs"
	"github.com/nodefirmware/node-firmware-operator/pkg/sysfs/sysfstest"
)

func TestLockdownIsBracketedLevel(t *testing.T) {
	for content, want := range map[string]string{
		"[none] integrity confidentiality": "", "none [integrity] confidentiality": "integrity", "none integrity [confidentiality]": "confidentiality",
	} {
		m := sysfstest.NewMachine()
		m.File("sys/kernel/security/lockdown", content)
		got, err := sysfs.Lockdown(m)
		require.NoError(t, err)
		assert.Equal(t, want, got, content)
	}
	got, err := sysfs.Lockdown(sysfstest.NewMachine())
	require.NoError(t, err, "a kernel without lockdown has no such file")
	assert.Empty(t, got)
	for _, content := range []string{"", "none", "none [secrecy]", "integrity]"} {
		m := sysfstest.NewMachine()
		m.File("sys/kernel/security/lockdown", content)
		_, err := sysfs.Lockdown(m)
		assert.ErrorContains(t, err, "no known level", content)
	}
}

func TestVirtualFunctionsAreCountedByTheKernel(t *testing.T) {
	at := inventory.PCIAddress{Bus: 0x3b}
	m := sysfstest.NewMachine()
	n, err := sysfs.VirtualFunctions(m, at)
	require.NoError(t, err, "most functions cannot have any")
	assert.Zero(t, n)
	m.File("sys/bus/pci/devices/0000:3b:00.0/sriov_numvfs", "16")
	n, err = sysfs.VirtualFunctions(m, at)
	require.NoError(t, err)
	assert.Equal(t, 16, n)
	m.File("sys/bus/pci/devices/0000:3b:00.0/sriov_numvfs", "many")
	_, err = sysfs.VirtualFunctions(m, at)
	assert.ErrorContains(t, err, "sriov_numvfs")
}

func TestSlotFunctionsOfAllClasses(t *testing.T) {
	m := sysfstest.NewMachine()
	for address, driver := range map[string]string{"0000:3b:00.0": "mlx5_core", "0000:3b:00.2": "rshim_pcie", "0000:3c:00.0": "nvme"} {
		m.PCI(sysfstest.Function{Address: address, Vendor: "15b3", Device: "a2d6", Class: "080100", Driver: driver})
	}
	functions, err := sysfs.SlotFunctions(m, inventory.PCIAddress{Bus: 0x3b})
	require.NoError(t, err)
	drivers := map[string]string{}
	for _, f := range functions {
		require.NoError(t, f.Err)
		drivers[f.Address.String()] = f.Driver
	}
	assert.Equal(t, map[string]string{"0000:3b:00.0": "mlx5_core", "0000:3b:00.2": "rshim_pcie"}, drivers)
}

// withFunctions is a machine with a physical function and virtual ones that have a driver.
func withFunctions(vfs ...sysfstest.Function) (sysfstest.Machine, inventory.PCIAddress) {
	m := sysfstest.NewMachine()
	dir := m.PCI(sysfstest.Function{Address: "0000:3b:00.0", Vendor: "8086", Device: "1521", Class: "020000", Driver: "igb"})
	m.Files(dir, map[string]string{"sriov_numvfs": strconv.Itoa(len(vfs)), "sriov_totalvfs": "16", "sriov_drivers_autoprobe": "1"})
	for i, vf := range vfs {
		vf.Physical = "0000:3b:00.0"
		m.Link(dir+"/virtfn"+strconv.Itoa(i), m.PCI(vf))
	}
	return m, inventory.PCIAddress{Bus: 0x3b}
}

func TestTheKernelSaysWhatItKnowsOfVirtualFunctions(t *testing.T) {
	m, at := withFunctions(sysfstest.Function{Address: "0000:3b:10.0", Driver: "iavf"}, sysfstest.Function{Address: "0000:3b:10.1", Driver: "vfio-pci"})
	state, err := sysfs.ReadSRIOV(m, at)
	require.NoError(t, err)
	one := 1
	assert.Equal(t, &sysfs.SRIOV{NumVFs: 2, TotalVFs: 16, Autoprobe: &one, Driver: "igb"}, state)
	const dir = "sys/devices/pci0000:00/0000:00:01.0/"
	m.Interface(dir+"0000:3b:10.0", "eth0", nil)
	m.File(dir+"0000:3b:10.1/vfio-dev/vfio0/dev", "1:1")
	m.Link(dir+"0000:3b:10.1/iommu_group", "sys/kernel/iommu_groups/12")
	m.Link(dir+"0000:3b:00.0/virtfn2", dir+"0000:3b:10.0")
	m.Link(dir+"0000:3b:00.0/virtfn10", dir+"0000:3b:10.1")
	vfs, err := sysfs.VirtualFunctionsOf(m, at)
	require.NoError(t, err)
	plain := sysfs.VirtualFunction{Address: inventory.PCIAddress{Bus: 0x3b, Device: 0x10}, Driver: "iavf", Interfaces: []string{"eth0"}}
	passed := sysfs.VirtualFunction{
		Address: inventory.PCIAddress{Bus: 0x3b, Device: 0x10, Function: 1}, Driver: "vfio-pci", Group: "12", VFIO: []string{"vfio0"},
	}
	assert.Equal(t, []sysfs.VirtualFunction{plain, passed, plain, passed}, vfs)
}

func TestAFunctionWithoutSRIOVHasNone(t *testing.T) {
	m := sysfstest.NewMachine()
	at := inventory.PCIAddress{Bus: 0x3b}
	real := m.PCI(sysfstest.Function{Address: "0000:3b:00.0", Vendor: "8086", Device: "1521", Class: "020000"})
	state, err := sysfs.ReadSRIOV(m, at)
	require.NoError(t, err)
	assert.Nil(t, state)
	vfs, err := sysfs.VirtualFunctionsOf(m, at)
	require.NoError(t, err)
	assert.Empty(t, vfs)
	m.File(real+"/sriov_totalvfs", "8")
	_, err = sysfs.ReadSRIOV(m, at)
	assert.ErrorContains(t, err, "sriov_numvfs: no such file")
}

func TestHoldersOfAFileAreNamed(t *testing.T) {
	m := sysfstest.NewMachine()
	m.File("proc/4711/comm", "qemu-system-x86")
	m.MapFS["proc/4711/fd/9"] = symlinkTo("/dev/vfio/12")
	m.MapFS["proc/4711/fd/10"] = symlinkTo("socket:[1]")
	m.MapFS["proc/8/fd/1"] = symlinkTo("/dev/vfio/13")
	for pid, group := range map[string]string{ // as the kubelet makes them with the driver systemd
		"5": "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1.slice/cri-containerd-2.scope", "4711": "0::/machine.slice/qemu.scope",
	} {
		m.File("proc/"+pid+"/cgroup", group)
		m.MapFS["proc/"+pid+"/fd/3"] = symlinkTo("/dev/vfio/15")
	}
	m.MapFS["proc/5/fd/4"] = symlinkTo("/dev/vfio/16")
	holders, err := sysfs.Holders(m, "/dev/vfio/12", "/dev/vfio/13", "/dev/vfio/14", "/dev/vfio/15", "/dev/vfio/16")
	require.NoError(t, err)
	qemu := sysfs.Holder{Name: "qemu-system-x86 (process 4711)"}
	assert.Equal(t, map[string]sysfs.Holder{
		"/dev/vfio/12": qemu, "/dev/vfio/13": {Name: "a program (process 8)"}, "/dev/vfio/15": qemu, "/dev/vfio/16": {Name: "a program (process 5)", Pod: true},
	}, holders)
}

func symlinkTo(target string) *fstest.MapFile {
	return &fstest.MapFile{Data: []byte(target), Mode: fs.ModeSymlink | 0o777}
}

func TestStoringMakesNoFileAndStaysBelowTheRoot(t *testing.T) {
	tree := sysfs.DirFS(t.TempDir())
	file := filepath.Join(tree.Dir(), "sriov_numvfs")
	require.ErrorIs(t, tree.Store("sriov_numvfs", "1\n"), os.ErrNotExist)
	require.NoFileExists(t, file)
	require.NoError(t, os.WriteFile(file, []byte("16\n"), 0o600))
	require.NoError(t, tree.Store("sriov_numvfs", "1\n"))
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, "1\n", string(content))
	for _, name := range []string{"../x", "/etc/x", "a/../../x", ""} {
		require.ErrorContains(t, tree.Store(name, "1"), "leads out of the host root", name)
	}
}

func FuzzSRIOV(f *testing.F) {
	f.Add("4", "16", "1")
	f.Add("-1", "0x10", "")
	f.Add("many", "99999999999999999999", "\x00")
	f.Fuzz(func(t *testing.T, n, total, autoprobe string) {
		m := sysfstest.NewMachine()
		m.Files("sys/bus/pci/devices/0000:3b:00.0", map[string]string{
			"sriov_numvfs": n, "sriov_totalvfs": total, "sriov_drivers_autoprobe": autoprobe,
		})
		state, err := sysfs.ReadSRIOV(m, inventory.PCIAddress{Bus: 0x3b})
		if err != nil {
			assert.ErrorContains(t, err, "0000:3b:00.0/sriov_")
			assert.Nil(t, state)
		}
	})
}
