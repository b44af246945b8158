package driver_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/devlink"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/fwupd"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/mstflint"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/nvme"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/scsi"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// TestTheBestDriverIsChosenByClassVendorAndModel proves R000-60.
func TestTheBestDriverIsChosenByClassVendorAndModel(t *testing.T) {
	all := driver.Set{mstflint.New(nil, nil), nvme.New(nil), scsi.New(nil), fwupd.New(nil, nil), fwupd.NewATA(nil), devlink.New(nil, nil, nil)}
	for want, id := range map[string]inventory.Identity{
		"mstflint":  {Class: inventory.NIC, VendorID: "15b3", Kernel: "mlx5_core", PCI: []inventory.PCIAddress{{Bus: 0x3b}}},
		"nvme":      {Class: inventory.Disk, Transport: "nvme", Node: "nvme0"},
		"fwupd":     {Class: inventory.BIOS},
		"scsi":      {Class: inventory.Disk, Transport: "sas", Node: "sg0"},
		"fwupd-ata": {Class: inventory.Disk, Transport: "sata", Node: "sg1"},
		"devlink":   {Class: inventory.NIC, VendorID: "8086", Kernel: "ice", PCI: []inventory.PCIAddress{{Bus: 0x3b}}},
		"":          {Class: inventory.NIC, VendorID: "8086", PCI: []inventory.PCIAddress{{Bus: 0x3b}}},
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

func TestDriverTieIsAnError(t *testing.T) {
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

// withoutTool is a driver whose tool is missing.
type withoutTool struct{ *drivertest.Simulated }

func (withoutTool) Usable() error { return errors.New("its tool is not installed") }

func (d withoutTool) Archive(context.Context, inventory.Identity, string) error { return nil }

func TestADriverWithoutItsToolGivesWayToOneThatWorks(t *testing.T) {
	id := inventory.Identity{Class: inventory.Disk, Transport: "nvme", Node: "nvme0", UniqueID: "drive"}
	vendor := withoutTool{drivertest.NewSimulated("vendor")}
	vendor.Add(id, inventory.Firmware{Running: "1"})
	set := driver.Set{vendor, nvme.New(nil)}
	d, err := set.For(id)
	require.NoError(t, err)
	assert.Equal(t, "vendor", d.Name(), "nobody was asked yet")

	probed, reasons := set.Probed()
	require.ErrorContains(t, reasons["vendor"], "not installed")
	assert.Len(t, reasons, 1)
	d, err = probed.For(id)
	require.NoError(t, err)
	assert.Equal(t, "nvme", d.Name())

	alone, _ := driver.Set{vendor}.Probed()
	d, err = alone.For(id)
	require.NoError(t, err)
	assert.Equal(t, driver.Driver(vendor), d, "what it says of the device is what to do about it; it is the driver itself")
	assert.Implements(t, (*driver.Archiver)(nil), alone.All()[0])

	two, _ := driver.Set{vendor, withoutTool{vendor.Simulated}}.Probed()
	_, err = two.For(id)
	require.ErrorContains(t, err, "claim it equally")
}

func TestDeviceBelongsToItsReader(t *testing.T) {
	id := inventory.Identity{Class: inventory.Disk, Transport: "nvme", Node: "nvme0", UniqueID: "drive"}
	vendor := drivertest.NewSimulated("vendor")
	vendor.Add(id, inventory.Firmware{Running: "1"})
	set := driver.Set{nvme.New(nil), vendor}
	read := inventory.Device{Identity: id, Driver: "vendor", Firmware: &inventory.Firmware{Running: "1"}}
	d, err := set.Of(read)
	require.NoError(t, err)
	assert.Equal(t, "vendor", d.Name())

	unread, other, unknown := read, read, read
	unread.Firmware = nil
	other.Driver = "nvme"
	unknown.Class, unknown.UniqueID = inventory.BIOS, "board"
	for want, device := range map[string]inventory.Device{
		"no driver reads the device": unread, "driver nvme reads the device and vendor claims it then": other,
	} {
		_, err = set.Of(device)
		assert.ErrorContains(t, err, want)
	}
	_, err = set.Of(unknown)
	assert.ErrorContains(t, err, "no driver reads the device", "nobody claims it any more")
	_, err = driver.Set{nvme.New(nil)}.Of(read)
	assert.ErrorContains(t, err, "driver vendor reads the device and nvme claims it then", "the one that read it is gone")
}

func TestDriversCanBeLeftOutByName(t *testing.T) {
	set := driver.Set{mstflint.New(nil, nil), nvme.New(nil)}
	rest, err := set.Without("mstflint", "mstflint")
	require.NoError(t, err)
	require.Len(t, rest, 1)
	assert.Equal(t, "nvme", rest[0].Name())
	assert.Len(t, set, 2)
	_, err = set.Without("mstflnt")
	require.ErrorContains(t, err, `"mstflnt"`)
}

// outOfReach is a driver that cannot reach the devices of one address.
type outOfReach struct {
	*drivertest.Simulated
	unique string
}

func (d outOfReach) Reaches(id inventory.Identity) error {
	if id.UniqueID == d.unique {
		return errors.New("the kernel does not let it")
	}
	return nil
}

func TestADriverGivesWayForTheDevicesThatItDoesNotReach(t *testing.T) {
	near := inventory.Identity{Class: inventory.Disk, Transport: "nvme", Node: "nvme0", UniqueID: "near"}
	far := inventory.Identity{Class: inventory.Disk, Transport: "nvme", Node: "nvme1", UniqueID: "far"}
	vendor := outOfReach{drivertest.NewSimulated("vendor"), "far"}
	vendor.Add(near, inventory.Firmware{Running: "1"})
	vendor.Add(far, inventory.Firmware{Running: "1"})
	set, reasons := driver.Set{vendor, nvme.New(nil)}.Probed()
	assert.Empty(t, reasons, "it works on this machine")

	d, passed, err := set.Choose(near)
	require.NoError(t, err)
	assert.Equal(t, "vendor", d.Name())
	assert.Empty(t, passed, "a driver that supports the device less was not passed over")
	d, passed, err = set.Choose(far)
	require.NoError(t, err)
	assert.Equal(t, "nvme", d.Name())
	require.Len(t, passed, 1)
	require.ErrorContains(t, passed["vendor"], "the kernel does not let it")

	d, passed, err = driver.Set{vendor}.Choose(far)
	require.NoError(t, err)
	assert.Equal(t, "vendor", d.Name(), "its error says what to do about the device")
	assert.Empty(t, passed)
}

func TestBothWaysOfAnActivationToSayThatMoreIsNeeded(t *testing.T) {
	other := errors.New("no answer")
	for _, c := range []struct {
		needs  inventory.Activation
		err    error
		still  inventory.Activation
		reason string
		fails  error
	}{
		{needs: inventory.ActivateReboot, still: inventory.ActivateReboot},
		{err: &driver.NotEnoughError{Needs: inventory.ActivateReboot, Reason: "in use"}, still: inventory.ActivateReboot, reason: "in use"},
		{err: other, fails: other},
	} {
		still, reason, err := driver.StillNeeded(c.needs, c.err)
		assert.Equal(t, c.still, still)
		assert.Equal(t, c.reason, reason)
		assert.Equal(t, c.fails, err)
	}
}
