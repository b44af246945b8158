package driver_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/fwupd"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/mstflint"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/nvme"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

func TestTheDriversOfTheDaemonNeverClaimADeviceEqually(t *testing.T) {
	all := driver.Set{mstflint.New(nil), nvme.New(nil), fwupd.New(nil, nil)}
	for want, id := range map[string]inventory.Identity{
		"mstflint": {Class: inventory.NIC, VendorID: "15b3", Kernel: "mlx5_core", PCI: []inventory.PCIAddress{{Bus: 0x3b}}},
		"nvme":     {Class: inventory.Disk, Transport: "nvme", Node: "nvme0"},
		"fwupd":    {Class: inventory.BIOS},
		"":         {Class: inventory.NIC, VendorID: "8086", PCI: []inventory.PCIAddress{{Bus: 0x3b}}},
	} {
		d, err := all.For(id)
		require.NoError(t, err)
		if want == "" {
			assert.Nil(t, d)
			continue
		}
		assert.Equal(t, want, d.Name())
	}
}

func TestATieBetweenDriversIsAnError(t *testing.T) {
	id := inventory.Identity{Class: inventory.Disk, Transport: "nvme", Node: "nvme0", UniqueID: "drive"}
	first, second := drivertest.NewSimulated("first"), drivertest.NewSimulated("second")
	first.Add(id, inventory.Firmware{Running: "1"})
	d, err := driver.Set{nvme.New(nil), first}.For(id)
	require.NoError(t, err)
	assert.Equal(t, "first", d.Name(), "the better one wins")

	second.Add(id, inventory.Firmware{Running: "1"})
	_, err = driver.Set{first, nvme.New(nil), second}.For(id)
	require.ErrorContains(t, err, "first")
	assert.ErrorContains(t, err, "second")
}
