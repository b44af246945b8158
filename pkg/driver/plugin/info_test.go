package plugin_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/nvme"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/plugin"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

func TestEveryListOfAMatchCounts(t *testing.T) {
	id := inventory.Identity{
		Class: inventory.NIC, Vendor: "Acme", VendorID: "1af4", DeviceID: "101d", Model: "N1", Transport: "usb", Kernel: "acme_core",
	}
	full := plugin.Match{
		Class: inventory.NIC, Support: driver.SupportVendor, Vendors: []string{"other", "ACME"}, VendorIDs: []string{"1AF4"},
		DeviceIDs: []string{"101d"}, Models: []string{"n1"}, Transports: []string{"usb"}, Kernel: []string{"acme_core"},
	}
	assert.True(t, full.Fits(id))
	assert.True(t, plugin.Match{Class: inventory.NIC}.Fits(id))
	for name, change := range map[string]func(*inventory.Identity){
		"class":     func(i *inventory.Identity) { i.Class = inventory.Disk },
		"vendor":    func(i *inventory.Identity) { i.Vendor = "" },
		"vendor id": func(i *inventory.Identity) { i.VendorID = "15b3" },
		"device id": func(i *inventory.Identity) { i.DeviceID = "101e" },
		"model":     func(i *inventory.Identity) { i.Model = "N2" },
		"transport": func(i *inventory.Identity) { i.Transport = "" },
		"kernel":    func(i *inventory.Identity) { i.Kernel = "e1000" },
		"a guest's": func(i *inventory.Identity) { i.Kernel = "vfio-pci" },
	} {
		other := id
		change(&other)
		assert.False(t, full.Fits(other), name)
	}
	info := plugin.Info{Matches: []plugin.Match{{Class: inventory.NIC, Support: driver.SupportGeneric}, full}}
	assert.Equal(t, driver.SupportVendor, info.Support(id), "the best match counts")
	id.Model = "N2"
	assert.Equal(t, driver.SupportGeneric, info.Support(id))
}

// A plugin for another vendor's device is picked for that device only, and what nobody knows has no driver.
// It proves R000-4, R000-60.
func TestPickedForItsDevicesOnly(t *testing.T) {
	m := newMachine(t)
	sim, _ := simulated(inventory.Firmware{})
	serve(t, sim, socket(m.dir, "acme-nic"))
	directory := m.directory()
	refresh(t, directory)
	set := append(driver.Set{nvme.New(m.runner)}, directory.Drivers(m.runner)...)
	for want, id := range map[string]inventory.Identity{
		"acme-nic": {Class: inventory.NIC, VendorID: "15b3"},
		"nvme":     {Class: inventory.Disk, Transport: "nvme", Node: "nvme0", VendorID: "15b3"},
		"":         {Class: inventory.NIC, VendorID: "8086"},
	} {
		d, err := set.For(id)
		require.NoError(t, err)
		if want == "" {
			assert.Nil(t, d)
			continue
		}
		assert.Equal(t, want, d.Name())
	}
}
