package host_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/host"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

func TestTellsChosenDriverOnce(t *testing.T) {
	var mu sync.Mutex
	told := map[string]host.Choice{}
	disks := &reader{supports: only(inventory.Disk)}
	h, err := host.New(host.Config{FS: server(), Drivers: driver.Set{disks}, Chosen: func(c host.Choice) {
		mu.Lock()
		defer mu.Unlock()
		assert.NotContains(t, told, c.Place)
		told[c.Place] = c
	}})
	require.NoError(t, err)
	first := scan(t, h)
	require.NotEmpty(t, told)
	for _, c := range told {
		assert.Equal(t, inventory.Disk, c.Device.Class, "other devices have no driver")
		assert.Equal(t, "reader", c.Driver)
		assert.Equal(t, "1", c.Version)
		assert.Equal(t, disks.Support(c.Device), c.Support)
	}
	n := len(told)
	assert.Len(t, scan(t, h).Devices, len(first.Devices))
	assert.Len(t, told, n)
}

func TestFindsTiesWithoutReading(t *testing.T) {
	disks, nics := &reader{supports: only(inventory.Disk)}, &reader{supports: only(inventory.NIC)}
	require.NoError(t, newHost(t, server(), disks, nics).Ties(t.Context()))
	err := newHost(t, server(), disks, nics, &reader{supports: only(inventory.NIC)}).Ties(t.Context())
	require.ErrorContains(t, err, "choose driver for NIC")
	require.ErrorContains(t, err, "--disable-driver")
	assert.NotContains(t, err.Error(), "Disk")
	assert.Empty(t, disks.read)
	assert.Empty(t, nics.read)
}
