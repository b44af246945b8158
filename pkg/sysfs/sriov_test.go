package sysfs_test

import (
	"testing"

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
