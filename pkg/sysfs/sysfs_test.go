package sysfs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/sysfs"
	"github.com/nodefirmware/node-firmware-operator/pkg/sysfs/sysfstest"
)

func address(t *testing.T, s string) inventory.PCIAddress {
	t.Helper()
	a, err := inventory.ParsePCIAddress(s)
	require.NoError(t, err)
	return a
}

func number(n int) *int { return &n }

func broken(m sysfstest.Machine, path string, err error) fs.FS {
	return sysfstest.Broken{FS: m, Errors: map[string]error{path: err}}
}

func TestEmptyTreeReadsNothing(t *testing.T) {
	for name, tree := range map[string]fs.FS{"memory": sysfstest.NewMachine(), "disk": os.DirFS(t.TempDir())} {
		t.Run(name, func(t *testing.T) {
			dmi, err := sysfs.ReadDMI(tree)
			require.NoError(t, err)
			assert.Nil(t, dmi)
			functions, err := sysfs.PCIFunctions(tree, sysfs.PCINetwork)
			require.NoError(t, err)
			assert.Empty(t, functions)
			interfaces, err := sysfs.NetInterfaces(tree)
			require.NoError(t, err)
			assert.Empty(t, interfaces)
			controllers, err := sysfs.NVMeControllers(tree)
			require.NoError(t, err)
			assert.Empty(t, controllers)
			disks, err := sysfs.SCSIDisks(tree)
			require.NoError(t, err)
			assert.Empty(t, disks)
			virtual, err := sysfs.VirtioDisks(tree)
			require.NoError(t, err)
			assert.Empty(t, virtual)
			entries, err := sysfs.ESRT(tree)
			require.NoError(t, err)
			assert.Empty(t, entries)
		})
	}
}

func TestPhysicalFunctionsOfClass(t *testing.T) {
	m := sysfstest.NewMachine()
	m.PCI(sysfstest.Function{Address: "0000:3b:00.1", Vendor: "15b3", Device: "101d", Class: "020700"})
	dir := m.PCI(sysfstest.Function{Address: "0000:3b:00.0", Vendor: "15b3", Device: "101d", Class: "020000", Driver: "mlx5_core"})
	m.PCI(sysfstest.Function{Address: "0000:3b:00.2", Vendor: "15b3", Device: "101e", Class: "020000", Physical: "0000:3b:00.0"})
	m.PCI(sysfstest.Function{Address: "0000:00:1f.0", Vendor: "8086", Device: "a143", Class: "060100"})
	m.Link("sys/bus/pci/devices/10000:01:00.0", dir)

	got, err := sysfs.PCIFunctions(m, sysfs.PCINetwork)
	require.NoError(t, err)
	assert.Equal(t, []sysfs.PCIFunction{
		{
			Address: address(t, "0000:3b:00.0"), Path: "sys/devices/pci0000:00/0000:00:01.0/0000:3b:00.0", Vendor: "15b3", Device: "101d",
			SubsystemVendor: "15b3", SubsystemDevice: "0001", Class: 0x020000, Driver: "mlx5_core",
		},
		{
			Address: address(t, "0000:3b:00.1"), Path: "sys/devices/pci0000:00/0000:00:01.0/0000:3b:00.1", Vendor: "15b3", Device: "101d",
			SubsystemVendor: "15b3", SubsystemDevice: "0001", Class: 0x020700,
		},
	}, got)
}

// ghw lists no function at all then.
func TestUnreadableEntryHidesNone(t *testing.T) {
	t.Setenv("PCIDB_PATH", os.DevNull)
	m := sysfstest.NewMachine()
	m.PCI(sysfstest.Function{Address: "0000:3b:00.0", Vendor: "15b3", Device: "101d", Class: "020000"})
	bridge := m.PCI(sysfstest.Function{Address: "0000:01:00.0", Vendor: "8086", Device: "0001", Class: "060400"})
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, m))
	want, err := sysfs.PCIFunctions(sysfs.DirFS(dir), sysfs.PCINetwork)
	require.NoError(t, err)
	require.Len(t, want, 1)

	require.NoError(t, os.Remove(filepath.Join(dir, bridge, "modalias")))
	got, err := sysfs.PCIFunctions(sysfs.DirFS(dir), sysfs.PCINetwork)
	require.NoError(t, err)
	assert.Equal(t, want, got)

	require.NoError(t, os.Remove(filepath.Join(dir, bridge, "class")))
	require.NoError(t, os.Mkdir(filepath.Join(dir, bridge, "class"), 0o700)) // a read fails with EISDIR
	_, err = sysfs.PCIFunctions(sysfs.DirFS(dir), sysfs.PCINetwork)
	require.ErrorContains(t, err, "0000:01:00.0/class", "what is not known may be a card: the list is not complete")
}

func TestPCISerialNumberIsFoundInTheExtendedCapabilities(t *testing.T) {
	m := sysfstest.NewMachine()
	m.PCI(sysfstest.Function{Address: "0000:3b:00.0", Vendor: "15b3", Device: "101d", Class: "020000"})
	functions, err := sysfs.PCIFunctions(m, sysfs.PCINetwork)
	require.NoError(t, err)
	got, err := sysfs.PCISerialNumber(m, functions[0])
	require.NoError(t, err)
	assert.Empty(t, got)

	config := make([]byte, 4096)
	copy(config[0x100:], []byte{0x01, 0x00, 0x01, 0x15}) // advanced error reporting, next at 0x150
	copy(config[0x150:], []byte{0x03, 0x00, 0x01, 0x00, 0x3a, 0x2b, 0x1c, 0x00, 0x03, 0x9f, 0x59, 0xb8})
	m.MapFS[functions[0].Path+"/config"] = &fstest.MapFile{Data: config}
	got, err = sysfs.PCISerialNumber(m, functions[0])
	require.NoError(t, err)
	assert.Equal(t, "b8599f03001c2b3a", got)

	m.MapFS[functions[0].Path+"/config"] = &fstest.MapFile{Data: config[:64]}
	got, err = sysfs.PCISerialNumber(m, functions[0])
	require.NoError(t, err)
	assert.Empty(t, got, "who is not root sees 64 bytes")
}

func TestNetInterfacesOfDevice(t *testing.T) {
	m := sysfstest.NewMachine()
	m.Virtual("veth0", "aa:bb:cc:dd:ee:ff")
	m.File("sys/class/net/bonding_masters", "bond0")
	function := m.PCI(sysfstest.Function{Address: "0000:3b:00.0", Vendor: "15b3", Device: "101d", Class: "020000", Driver: "mlx5_core"})
	m.Interface(function, "np0", map[string]string{"address": "B8:59:9F:00:00:01", "phys_port_name": "p0"})
	platform := "sys/devices/platform/a003e00.virtio_mmio"
	m.File(platform+"/modalias", "x")
	m.Interface(m.Virtio(platform, "virtio0", "virtio_net"), "eth0", map[string]string{"address": "02:00:00:00:00:01"})
	carrier := "sys/devices/pci0000:00/0000:00:01.0/0000:3b:00.0/net/np0/carrier"

	got, err := sysfs.NetInterfaces(broken(m, carrier, syscall.EINVAL))
	require.NoError(t, err)
	require.Len(t, got, 2)
	assert.Equal(t, "eth0", got[0].Name)
	assert.Nil(t, got[0].Device.Function, "not on the PCI bus")
	assert.Equal(t, platform+"/virtio0", got[0].Device.Path)
	assert.Equal(t, "virtio", got[0].Device.Subsystem)
	assert.Equal(t, number(1), got[0].Carrier)

	assert.Equal(t, "np0", got[1].Name)
	assert.Equal(t, address(t, "0000:3b:00.0"), got[1].Device.Function.Address)
	assert.Equal(t, "p0", got[1].PortName)
	assert.Equal(t, number(sysfs.ARPEthernet), got[1].Type)
	assert.Equal(t, "b8:59:9f:00:00:01", got[1].PermanentAddress())
	assert.Nil(t, got[1].Carrier, "an interface that is down has no carrier to read")
	require.NoError(t, got[1].Err)
}

func TestPermanentAddressIsNeverOneThatWasGiven(t *testing.T) {
	for name, test := range map[string]struct {
		sysfs.NetInterface
		want string
	}{
		"burned in":             {sysfs.NetInterface{Address: "b8:59:9f:00:00:01", AddressAssignment: number(0)}, "b8:59:9f:00:00:01"},
		"old kernel":            {sysfs.NetInterface{Address: "b8:59:9f:00:00:01"}, "b8:59:9f:00:00:01"},
		"random":                {sysfs.NetInterface{Address: "b8:59:9f:00:00:01", AddressAssignment: number(1)}, ""},
		"set by somebody":       {sysfs.NetInterface{Address: "b8:59:9f:00:00:01", AddressAssignment: number(3)}, ""},
		"member of a bond":      {sysfs.NetInterface{Address: "b8:59:9f:00:00:01", AddressAssignment: number(3), EnslavedAddress: "b8:59:9f:00:00:02"}, "b8:59:9f:00:00:02"},
		"none":                  {sysfs.NetInterface{Address: "00:00:00:00:00:00", AddressAssignment: number(0)}, ""},
		"not even all of zeros": {sysfs.NetInterface{}, ""},
	} {
		assert.Equal(t, test.want, test.PermanentAddress(), name)
	}
}

func TestNVMeControllersAreDrives(t *testing.T) {
	m := sysfstest.NewMachine()
	drive := map[string]string{"model": "SAMSUNG MZQL23T8HCLS-00A07   ", "serial": " S64HNE0 ", "firmware_rev": "GDC5602Q", "subsysnqn": "nqn.1994-11.com.samsung:nvme:PM9A3"}
	function := m.NVMe(sysfstest.Drive{Address: "0000:01:00.0", Name: "nvme0", Attributes: drive, WWIDs: []string{"eui.1", "eui.2"}})
	m.Files(function+"/nvme/nvme0/nvme0c0n3", map[string]string{"nsid": "3", "wwid": "eui.3"})
	nqn := map[string]string{"subsysnqn": "nqn.2016-06.io.example:drive1"}
	m.Fabric(sysfstest.Drive{Address: "traddr=10.0.0.1,trsvcid=4420", Name: "nvme1", Attributes: nqn, WWIDs: []string{"uuid.1"}})
	m.Fabric(sysfstest.Drive{Name: "nvme3", Attributes: map[string]string{"cntrltype": "discovery"}})
	m.Fabric(sysfstest.Drive{Name: "nvme4", Attributes: map[string]string{"subsysnqn": "nqn.2014-08.org.nvmexpress.discovery"}})
	virtual := m.NVMe(sysfstest.Drive{Address: "0000:01:00.1", Name: "nvme2"})
	m.Link(virtual+"/physfn", function)

	got, err := sysfs.NVMeControllers(m)
	require.NoError(t, err)
	require.Len(t, got, 4, "virtual functions are parts of a drive")
	remote := got[1]
	assert.Equal(t, []string{"nvme1", "tcp", "nqn.2016-06.io.example:drive1", "traddr=10.0.0.1,trsvcid=4420", "nvme-fabrics"},
		[]string{remote.Name, remote.Transport, remote.SubsystemNQN, remote.Address, remote.Device.Subsystem})
	assert.Nil(t, remote.Device.Function)
	assert.Equal(t, []sysfs.NVMeNamespace{{ID: 1, WWID: "uuid.1"}}, remote.Namespaces)
	assert.Equal(t, []bool{false, false, true, true}, []bool{got[0].Discovery, remote.Discovery, got[2].Discovery, got[3].Discovery})
	c := got[0]
	assert.Equal(t, []string{"nvme0", "SAMSUNG MZQL23T8HCLS-00A07", "S64HNE0", "GDC5602Q", "0000:01:00.0"}, []string{c.Name, c.Model, c.Serial, c.FirmwareRev, c.Address})
	assert.Equal(t, "nvme", c.Device.Driver)
	assert.Equal(t, address(t, "0000:01:00.0"), c.Device.Function.Address)
	assert.Equal(t, []sysfs.NVMeNamespace{{ID: 1, WWID: "eui.1"}, {ID: 2, WWID: "eui.2"}, {ID: 3, WWID: "eui.3"}}, c.Namespaces, "paths of multipath are namespaces")
}

func TestSCSIDisksTellTransport(t *testing.T) {
	m := sysfstest.NewMachine()
	hba := m.PCI(sysfstest.Function{Address: "0000:18:00.0", Vendor: "1000", Device: "00e6", Class: "010700", Driver: "mpt3sas"})
	m.SCSI(sysfstest.Disk{
		Below: hba, Address: "0:0:1:0", Serial: "ZC1ABCDE            ", Generic: "sg1", Block: "sda",
		Attributes: map[string]string{"vendor": "SEAGATE ", "model": "ST16000NM004J   ", "rev": "E004", "wwid": "naa.5000c500a1b2c3d4"},
	})
	m.SCSI(sysfstest.Disk{Below: hba, Address: "0:0:2:0", Attributes: map[string]string{"vendor": "ATA     ", "type": "20"}})
	m.SCSI(sysfstest.Disk{Below: hba, Address: "0:0:3:0", Attributes: map[string]string{"type": "13", "vendor": "AIC"}})
	other := m.SCSI(sysfstest.Disk{Below: hba, Address: "0:0:4:0"})
	m.MapFS[other+"/vpd_pg80"] = &fstest.MapFile{Data: []byte{0, 0x83, 0, 2, 'x', 'y'}}
	m.SCSI(sysfstest.Disk{Below: "sys/devices/platform/host9/session1", Address: "9:0:0:1"})
	m.SCSI(sysfstest.Disk{Below: hba + "/usb1/1-1/1-1:1.0", Address: "8:0:0:1"})
	m.SCSI(sysfstest.Disk{Below: hba + "/host7/rport-7:0-1", Address: "7:0:0:1"})
	m.SCSI(sysfstest.Disk{Below: hba + "/virtio3", Address: "6:0:0:1"})

	got, err := sysfs.SCSIDisks(m)
	require.NoError(t, err)
	transports := map[string]string{}
	for _, d := range got {
		require.NoError(t, d.Err)
		transports[d.Address] = d.Transport
	}
	assert.Equal(t, map[string]string{"0:0:1:0": "sas", "0:0:2:0": "sata", "0:0:4:0": "sas", "9:0:0:1": "iscsi", "8:0:0:1": "usb", "7:0:0:1": "fc", "6:0:0:1": "virtio"}, transports, "an enclosure is no disk")
	assert.Empty(t, got[2].Serial, "another page is no serial number")
	d := got[0]
	assert.Equal(t, []string{"SEAGATE", "ST16000NM004J", "E004", "ZC1ABCDE", "naa.5000c500a1b2c3d4", "sg1", "sda", "sd"}, []string{d.Vendor, d.Model, d.Rev, d.Serial, d.WWID, d.Generic, d.Block, d.Device.Driver})
}

func TestFindsVirtioOnAnyBus(t *testing.T) {
	m := sysfstest.NewMachine()
	function := m.PCI(sysfstest.Function{Address: "0000:00:02.0", Vendor: "1af4", Device: "1042", Class: "018000", Driver: "virtio-pci"})
	m.Block(m.Virtio(function, "virtio1", "virtio_blk"), "vda", "root-disk")
	m.Block(m.Virtio("sys/devices/platform/a003c00.virtio_mmio", "virtio2", "virtio_blk"), "vdb", "")
	m.SCSI(sysfstest.Disk{Below: function, Address: "0:0:0:0", Block: "sda"})
	m.File("sys/devices/virtual/block/loop0/size", "0")
	m.Link("sys/block/loop0", "sys/devices/virtual/block/loop0")

	got, err := sysfs.VirtioDisks(m)
	require.NoError(t, err)
	require.Len(t, got, 2)
	assert.Equal(t, "vda", got[0].Name)
	assert.Equal(t, "root-disk", got[0].Serial)
	assert.Equal(t, address(t, "0000:00:02.0"), got[0].Device.Function.Address)
	assert.Equal(t, "vdb", got[1].Name)
	assert.Nil(t, got[1].Device.Function)
}

func TestRootDMIFieldsEmptyToOthers(t *testing.T) {
	m := sysfstest.NewMachine()
	m.DMI(map[string]string{"sys_vendor": "Lenovo", "product_name": "7X21", "product_uuid": "x", "bios_version": "1.2 ", "bios_date": "01/31/2026", "bios_release": "1.2", "bios_vendor": "AMI"})
	got, err := sysfs.ReadDMI(broken(m, "sys/class/dmi/id/product_uuid", syscall.EACCES))
	require.NoError(t, err)
	assert.Equal(t, &sysfs.DMI{SystemVendor: "Lenovo", ProductName: "7X21", BIOSVersion: "1.2"}, got)

	_, err = sysfs.ReadDMI(broken(m, "sys/class/dmi/id/bios_version", syscall.EACCES))
	require.ErrorContains(t, err, "sys/class/dmi/id/bios_version", "what all may read is an error when it cannot be")
}

// ghw says "unknown" of both.
func TestAnAttributeOfDMIThatCannotBeReadIsNotAbsent(t *testing.T) {
	m := sysfstest.NewMachine()
	m.DMI(map[string]string{"sys_vendor": "unknown", "product_uuid": "x", "board_name": "B", "board_serial": "S"})
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, m))
	t.Setenv("GHW_CHROOT", t.TempDir())
	got, err := sysfs.ReadDMI(sysfs.DirFS(dir))
	require.NoError(t, err)
	assert.Equal(t, &sysfs.DMI{SystemVendor: "unknown", ProductUUID: "x", BoardName: "B", BoardSerial: "S"}, got)

	require.NoError(t, os.Mkdir(filepath.Join(dir, "sys/class/dmi/id/product_serial"), 0o700)) // a read fails with EISDIR
	_, err = sysfs.ReadDMI(sysfs.DirFS(dir))
	require.ErrorContains(t, err, "read sys/class/dmi/id/product_serial")
}

func TestESRTEntriesAreRead(t *testing.T) {
	m := sysfstest.NewMachine()
	m.Files("sys/firmware/efi/esrt/entries/entry0", map[string]string{
		"fw_class": "A1B2C3D4-0000-1111-2222-333344445555", "fw_type": "1", "fw_version": "65586",
		"lowest_supported_fw_version": "65537", "last_attempt_version": "65586", "last_attempt_status": "0",
	})
	got, err := sysfs.ESRT(m)
	require.NoError(t, err)
	assert.Equal(t, []sysfs.ESRTEntry{{
		Name: "entry0", Class: "a1b2c3d4-0000-1111-2222-333344445555", Type: number(sysfs.ESRTSystemFirmware),
		Version: number(65586), LowestSupportedVersion: number(65537), LastAttemptVersion: number(65586), LastAttemptStatus: number(0),
	}}, got)
	got, err = sysfs.ESRT(broken(m, "sys/firmware/efi/esrt/entries/entry0/fw_class", fs.ErrPermission))
	require.NoError(t, err)
	require.ErrorIs(t, got[0].Err, fs.ErrPermission)
	require.ErrorContains(t, got[0].Err, "entry0/fw_class")
}

func TestReadsFirmwareVariables(t *testing.T) {
	const guid = "8be4df61-93ca-11d2-aa0d-00e098032b8c"
	m := sysfstest.NewMachine()
	has, err := sysfs.HasEFIVariables(m)
	require.NoError(t, err)
	assert.False(t, has)
	got, err := sysfs.EFIVariable(m, "BootCurrent", guid)
	require.NoError(t, err)
	assert.Nil(t, got)
	m.File("sys/firmware/efi/efivars/BootCurrent-"+guid, "\x06\x00\x00\x00\x1a\x00")
	got, err = sysfs.EFIVariable(m, "BootCurrent", guid)
	require.NoError(t, err)
	assert.Equal(t, []byte{0x1a, 0}, got[:2])
	has, err = sysfs.HasEFIVariables(m)
	require.NoError(t, err)
	assert.True(t, has)
	m.MapFS["sys/firmware/efi/efivars/Short-"+guid] = &fstest.MapFile{Data: []byte{6, 0}}
	_, err = sysfs.EFIVariable(m, "Short", guid)
	require.ErrorContains(t, err, "2 bytes, want the 4 of the attributes first")
	_, err = sysfs.EFIVariable(broken(m, "sys/firmware/efi/efivars/BootCurrent-"+guid, syscall.EIO), "BootCurrent", guid)
	require.ErrorIs(t, err, syscall.EIO)
}

func TestReadsPartitionsFromUdev(t *testing.T) {
	m := sysfstest.NewMachine()
	id, kind, err := sysfs.PartitionEntry(m, "8:1")
	require.NoError(t, err)
	assert.Empty(t, id+kind, "udev knows nothing of it")
	m.File("run/udev/data/b8:1", "S:disk/by-partuuid/1\nE:ID_PART_ENTRY_UUID=0F1E2D3C-4b5a-6978-8796-a5b4c3d2e1f0\nE:ID_PART_ENTRY_TYPE=0xEF")
	id, kind, err = sysfs.PartitionEntry(m, "8:1")
	require.NoError(t, err)
	assert.Equal(t, "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0", id)
	assert.Equal(t, "0xef", kind)
}

func TestBootIDIsAUUID(t *testing.T) {
	m := sysfstest.NewMachine()
	got, err := sysfs.BootID(m)
	require.NoError(t, err)
	assert.Equal(t, "11111111-2222-3333-4444-555555555555", got)
	m.File("proc/sys/kernel/random/boot_id", "yesterday")
	_, err = sysfs.BootID(m)
	require.ErrorContains(t, err, "boot_id")
	m.Remove("proc")
	got, err = sysfs.BootID(m)
	require.NoError(t, err)
	assert.Empty(t, got)
}

func TestAnUnreadableAttributeIsAnErrorOfItsEntryAlone(t *testing.T) {
	m := sysfstest.NewMachine()
	a := m.PCI(sysfstest.Function{Address: "0000:3b:00.0", Vendor: "15b3", Device: "101d", Class: "020000"})
	m.PCI(sysfstest.Function{Address: "0000:3c:00.0", Vendor: "15b3", Device: "101d", Class: "020000"})
	for attribute, err := range map[string]error{"vendor": syscall.EIO, "subsystem_device": syscall.EIO} {
		got, listErr := sysfs.PCIFunctions(broken(m, a+"/"+attribute, err), sysfs.PCINetwork)
		require.NoError(t, listErr)
		require.Len(t, got, 2)
		require.ErrorIs(t, got[0].Err, err)
		require.ErrorContains(t, got[0].Err, a+"/"+attribute)
		require.NoError(t, got[1].Err)
	}
	m.File(a+"/vendor", strings.Repeat("0", 5000))
	got, err := sysfs.PCIFunctions(m, sysfs.PCINetwork)
	require.NoError(t, err)
	require.ErrorContains(t, got[0].Err, "more than 4096 bytes")
	m.File(a+"/vendor", "Mellanox")
	got, err = sysfs.PCIFunctions(m, sysfs.PCINetwork)
	require.NoError(t, err)
	require.ErrorContains(t, got[0].Err, "not a hexadecimal number")
}

func TestUnreadableListIsAnError(t *testing.T) {
	m := sysfstest.NewMachine()
	m.NVMe(sysfstest.Drive{Address: "0000:01:00.0", Name: "nvme0"})
	for dir, read := range map[string]func(fs.FS) error{
		"sys/bus/pci/devices":           func(f fs.FS) error { _, err := sysfs.PCIFunctions(f, sysfs.PCINetwork); return err },
		"sys/class/net":                 func(f fs.FS) error { _, err := sysfs.NetInterfaces(f); return err },
		"sys/class/nvme":                func(f fs.FS) error { _, err := sysfs.NVMeControllers(f); return err },
		"sys/class/nvme/nvme0":          func(f fs.FS) error { _, err := sysfs.NVMeControllers(f); return err },
		"sys/class/scsi_device":         func(f fs.FS) error { _, err := sysfs.SCSIDisks(f); return err },
		"sys/block":                     func(f fs.FS) error { _, err := sysfs.VirtioDisks(f); return err },
		"sys/firmware/efi/esrt/entries": func(f fs.FS) error { _, err := sysfs.ESRT(f); return err },
	} {
		err := read(broken(m, dir, syscall.EIO))
		require.ErrorIs(t, err, syscall.EIO, dir)
		require.ErrorContains(t, err, dir)
	}
}

func TestRefusesLinkOutOfRoot(t *testing.T) {
	m := sysfstest.NewMachine()
	m.Link("sys/class/net/evil", "sys/devices/x")
	m.MapFS["sys/class/net/evil"].Data = []byte("../../../../etc")
	_, err := sysfs.NetInterfaces(m)
	require.ErrorContains(t, err, "leads out of the host root")
}

func TestMakesDeviceTextPrintable(t *testing.T) {
	m := sysfstest.NewMachine()
	m.NVMe(sysfstest.Drive{Address: "0000:01:00.0", Name: "nvme0", Attributes: map[string]string{"model": "A\x00B\xff\x1b[31m  \x00"}})
	got, err := sysfs.NVMeControllers(m)
	require.NoError(t, err)
	assert.Equal(t, "A B  [31m", got[0].Model)
}

func TestFingerprintChangesWithDevicesAndNotWithContainers(t *testing.T) {
	m := sysfstest.NewMachine()
	function := m.PCI(sysfstest.Function{Address: "0000:3b:00.0", Vendor: "15b3", Device: "101d", Class: "020000"})
	virtual := m.PCI(sysfstest.Function{Address: "0000:3b:00.2", Vendor: "15b3", Device: "101e", Class: "020000", Physical: "0000:3b:00.0"})
	port := m.Interface(function, "eth0", nil)
	print := func() string {
		t.Helper()
		got, err := sysfs.Fingerprint(m)
		require.NoError(t, err)
		return got
	}
	before := print()
	m.Virtual("veth1", "aa:bb:cc:dd:ee:ff")
	m.Interface(virtual, "eth7", nil)
	m.PCI(sysfstest.Function{Address: "0000:3b:00.3", Vendor: "15b3", Device: "101e", Class: "020000", Physical: "0000:3b:00.0"})
	m.File(port+"/operstate", "down")
	assert.Equal(t, before, print())

	for name, change := range map[string]func(){
		"drive added":       func() { m.NVMe(sysfstest.Drive{Address: "0000:01:00.0", Name: "nvme0"}) },
		"disk added":        func() { m.SCSI(sysfstest.Disk{Below: function, Address: "0:0:0:0"}) },
		"interface renamed": func() { m.Remove(port); m.Interface(function, "lan0", nil) },
		"card removed":      func() { m.Remove(function) },
	} {
		before := print()
		change()
		assert.NotEqual(t, before, print(), name)
	}
	_, err := sysfs.Fingerprint(broken(m, "sys/class/net", syscall.EIO))
	require.ErrorContains(t, err, "sys/class/net")
}

// TestTheTreeOnADiskReadsLikeTheOneInMemory shows that ghw, which reads the one on disk, gives the same facts.
func TestTheTreeOnADiskReadsLikeTheOneInMemory(t *testing.T) {
	m := sysfstest.NewMachine()
	function := m.PCI(sysfstest.Function{Address: "0000:3b:00.0", Vendor: "15b3", Device: "101d", Class: "020000", Driver: "mlx5_core"})
	m.Interface(function, "eth0", map[string]string{"address": "b8:59:9f:00:00:01"})
	m.NVMe(sysfstest.Drive{Address: "0000:01:00.0", Name: "nvme0", WWIDs: []string{"eui.1"}})
	m.SCSI(sysfstest.Disk{Below: function, Address: "0:0:0:0", Generic: "sg0", Block: "sda", Serial: "x"})
	m.DMI(map[string]string{
		"sys_vendor": "Lenovo", "product_name": "7X21", "product_sku": " ", "product_serial": "J1", "product_uuid": "U",
		"board_name": "B", "board_serial": "S", "bios_version": "1.2 ", "bios_vendor": "AMI",
	})
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, m))
	disk := sysfs.DirFS(dir)
	for _, read := range []func(fs.FS) (any, error){
		func(f fs.FS) (any, error) { return sysfs.PCIFunctions(f, sysfs.PCINetwork) },
		func(f fs.FS) (any, error) { return sysfs.ReadDMI(f) },
		func(f fs.FS) (any, error) { return sysfs.NetInterfaces(f) },
		func(f fs.FS) (any, error) { return sysfs.NVMeControllers(f) },
		func(f fs.FS) (any, error) { return sysfs.SCSIDisks(f) },
		func(f fs.FS) (any, error) { return sysfs.VirtioDisks(f) },
		func(f fs.FS) (any, error) { return sysfs.Fingerprint(f) },
	} {
		want, err := read(m)
		require.NoError(t, err)
		got, err := read(disk)
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
}

func TestSCSIHostsOfControllers(t *testing.T) {
	m := sysfstest.NewMachine()
	hba := m.PCI(sysfstest.Function{Address: "0000:18:00.0", Vendor: "1000", Device: "00ac", Class: "010700", Driver: "mpt3sas"})
	m.SCSIHost(hba, "host0", map[string]string{"host_sas_address": "0x500605b00dd9c7b0", "board_tracer": "SP81928512 ", "board_assembly": "03-50008-15003"})
	smart := m.PCI(sysfstest.Function{Address: "0000:19:00.0", Vendor: "9005", Device: "028f", Class: "010700", Driver: "smartpqi"})
	m.SCSIHost(smart, "host1", map[string]string{"serial_number": "7A4512"})
	m.File(smart+"/host1/phy-1:0/sas_phy/phy-1:0/sas_address", "0x50000d1e00a2c3d0")
	raid := m.PCI(sysfstest.Function{Address: "0000:1a:00.0", Vendor: "1000", Device: "005d", Class: "010400", Driver: "megaraid_sas"})
	m.SCSIHost(raid, "host2", nil)
	m.SCSIHost("sys/devices/pci0000:00/0000:00:17.0/ata1", "host3", nil)
	m.SCSIHost("sys/devices/platform", "host4", nil)

	got, err := sysfs.SCSIHosts(m)
	require.NoError(t, err)
	assert.Equal(t, []sysfs.SCSIHost{
		{Name: "host0", Function: hba, SASAddress: "500605b00dd9c7b0", Serial: "SP81928512", PartNumber: "03-50008-15003"},
		{Name: "host1", Function: smart, SASAddress: "50000d1e00a2c3d0", Serial: "7A4512"},
		{Name: "host2", Function: raid},
	}, got)
}
