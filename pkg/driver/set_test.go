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

// supplement has settings of adapters, and says what it was given.
type supplement struct {
	driver.SettingsOnly
	driver.Configurer
	to *driver.Configurer
}

func (supplement) Name() string    { return "kernel" }
func (supplement) Version() string { return "1" }

func (s supplement) Supplement(id inventory.Identity, own driver.Configurer) driver.Configurer {
	if id.Class != inventory.NIC {
		return own
	}
	*s.to = own
	return s
}

// The kernel has settings of devices whose firmware any driver reads, or none.
func TestSettingsOfTheKernelAreAddedToThoseOfTheDriver(t *testing.T) {
	var to driver.Configurer
	kernel := supplement{to: &to}
	sim := drivertest.NewSimulated("sim")
	card := inventory.Identity{Class: inventory.NIC, UniqueID: "card"}
	sim.Add(card, inventory.Firmware{Running: "1"})
	read := inventory.Device{Identity: card, Firmware: &inventory.Firmware{Running: "1"}, Driver: "sim"}

	c, err := driver.Set{sim, kernel}.Configurer(read)
	require.NoError(t, err)
	assert.Equal(t, kernel, c)
	assert.Equal(t, sim, to)
	c, err = driver.Set{kernel}.Configurer(inventory.Device{Identity: card})
	require.NoError(t, err, "no driver knows the card")
	assert.Equal(t, kernel, c)
	assert.Nil(t, to)
	c, err = driver.Set{fwupd.New(nil, nil), kernel}.Configurer(inventory.Device{
		Identity: inventory.Identity{Class: inventory.BIOS}, Firmware: &inventory.Firmware{Running: "1"}, Driver: "fwupd",
	})
	require.ErrorIs(t, err, driver.ErrNotSupported)
	require.ErrorContains(t, err, "driver fwupd reads and changes no settings")
	assert.Nil(t, c)
	_, err = driver.Set{kernel}.Configurer(inventory.Device{Identity: inventory.Identity{Class: inventory.Disk}})
	require.ErrorIs(t, err, driver.ErrNotSupported)
	require.ErrorContains(t, err, "no driver knows the device")

	other := drivertest.NewSimulated("other")
	other.Add(card, inventory.Firmware{Running: "1"})
	for name, c := range map[string]struct {
		set    driver.Set
		device inventory.Device
	}{
		"a tie":                           {driver.Set{sim, other, kernel}, read},
		"a device that could not be read": {driver.Set{sim, kernel}, inventory.Device{Identity: card, Driver: "sim"}},
		"a device that another driver read": {driver.Set{sim, kernel}, inventory.Device{
			Identity: card, Firmware: &inventory.Firmware{}, Driver: "other",
		}},
	} {
		_, err := c.set.Configurer(c.device)
		require.Error(t, err, name)
		assert.NotErrorIs(t, err, driver.ErrNotSupported, name)
	}
}

func TestADriverOfSettingsAloneHasToDoWithNoFirmware(t *testing.T) {
	var d driver.Driver = supplement{}
	id := inventory.Identity{Class: inventory.NIC, UniqueID: "card"}
	assert.Equal(t, driver.SupportNone, d.Support(id))
	got, fw, err := d.Inspect(t.Context(), id)
	assert.Equal(t, id, got)
	assert.Zero(t, fw)
	_, written := d.Write(t.Context(), id, driver.Image{}, nil)
	_, activated := d.Activate(t.Context(), id, inventory.ActivateDeviceReset)
	for _, err := range []error{err, d.Check(t.Context(), id, driver.Image{}), written, activated} {
		assert.ErrorIs(t, err, driver.ErrNotSupported)
	}
}
