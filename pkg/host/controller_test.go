package host_test

import (
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/host"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/sysfs/sysfstest"
)

func raid(address, driver string) sysfstest.Function {
	return sysfstest.Function{Address: address, Vendor: "1000", Device: "005d", Class: "010400", Driver: driver}
}

func controllers(t *testing.T, m sysfstest.Machine) []inventory.Device {
	t.Helper()
	inv := scan(t, newHost(t, m))
	require.Empty(t, inv.Incomplete)
	var found []inventory.Device
	for _, d := range inv.Devices {
		if d.Class == inventory.StorageController {
			found = append(found, d)
		}
	}
	return found
}

// A controller that no driver of this product knows is listed with what the kernel says of it, and without firmware.
func TestControllerIsOneDevice(t *testing.T) {
	m := sysfstest.NewMachine()
	hba := m.PCI(sysfstest.Function{Address: "0000:03:00.0", Vendor: "1000", Device: "00ac", Class: "010700", Driver: "mpt3sas"})
	m.SCSIHost(hba, "host4", map[string]string{
		"host_sas_address": "0x500605b00dd9c7b0", "board_tracer": "SP81928512", "board_assembly": "03-50008-15003",
	})
	m.SCSI(sysfstest.Disk{Below: hba, Address: "4:0:1:0", Attributes: map[string]string{"wwid": "naa.5000c500a1b2c3d4"}})
	assert.Equal(t, []inventory.Device{{Identity: inventory.Identity{
		Class: inventory.StorageController, UniqueID: "500605b00dd9c7b0", Vendor: "Broadcom / LSI", VendorID: "1000", DeviceID: "00ac",
		SubsystemVendorID: "1000", SubsystemDeviceID: "0001",
		Model: "SAS3416 Fusion-MPT Tri-Mode I/O Controller Chip (IOC)", PartNumber: "03-50008-15003", SerialNumber: "SP81928512",
		PCI: []inventory.PCIAddress{{Bus: 3}}, Kernel: "mpt3sas",
	}}}, controllers(t, m))
}

func TestNonControllerFunctions(t *testing.T) {
	for name, f := range map[string]sysfstest.Function{
		"AHCI":                   {Class: "010601", Driver: "ahci"},
		"AHCI that says RAID":    {Class: "010400", Driver: "ahci"},
		"Intel VMD":              {Class: "010400", Driver: "vmd"},
		"SAS of a chipset":       {Class: "010700", Driver: "isci"},
		"IDE":                    {Class: "010180", Driver: "ata_piix"},
		"NVMe":                   {Class: "010802", Driver: "nvme"},
		"virtio":                 {Class: "010000", Driver: "virtio-pci"},
		"VMware":                 {Class: "010700", Driver: "vmw_pvscsi"},
		"something else":         {Class: "018000"},
		"network, subclass RAID": {Class: "020400"},
	} {
		t.Run(name, func(t *testing.T) {
			f.Address, f.Vendor, f.Device = "0000:17:00.0", "8086", "2826"
			m := sysfstest.NewMachine()
			m.PCI(f)
			assert.Empty(t, controllers(t, m))
		})
	}
}

func TestControllerUniqueIDs(t *testing.T) {
	dsn := make([]byte, 0x10c)
	copy(dsn[0x100:], []byte{0x03, 0x00, 0x01, 0x00, 0xb0, 0xc7, 0xd9, 0x0d, 0xb0, 0x05, 0x06, 0x50})
	for name, test := range map[string]struct {
		build func(m sysfstest.Machine, dir string)
		want  string
	}{
		"its address": {func(m sysfstest.Machine, dir string) {
			m.MapFS[dir+"/config"] = &fstest.MapFile{Data: dsn}
			m.SCSIHost(dir, "host0", map[string]string{"host_sas_address": "0x500605B00DD9C7B0"})
		}, "500605b00dd9c7b0"},
		"lowest of its own phys": {func(m sysfstest.Machine, dir string) {
			m.SCSIHost(dir, "host0", map[string]string{"serial_number": "7A45"})
			for phy, address := range map[string]string{"phy-0:0": "0x0", "phy-0:1": "0x50000d1e00a2c3d1", "phy-0:2": "0x50000d1e00a2c3d0"} {
				m.File(dir+"/host0/"+phy+"/sas_phy/"+phy+"/sas_address", address)
			}
			m.File(dir+"/host0/port-0:0/expander-0:0/phy-0:0:0/sas_phy/phy-0:0:0/sas_address", "0x1")
		}, "50000d1e00a2c3d0"},
		"device serial number": {func(m sysfstest.Machine, dir string) {
			m.MapFS[dir+"/config"] = &fstest.MapFile{Data: dsn}
			m.SCSIHost(dir, "host0", map[string]string{"serial_number": "7A45"})
		}, "dsn.500605b00dd9c7b0"},
		"serial number of the board": {func(m sysfstest.Machine, dir string) {
			m.SCSIHost(dir, "host0", map[string]string{"host_sas_address": "0x0000000000000000", "serial_number": "7A45 B"})
		}, "board.1000-005d-7A45-B"},
		"a serial number nobody set": {func(m sysfstest.Machine, dir string) {
			m.SCSIHost(dir, "host0", map[string]string{"board_tracer": "N/A"})
		}, "pci.1000-005d.0000:3b:00.0"},
		"no better than a slot": {func(sysfstest.Machine, string) {}, "pci.1000-005d.0000:3b:00.0"},
	} {
		t.Run(name, func(t *testing.T) {
			m := sysfstest.NewMachine()
			test.build(m, m.PCI(raid("0000:3b:00.0", "megaraid_sas")))
			found := controllers(t, m)
			require.Len(t, found, 1)
			require.NoError(t, found[0].Err)
			assert.Equal(t, test.want, found[0].UniqueID)
		})
	}
	assert.True(t, host.WeakerID("pci.1000-005d.0000:3b:00.0", "500605b00dd9c7b0"))
	assert.True(t, host.WeakerID("board.1000-005d-7A45", "500605b00dd9c7b0"))
}

func TestChannelsOfAnAdapterAreOneStorageController(t *testing.T) {
	m := sysfstest.NewMachine()
	m.PCI(raid("0000:3b:00.0", "mptspi"))
	m.PCI(raid("0000:3b:00.1", "vfio-pci"))
	m.PCI(raid("0000:3c:00.0", "megaraid_sas"))
	sibling := raid("0000:3b:00.2", "mpt3sas")
	sibling.Device = "0097"
	m.PCI(sibling)
	found := controllers(t, m)
	require.Len(t, found, 3, "another chip in the slot, and the one of another slot, are controllers of their own")
	var places []string
	for _, d := range found {
		places = append(places, d.UniqueID)
	}
	assert.Equal(t, []string{"pci.1000-005d.0000:3b:00.0", "pci.1000-005d.0000:3c:00.0", "pci.1000-0097.0000:3b:00.2"}, places)
	assert.Equal(t, []inventory.PCIAddress{{Bus: 0x3b}, {Bus: 0x3b, Function: 1}}, found[0].PCI)
	assert.Equal(t, "vfio-pci", found[0].Kernel, "a virtual machine that has one function has the card")
}

func TestStorageControllersThatClaimOneAddressAreNotUpdated(t *testing.T) {
	m := sysfstest.NewMachine()
	for i, address := range []string{"0000:3b:00.0", "0000:3c:00.0"} {
		m.SCSIHost(m.PCI(raid(address, "mpt3sas")), "host"+string(rune('0'+i)), map[string]string{"host_sas_address": "0x500605b000000001"})
	}
	found := controllers(t, m)
	require.Len(t, found, 2)
	for _, d := range found {
		require.ErrorContains(t, d.Err, "2 devices claim the unique id 500605b000000001")
	}
}

func TestAnAttributeOfAStorageControllerThatIsWrongIsItsError(t *testing.T) {
	m := sysfstest.NewMachine()
	m.SCSIHost(m.PCI(raid("0000:3b:00.0", "mpt3sas")), "host0", map[string]string{"host_sas_address": "none"})
	m.PCI(raid("0000:3c:00.0", "mpt3sas"))
	found := controllers(t, m)
	require.Len(t, found, 2)
	require.ErrorContains(t, found[0].Err, `host_sas_address: "none" is not a SAS address`)
	require.NoError(t, found[1].Err)
}
