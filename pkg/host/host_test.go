package host_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/host"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/sysfs/sysfstest"
)

// reader is a driver that reads devices with a function and writes none.
type reader struct {
	driver.Updater
	supports func(inventory.Identity) bool
	inspect  func(context.Context, inventory.Identity) (inventory.Identity, inventory.Firmware, error)
	mu       sync.Mutex
	read     []string
}

func (r *reader) Name() string    { return "reader" }
func (r *reader) Version() string { return "1" }

func (r *reader) Support(id inventory.Identity) driver.Support {
	if r.supports == nil || r.supports(id) {
		return driver.SupportMainline
	}
	return driver.SupportNone
}

func (r *reader) Inspect(ctx context.Context, id inventory.Identity) (inventory.Identity, inventory.Firmware, error) {
	r.mu.Lock()
	r.read = append(r.read, id.UniqueID)
	r.mu.Unlock()
	if r.inspect != nil {
		return r.inspect(ctx, id)
	}
	return id, inventory.Firmware{Running: "1.0", Stored: "1.0"}, nil
}

// only supports devices of one class.
func only(c inventory.Class) func(inventory.Identity) bool {
	return func(id inventory.Identity) bool { return id.Class == c }
}

func newHost(t testing.TB, tree fs.FS, drivers ...driver.Driver) *host.Host {
	t.Helper()
	h, err := host.New(host.Config{FS: tree, Drivers: drivers})
	require.NoError(t, err)
	return h
}

func scan(t testing.TB, h *host.Host) host.Inventory {
	t.Helper()
	inv, err := h.Scan(context.Background())
	require.NoError(t, err)
	return inv
}

func ids(devices []inventory.Device) []string {
	out := []string{}
	for _, d := range devices {
		out = append(out, string(d.Class)+" "+d.UniqueID)
	}
	return out
}

func mlx(address string) sysfstest.Function {
	return sysfstest.Function{Address: address, Vendor: "15b3", Device: "101d", Class: "020000", Driver: "mlx5_core"}
}

// addCard plugs in a card with ports whose MACs count up from base.
func addCard(m sysfstest.Machine, slot string, base, ports int, names func() string) {
	for p := range ports {
		dir := m.PCI(mlx(fmt.Sprintf("%s.%d", slot, p)))
		m.Interface(dir, names(), map[string]string{"address": mac(base + p)})
	}
}

func mac(n int) string { return fmt.Sprintf("b8:59:9f:00:%02x:%02x", n>>8&0xff, n&0xff) }

func counter(prefix string) func() string {
	n := -1
	return func() string { n++; return fmt.Sprintf("%s%d", prefix, n) }
}

// server is a machine with one of everything.
func server() sysfstest.Machine {
	m := sysfstest.NewMachine()
	addCard(m, "0000:3b:00", 0x10, 2, counter("eth"))
	m.NVMe(sysfstest.Drive{Address: "0000:01:00.0", Name: "nvme0", Attributes: map[string]string{"model": "PM9A3", "serial": "S1"}, WWIDs: []string{"eui.01", "eui.02"}})
	hba := m.PCI(sysfstest.Function{Address: "0000:18:00.0", Vendor: "1000", Device: "00e6", Class: "010700", Driver: "mpt3sas"})
	m.SCSIHost(hba, "host0", map[string]string{"host_sas_address": "0x500605b00dd9c7b0"})
	m.SCSI(sysfstest.Disk{Below: hba, Address: "0:0:1:0", Generic: "sg2", Block: "sda", Serial: "ZC1", Attributes: map[string]string{"vendor": "SEAGATE", "model": "ST16", "wwid": "naa.5000c500a1b2c3d4"}})
	m.DMI(map[string]string{"sys_vendor": "Lenovo", "product_name": "7X21", "product_uuid": "4C4C4544-0000-1111-2222-333344445555", "product_serial": "J1", "bios_vendor": "AMI", "bios_version": "1.2", "bios_date": "01/31/2026"})
	return m
}

var serverIDs = []string{"BIOS 4c4c4544-0000-1111-2222-333344445555", "Disk eui.01", "Disk naa.5000c500a1b2c3d4", "NIC " + mac(0x10), "StorageController 500605b00dd9c7b0"}

// R001-1, R001-4: devices appear by themselves, one per card and drive, with their ports.
func TestOneDevicePerCardAndDrive(t *testing.T) {
	inv := scan(t, newHost(t, server(), &reader{}))
	assert.Empty(t, inv.Incomplete)
	assert.Equal(t, serverIDs, ids(inv.Devices))
	assert.Equal(t, "11111111-2222-3333-4444-555555555555", inv.BootID)
	assert.Equal(t, &inventory.Machine{Manufacturer: "Lenovo", Model: "7X21", SerialNumber: "J1", UUID: "4C4C4544-0000-1111-2222-333344445555"}, inv.Machine)

	read := &inventory.Firmware{Running: "1.0", Stored: "1.0"}
	first, second := inventory.PCIAddress{Bus: 0x3b}, inventory.PCIAddress{Bus: 0x3b, Function: 1}
	assert.Equal(t, inventory.Device{
		Identity: inventory.Identity{
			Class: inventory.NIC, UniqueID: mac(0x10), Vendor: "Mellanox Technologies", VendorID: "15b3", DeviceID: "101d",
			SubsystemVendorID: "15b3", SubsystemDeviceID: "0001",
			Model: "MT2892 Family [ConnectX-6 Dx]", PCI: []inventory.PCIAddress{first, second}, Node: "eth0", Kernel: "mlx5_core",
		},
		Ports: []inventory.Port{
			{PCI: first, NetDevice: "eth0", Link: inventory.Ethernet, State: inventory.LinkUp, MAC: mac(0x10)},
			{PCI: second, NetDevice: "eth1", Link: inventory.Ethernet, State: inventory.LinkUp, MAC: mac(0x11)},
		},
		Firmware: read, Driver: "reader",
	}, inv.Devices[3])
	assert.Equal(t, inventory.Identity{
		Class: inventory.Disk, UniqueID: "eui.01", Vendor: "Samsung Electronics Co Ltd", VendorID: "144d", DeviceID: "a808",
		SubsystemVendorID: "144d", SubsystemDeviceID: "0001",
		Model: "PM9A3", SerialNumber: "S1", PCI: []inventory.PCIAddress{{Bus: 1}}, Node: "nvme0", Kernel: "nvme", Transport: "nvme",
	}, inv.Devices[1].Identity)
	assert.Equal(t, inventory.Identity{
		Class: inventory.Disk, UniqueID: "naa.5000c500a1b2c3d4", Vendor: "SEAGATE", Model: "ST16", SerialNumber: "ZC1",
		Node: "sg2", Kernel: "sd", Transport: "sas",
	}, inv.Devices[2].Identity)
	assert.Equal(t, inventory.Identity{
		Class: inventory.BIOS, UniqueID: "4c4c4544-0000-1111-2222-333344445555", Vendor: "Lenovo", Model: "7X21", SerialNumber: "J1",
	}, inv.Devices[0].Identity)
}

func TestScanFindsTheParavirtualDevicesOfAMachineWithoutDMI(t *testing.T) {
	m := sysfstest.NewMachine()
	function := m.PCI(sysfstest.Function{Address: "0000:00:03.0", Vendor: "1af4", Device: "1041", Class: "020000", Driver: "virtio-pci"})
	m.Interface(m.Virtio(function, "virtio2", "virtio_net"), "eth0", map[string]string{"address": "02:fc:00:00:00:01"})
	function = m.PCI(sysfstest.Function{Address: "0000:00:02.0", Vendor: "1af4", Device: "1042", Class: "018000", Driver: "virtio-pci"})
	m.Block(m.Virtio(function, "virtio1", "virtio_blk"), "vda", "")
	mmio := m.Virtio("sys/devices/platform/a003e00.virtio_mmio", "virtio3", "virtio_net")
	m.Interface(mmio, "eth1", map[string]string{"address": "02:fc:00:00:00:02"})
	m.Interface(mmio, "eth2", map[string]string{"address": "02:fc:00:00:00:03"})
	m.File("usr/share/misc/pci.ids", "1af4  The host's own\n\t1041  Not this one\n")

	inv := scan(t, newHost(t, m))
	assert.Nil(t, inv.Machine)
	assert.Equal(t, []string{"Disk virtio.0000:00:02.0", "NIC 02:fc:00:00:00:01", "NIC 02:fc:00:00:00:02"}, ids(inv.Devices))
	disk, nic, platform := inv.Devices[0], inv.Devices[1], inv.Devices[2]
	assert.Equal(t, []string{"vda", "virtio", "virtio_blk"}, []string{disk.Node, disk.Transport, disk.Kernel})
	assert.Equal(t, []string{"eth0", "virtio_net", "Red Hat, Inc.", "Virtio 1.0 network device"}, []string{nic.Node, nic.Kernel, nic.Vendor, nic.Model})
	assert.Len(t, platform.Ports, 2, "one device per parent")
	for _, d := range inv.Devices {
		assert.Empty(t, d.Driver)
		assert.Nil(t, d.Firmware, "what no driver reads is listed only")
		assert.NoError(t, d.Err)
	}
}

func TestThisMachineIsDiscovered(t *testing.T) {
	tree := os.DirFS("/")
	inv, err := newHost(t, tree).Scan(t.Context())
	require.NoError(t, err)
	want, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	require.NoError(t, err)
	assert.Equal(t, strings.TrimSpace(string(want)), inv.BootID)
	var nodes []string
	for _, d := range inv.Devices {
		nodes = append(nodes, d.Node)
		for _, p := range d.Ports {
			nodes = append(nodes, p.NetDevice)
		}
	}
	virtio, err := filepathGlob(tree, "sys/block/vd*")
	require.NoError(t, err)
	for _, name := range virtio {
		assert.Contains(t, nodes, name)
	}
	interfaces, err := filepathGlob(tree, "sys/class/net/eth*")
	require.NoError(t, err)
	for _, name := range interfaces {
		if _, err := fs.Stat(tree, "sys/class/net/"+name+"/device"); err == nil {
			assert.Contains(t, nodes, name)
		}
	}
}

func filepathGlob(tree fs.FS, pattern string) (names []string, err error) {
	matches, err := fs.Glob(tree, pattern)
	for _, m := range matches {
		names = append(names, path.Base(m))
	}
	return names, err
}

func TestNonAdapterIsNoDevice(t *testing.T) {
	m := sysfstest.NewMachine()
	function := m.PCI(mlx("0000:3b:00.0"))
	m.Interface(function, "eth0", map[string]string{"address": mac(1)})
	m.Interface(function, "eth0_0", map[string]string{"address": mac(0), "phys_port_name": "pf0vf0"})
	virtual := mlx("0000:3b:00.2")
	virtual.Physical = "0000:3b:00.0"
	m.Interface(m.PCI(virtual), "eth5", map[string]string{"address": mac(0)})
	sf := function + "/mlx5_core.sf.4"
	m.Link(sf+"/subsystem", "sys/bus/auxiliary")
	m.Interface(sf, "eth6", map[string]string{"address": mac(0)})
	m.Virtual("cni0", mac(0))
	inv := scan(t, newHost(t, m))
	assert.Equal(t, []string{"NIC " + mac(1)}, ids(inv.Devices))
	assert.Len(t, inv.Devices[0].Ports, 1)
}

func TestOtherClassAdapterIsACard(t *testing.T) {
	m := sysfstest.NewMachine()
	modem := mlx("0000:3b:00.0")
	modem.Class = "0d4000"
	m.Interface(m.PCI(modem), "wwan0", map[string]string{"address": mac(1)})
	d := scan(t, newHost(t, m)).Devices[0]
	assert.Equal(t, []inventory.PCIAddress{{Bus: 0x3b}}, d.PCI)
	assert.Equal(t, []string{"15b3", "wwan0"}, []string{d.VendorID, d.Node})
}

func TestACardThatAVirtualMachineHasAFunctionOfSaysSo(t *testing.T) {
	m := sysfstest.NewMachine()
	m.PCI(mlx("0000:3b:00.0"))
	passed := mlx("0000:3b:00.1")
	passed.Driver = "vfio-pci"
	m.PCI(passed)
	d := scan(t, newHost(t, m)).Devices[0]
	assert.Equal(t, "vfio-pci", d.Kernel)
	assert.Len(t, d.Ports, 2, "ports without an interface are ports")
}

func TestTakesBestUniqueID(t *testing.T) {
	assigned := map[string]string{"address": mac(9), "addr_assign_type": "3"}
	dsn := make([]byte, 4096)
	copy(dsn[0x100:], []byte{0x03, 0x00, 0x01, 0x00, 0x3a, 0x2b, 0x1c, 0x00, 0x03, 0x9f, 0x59, 0xb8})
	nvme := func(attributes map[string]string, wwids ...string) func(sysfstest.Machine) {
		return func(m sysfstest.Machine) {
			m.NVMe(sysfstest.Drive{Address: "0000:01:00.0", Name: "nvme3", Attributes: attributes, WWIDs: wwids})
		}
	}
	scsi := func(attributes map[string]string, serial string) func(sysfstest.Machine) {
		return func(m sysfstest.Machine) {
			hba := m.PCI(sysfstest.Function{Address: "0000:18:00.0", Vendor: "8086", Device: "1d6b", Class: "010700", Driver: "isci"})
			m.SCSI(sysfstest.Disk{Below: hba, Address: "4:0:1:0", Attributes: attributes, Serial: serial, Generic: "sg9"})
		}
	}
	dmi := func(attributes map[string]string) func(sysfstest.Machine) {
		return func(m sysfstest.Machine) { m.DMI(attributes) }
	}
	nic := func(attributes ...map[string]string) func(sysfstest.Machine) {
		return func(m sysfstest.Machine) {
			dir := m.PCI(mlx("0000:3b:00.0"))
			for i, a := range attributes {
				m.Interface(dir, fmt.Sprintf("eth%d", i), a)
			}
		}
	}
	for name, test := range map[string]struct {
		build func(sysfstest.Machine)
		want  string
	}{
		"lowest MAC":            {nic(map[string]string{"address": mac(7)}, map[string]string{"address": mac(3), "dev_port": "1"}), mac(3)},
		"MAC of a bond member":  {nic(map[string]string{"address": mac(9), "addr_assign_type": "3", "bonding_slave/perm_hwaddr": mac(2)}), mac(2)},
		"GUID":                  {nic(map[string]string{"type": "32", "address": "00:00:10:49:fe:80:00:00:00:00:00:00:b8:59:9f:03:00:00:00:01"}), "b8599f0300000001"},
		"no driver, serial":     {func(m sysfstest.Machine) { m.MapFS[m.PCI(mlx("0000:3b:00.0"))+"/config"] = &fstest.MapFile{Data: dsn} }, "dsn.b8599f03001c2b3a"},
		"no better than a slot": {nic(assigned), "pci.15b3-101d.0000:3b:00.0"},
		"EUI of namespace":      {nvme(nil, "uuid.1234", "eui.02"), "eui.02"},
		"NGUID": {func(m sysfstest.Machine) {
			nvme(nil, "uuid.1234")(m)
			m.File("sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/nvme/nvme3/nvme3n1/nguid", "36344830-5960-0000-0025-384500000001")
		}, "eui.36344830596000000025384500000001"},
		"NQN":                    {nvme(map[string]string{"subsysnqn": "nqn.2014.08.org.nvmexpress:144d144dS1   PM9A3"}, "uuid.1"), "nvme.nqn.2014.08.org.nvmexpress:144d144dS1-PM9A3"},
		"vendor, serial, model":  {nvme(map[string]string{"serial": "S1", "model": "PM9A3 X"}), "nvme.144d-S1-PM9A3-X"},
		"drive without anything": {nvme(nil), "nvme.0000:01:00.0"},
		"WWN":                    {scsi(map[string]string{"wwid": "naa.5000c500a1b2c3d4"}, "S"), "naa.5000c500a1b2c3d4"},
		"T10 id":                 {scsi(map[string]string{"wwid": "t10.ATA     SAMSUNG  S1"}, "S"), "t10.ATA-SAMSUNG-S1"},
		"INQUIRY":                {scsi(map[string]string{"vendor": "HGST", "model": "HUS"}, "S2"), "scsi.HGST-HUS-S2"},
		"UUID":                   {dmi(map[string]string{"product_uuid": "4C4C4544-0000-1111-2222-333344445555", "board_serial": "B1"}), "4c4c4544-0000-1111-2222-333344445555"},
		"UUID nobody set":        {dmi(map[string]string{"product_uuid": "03000200-0400-0500-0006-000700080009", "board_serial": "B1", "board_name": "X11"}), "B1-X11"},
		"UUID of ones":           {dmi(map[string]string{"product_uuid": "FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF", "board_serial": "Default string"}), "bios"},
		"unprivileged":           {dmi(map[string]string{"sys_vendor": "Lenovo"}), "bios"},
	} {
		t.Run(name, func(t *testing.T) {
			m := sysfstest.NewMachine()
			test.build(m)
			devices := scan(t, newHost(t, m)).Devices
			require.Len(t, devices, 1)
			assert.Equal(t, test.want, devices[0].UniqueID)
			require.NoError(t, devices[0].Err)
		})
	}
}

func TestLongIDIsBoundedAndUnique(t *testing.T) {
	found := map[string]bool{}
	for _, end := range []string{"a", "b"} {
		m := sysfstest.NewMachine()
		m.NVMe(sysfstest.Drive{Address: "0000:01:00.0", Name: "nvme0", Attributes: map[string]string{"subsysnqn": strings.Repeat("q", 200) + end}})
		id := scan(t, newHost(t, m)).Devices[0].UniqueID
		assert.LessOrEqual(t, len(id), 128)
		found[id] = true
	}
	assert.Len(t, found, 2)
}

func TestTheDriverCompletesTheIdentityButNotHowToReachTheDevice(t *testing.T) {
	m := sysfstest.NewMachine()
	addCard(m, "0000:3b:00", 0x10, 1, counter("eth"))
	d := scan(t, newHost(t, m, &reader{inspect: func(_ context.Context, id inventory.Identity) (inventory.Identity, inventory.Firmware, error) {
		return inventory.Identity{UniqueID: mac(0x0f), BoardID: "MT_0000000359", SerialNumber: "MT2", Node: "other"}, inventory.Firmware{Running: "22"}, nil
	}})).Devices[0]
	assert.Equal(t, inventory.Identity{
		Class: inventory.NIC, UniqueID: mac(0x0f), BoardID: "MT_0000000359", SerialNumber: "MT2", Vendor: "Mellanox Technologies",
		VendorID: "15b3", DeviceID: "101d", SubsystemVendorID: "15b3", SubsystemDeviceID: "0001", Model: "MT2892 Family [ConnectX-6 Dx]", PCI: []inventory.PCIAddress{{Bus: 0x3b}}, Node: "eth0", Kernel: "mlx5_core",
	}, d.Identity)
	assert.Equal(t, inventory.Version("22"), d.Firmware.Running)
}

// A driver locks its writes by the unique id it gives, and everybody else looks for them by the one that is reported.
func TestADeviceWhoseDriverSpellsItsIDInAnotherWayIsNotRead(t *testing.T) {
	for _, id := range []string{"ACME 17", " ACME-17", strings.Repeat("a", 129)} {
		m := sysfstest.NewMachine()
		addCard(m, "0000:3b:00", 0x10, 1, counter("eth"))
		d := scan(t, newHost(t, m, &reader{inspect: func(context.Context, inventory.Identity) (inventory.Identity, inventory.Firmware, error) {
			return inventory.Identity{UniqueID: id}, inventory.Firmware{Running: "22"}, nil
		}})).Devices[0]
		require.ErrorContains(t, d.Err, "one word of at most 128 bytes")
		assert.Nil(t, d.Firmware)
		assert.Equal(t, mac(0x10), d.UniqueID)
	}
}

// F17: one device that cannot be read is one device with an error; its siblings are read.
func TestADeviceThatCannotBeReadDoesNotHideItsSiblings(t *testing.T) {
	broken := errors.New("flash semaphore is locked")
	for name, test := range map[string]struct {
		inspect func(context.Context) error
		want    string
	}{
		"error":   {func(context.Context) error { return broken }, "flash semaphore is locked"},
		"panic":   {func(context.Context) error { panic("index out of range") }, "index out of range"},
		"hangs":   {func(ctx context.Context) error { <-ctx.Done(); time.Sleep(time.Hour); return nil }, "no answer within 30s"},
		"no time": {func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				defer time.Sleep(2 * time.Hour) // until what hangs has ended
				bad := &reader{inspect: func(ctx context.Context, id inventory.Identity) (inventory.Identity, inventory.Firmware, error) {
					if id.Class == inventory.NIC {
						return id, inventory.Firmware{}, test.inspect(ctx)
					}
					return id, inventory.Firmware{Running: "1"}, nil
				}}
				inv := scan(t, newHost(t, server(), bad))
				assert.Equal(t, serverIDs, ids(inv.Devices))
				assert.Empty(t, inv.Incomplete)
				for _, d := range inv.Devices {
					if d.Class != inventory.NIC {
						assert.NoError(t, d.Err)
						assert.Equal(t, inventory.Version("1"), d.Firmware.Running)
						continue
					}
					require.ErrorContains(t, d.Err, test.want)
					assert.ErrorContains(t, d.Err, mac(0x10))
					assert.Nil(t, d.Firmware)
					assert.Len(t, d.Ports, 2, "what sysfs says stays")
				}
			})
		})
	}
}

func TestOneReadPerDeviceAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reading, calls atomic.Int32
		hang := make(chan struct{})
		h := newHost(t, server(), &reader{supports: only(inventory.NIC), inspect: func(_ context.Context, id inventory.Identity) (inventory.Identity, inventory.Firmware, error) {
			assert.Equal(t, int32(1), reading.Add(1))
			defer reading.Add(-1)
			if calls.Add(1) == 1 {
				<-hang
			}
			return id, inventory.Firmware{Running: "1"}, nil
		}})
		require.ErrorContains(t, scan(t, h).Devices[3].Err, "no answer within 30s")
		require.ErrorContains(t, scan(t, h).Devices[3].Err, "an earlier attempt still hangs")
		assert.Equal(t, int32(1), calls.Load(), "a driver that hangs is not called again")
		close(hang)
		require.NoError(t, scan(t, h).Devices[3].Err)
	})
}

func TestGuardKeepsScanAway(t *testing.T) {
	r := &reader{}
	h := newHost(t, server(), r)
	inv, err := h.ScanGuarded(t.Context(), func(id inventory.Identity) error {
		if id.Class == inventory.NIC {
			return errors.New("it is being written to")
		}
		return nil
	})
	require.NoError(t, err)
	assert.Equal(t, serverIDs, ids(inv.Devices))
	require.ErrorContains(t, inv.Devices[3].Err, "it is being written to")
	require.NoError(t, inv.Devices[0].Err)
	assert.NotContains(t, r.read, mac(0x10))
}

// Who journals a write and then reads the device knows that no scan reads it until the write has ended.
func TestWhoReadsADeviceNextFindsTheGuardAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var writing, scanned atomic.Bool
		reading, release := make(chan struct{}), make(chan struct{})
		h := newHost(t, server(), &reader{supports: only(inventory.NIC), inspect: func(_ context.Context, id inventory.Identity) (inventory.Identity, inventory.Firmware, error) {
			if !writing.Load() {
				close(reading)
				<-release
				scanned.Store(true)
			}
			return id, inventory.Firmware{Running: "1"}, nil
		}})
		go func() {
			_, _ = h.ScanGuarded(t.Context(), func(inventory.Identity) error {
				if writing.Load() {
					return errors.New("it is being written to")
				}
				return nil
			})
		}()
		<-reading
		writing.Store(true)
		time.AfterFunc(time.Second, func() { close(release) })
		_, found, err := h.Find(t.Context(), inventory.NIC, mac(0x10))
		require.NoError(t, err)
		assert.True(t, found)
		assert.True(t, scanned.Load(), "the scan's reading has ended")
	})
}

func TestTwoDriversThatClaimADeviceEquallyReadNothing(t *testing.T) {
	inv := scan(t, newHost(t, server(), &reader{}, &reader{supports: only(inventory.BIOS)}))
	require.ErrorContains(t, inv.Devices[0].Err, "claim it equally")
	require.NoError(t, inv.Devices[1].Err)
}

func TestAnAttributeThatCannotBeReadIsAnErrorOfItsDevice(t *testing.T) {
	const serial = "sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/nvme/nvme0/serial"
	r := &reader{}
	inv := scan(t, newHost(t, sysfstest.Broken{FS: server(), Errors: map[string]error{serial: syscall.EIO}}, r))
	assert.Equal(t, serverIDs, ids(inv.Devices))
	require.ErrorContains(t, inv.Devices[1].Err, serial)
	assert.NotContains(t, r.read, "eui.01", "no driver is chosen by half an identity")
	require.NoError(t, inv.Devices[2].Err)
}

// R001-2: absence counts only after a successful enumeration.
func TestFailedListingIsIncomplete(t *testing.T) {
	for dir, classes := range map[string][]inventory.Class{
		"sys/bus/pci/devices": {inventory.NIC, inventory.StorageController}, "sys/class/net": {inventory.NIC},
		"sys/class/scsi_host": {inventory.StorageController}, "sys/class/scsi_device": {inventory.Disk},
		"sys/class/nvme": {inventory.Disk}, "sys/block": {inventory.Disk}, "sys/class/dmi/id": {inventory.BIOS},
	} {
		inv := scan(t, newHost(t, sysfstest.Broken{FS: server(), Errors: map[string]error{dir: syscall.EIO}}))
		require.Len(t, inv.Incomplete, len(classes), dir)
		for _, class := range classes {
			require.ErrorIs(t, inv.Incomplete[class], syscall.EIO)
			require.ErrorContains(t, inv.Incomplete[class], dir)
		}
		for _, d := range inv.Devices {
			if dir == "sys/class/nvme" && d.Class == inventory.Disk {
				assert.Equal(t, "sas", d.Transport, "the other kind of drive is still listed")
			}
		}
	}
	inv := scan(t, newHost(t, fstest.MapFS{}))
	assert.Empty(t, inv.Devices)
	assert.ElementsMatch(t, inventory.Classes(), slices.Collect(maps.Keys(inv.Incomplete)),
		"a host root without sysfs is not a machine without devices")
}

// slowFS hangs in one directory, as the kernel does while a device is being reset.
type slowFS struct {
	sysfstest.Broken
	dir string
}

func (s slowFS) Open(name string) (fs.File, error) {
	if name == s.dir {
		time.Sleep(time.Hour)
	}
	return s.Broken.Open(name)
}

func TestAKernelThatHangsMakesOneClassIncomplete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer time.Sleep(2 * time.Hour) // until the kernel has answered
		before := time.Now()
		inv := scan(t, newHost(t, slowFS{sysfstest.Broken{FS: server()}, "sys/class/net"}))
		assert.Equal(t, 30*time.Second, time.Since(before))
		assert.ErrorContains(t, inv.Incomplete[inventory.NIC], "no answer within 30s")
		assert.Equal(t, slices.Concat(serverIDs[:3], serverIDs[4:]), ids(inv.Devices))
	})
}

func TestAScanEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	h := newHost(t, server(), &reader{inspect: func(_ context.Context, id inventory.Identity) (inventory.Identity, inventory.Firmware, error) {
		cancel()
		return id, inventory.Firmware{}, nil
	}})
	_, err := h.Scan(ctx)
	require.ErrorIs(t, err, context.Canceled, "half an inventory is none")
}

// F10: devices that claim one identity are all shown, and none can be updated.
func TestDevicesThatClaimOneIdentityAreToldApart(t *testing.T) {
	m := sysfstest.NewMachine()
	addCard(m, "0000:3b:00", 0x10, 1, counter("eth"))
	addCard(m, "0000:5e:00", 0x10, 1, counter("lan"))
	addCard(m, "0000:af:00", 0x20, 1, counter("wan"))
	h := newHost(t, m, &reader{})
	inv := scan(t, h)
	assert.Equal(t, []string{"NIC " + mac(0x10) + "@0000:3b:00", "NIC " + mac(0x10) + "@0000:5e:00", "NIC " + mac(0x20)}, ids(inv.Devices))
	for _, d := range inv.Devices[:2] {
		require.ErrorContains(t, d.Err, "2 devices claim the unique id "+mac(0x10)+", at 0000:3b:00 and 0000:5e:00")
		assert.Nil(t, d.Firmware)
		again, found, err := h.Find(t.Context(), d.Class, d.UniqueID)
		require.NoError(t, err)
		assert.True(t, found)
		assert.Equal(t, d, again)
	}
	require.NoError(t, inv.Devices[2].Err)
	_, found, err := h.Find(t.Context(), inventory.NIC, mac(0x10))
	require.ErrorContains(t, err, "claim the unique id")
	assert.False(t, found)
}

func TestTwoPathsAreOneDrive(t *testing.T) {
	m := sysfstest.NewMachine()
	hba := m.PCI(sysfstest.Function{Address: "0000:18:00.0", Vendor: "8086", Device: "1d6b", Class: "010700", Driver: "isci"})
	drive := map[string]string{"vendor": "SEAGATE", "model": "ST16", "wwid": "naa.5000c500a1b2c3d4"}
	m.SCSI(sysfstest.Disk{Below: hba, Address: "0:0:1:0", Generic: "sg2", Serial: "A", Attributes: drive})
	m.SCSI(sysfstest.Disk{Below: hba, Address: "0:0:9:0", Generic: "sg7", Serial: "A", Attributes: drive})
	for _, lun := range []string{"1:0:0:0", "2:0:0:0"} {
		m.SCSI(sysfstest.Disk{Below: hba + "/ata" + lun[:1], Address: lun, Attributes: map[string]string{"vendor": "ATA", "model": "NAMELESS"}})
	}
	m.SCSI(sysfstest.Disk{Below: hba + "/host3/session1", Address: "3:0:0:0", Attributes: map[string]string{"wwid": "naa.6"}})
	devices := scan(t, newHost(t, m)).Devices
	require.Equal(t, []string{
		"Disk naa.5000c500a1b2c3d4", "Disk scsi.0000:18:00.0/ata1/host1/target1:0:0/1:0:0:0", "Disk scsi.0000:18:00.0/ata2/host2/target2:0:0/2:0:0:0",
	}, ids(devices), "disks without a name are not one drive, and a remote disk is not of this machine")
	assert.Equal(t, "sg2", devices[0].Node)
}

func TestTellsUSBDiskFromInternal(t *testing.T) {
	m := sysfstest.NewMachine()
	m.SCSI(sysfstest.Disk{Below: "sys/devices/pci0000:00/0000:00:14.0/usb1/1-1/1-1:1.0/host8/target8:0:0", Address: "8:0:0:0", Attributes: map[string]string{"vendor": "AMI", "model": "Virtual HDisk0"}})
	devices := scan(t, newHost(t, m)).Devices
	require.Len(t, devices, 1)
	assert.Equal(t, "usb", devices[0].Transport)
}

func TestANetworkCardOnUSBIsToldFromOneOfTheMachine(t *testing.T) {
	m := sysfstest.NewMachine()
	addCard(m, "0000:3b:00", 0x10, 1, counter("eth"))
	dir := "sys/devices/pci0000:00/0000:00:14.0/usb1/1-14/1-14.3/1-14.3:2.0"
	m.Link(dir+"/subsystem", "sys/bus/usb")
	m.Interface(dir, "usb0", map[string]string{"address": "be:3a:f2:b6:05:9f"})
	transports := map[string]string{}
	for _, d := range scan(t, newHost(t, m)).Devices {
		transports[d.UniqueID] = d.Transport
	}
	assert.Equal(t, map[string]string{mac(0x10): "", "be:3a:f2:b6:05:9f": "usb"}, transports)
}

// The kernel makes up the addresses of such adapters anew each time; what it calls the device is the name that stays.
func TestAnAdapterOfTheKernelsOwnIsKnownByItsHandle(t *testing.T) {
	m := sysfstest.NewMachine()
	const dir = "sys/devices/netdevsim1"
	m.Link(dir+"/subsystem", "sys/bus/netdevsim")
	m.Link(dir+"/driver", "sys/bus/netdevsim/drivers/netdevsim")
	for port, address := range []string{"4e:c4:35:01:02:03", "4e:c4:35:01:02:04"} {
		m.Interface(dir, fmt.Sprintf("eth%d", port), map[string]string{
			"address": address, "addr_assign_type": "1", "phys_port_name": fmt.Sprintf("p%d", port+1),
		})
	}
	devices := scan(t, newHost(t, m)).Devices
	require.Equal(t, []string{"NIC netdevsim.netdevsim1"}, ids(devices), "its ports are not adapters of their own")
	assert.Equal(t, "netdevsim", devices[0].Kernel)
	assert.Equal(t, "eth0", devices[0].Node)
	assert.Empty(t, devices[0].PCI)
	assert.Len(t, devices[0].Ports, 2)
}

func TestANameOfTheDevlinkDriverMayStandInForAnAddress(t *testing.T) {
	const card = "devlink.bnxt_en-00-0a-f7-ff-fe-11-22-33"
	assert.True(t, host.WeakerID(card, mac(0x10)))
	assert.True(t, host.WeakerID("pci.14e4-1750.0000:3b:00.0", card))
}

func TestFindReadsOnlyItsDevice(t *testing.T) {
	m := sysfstest.NewMachine()
	for i := range 4 {
		addCard(m, fmt.Sprintf("0000:%02x:00", 0x10+i), 0x10*i, 2, counter(fmt.Sprintf("p%d-", i)))
	}
	r := &reader{}
	d, found, err := newHost(t, m, r).Find(t.Context(), inventory.NIC, mac(0x20))
	require.NoError(t, err)
	assert.True(t, found)
	assert.Equal(t, "p2-0", d.Node)
	assert.Equal(t, inventory.Version("1.0"), d.Firmware.Running)
	assert.Equal(t, []string{mac(0x20)}, r.read)
}

// A driver may name a drive by its serial number, where the namespace that sysfs has goes with a port.
func TestFindReadsOnlyTheDrivesWhoseSerialNumberTheIDNames(t *testing.T) {
	m := sysfstest.NewMachine()
	for i, serial := range []string{"S 1", "S2", "XS2", "S3"} {
		m.NVMe(sysfstest.Drive{Address: fmt.Sprintf("0000:%02x:00.0", i+1), Name: fmt.Sprint("nvme", i), WWIDs: []string{fmt.Sprintf("eui.%02d", i)},
			Attributes: map[string]string{"model": "PM1733", "serial": serial}})
	}
	named := func(_ context.Context, id inventory.Identity) (inventory.Identity, inventory.Firmware, error) {
		id.UniqueID = "144d-PM1733-" + strings.ReplaceAll(id.SerialNumber, " ", "-")
		return id, inventory.Firmware{Running: "1"}, nil
	}
	for serial, node := range map[string]string{"S-1": "nvme0", "S2": "nvme1", "XS2": "nvme2"} {
		r := &reader{inspect: named}
		d, found, err := newHost(t, m, r).Find(t.Context(), inventory.Disk, "144d-PM1733-"+serial)
		require.NoError(t, err)
		assert.True(t, found)
		assert.Equal(t, node, d.Node)
		assert.Len(t, r.read, 1, "the others are not woken")
	}

	// Two drives that claim one serial number are both read, and none is chosen.
	m.NVMe(sysfstest.Drive{Address: "0000:09:00.0", Name: "nvme9", WWIDs: []string{"eui.09"}, Attributes: map[string]string{"model": "PM1733", "serial": "S2"}})
	_, _, err := newHost(t, m, &reader{inspect: named}).Find(t.Context(), inventory.Disk, "144d-PM1733-S2")
	require.ErrorContains(t, err, "2 devices claim the unique id")
}

func TestFindKnowsDriversIDs(t *testing.T) {
	m := sysfstest.NewMachine()
	for i := range 3 {
		addCard(m, fmt.Sprintf("0000:%02x:00", 0x10+i), 0x10*i, 2, counter(fmt.Sprintf("p%d-", i)))
	}
	h := newHost(t, m, &reader{inspect: func(_ context.Context, id inventory.Identity) (inventory.Identity, inventory.Firmware, error) {
		id.UniqueID = "guid-" + id.PCI[0].String()
		return id, inventory.Firmware{Running: "1"}, nil
	}})
	d, found, err := h.Find(t.Context(), inventory.NIC, "guid-0000:11:00.0")
	require.NoError(t, err)
	assert.True(t, found)
	assert.Equal(t, "p1-0", d.Node)
	_, found, err = h.Find(t.Context(), inventory.NIC, mac(0x10))
	require.NoError(t, err)
	assert.False(t, found, "the id sysfs would give is not the device's")
}

func TestFindTellsAbsentFromUnread(t *testing.T) {
	h := newHost(t, server(), &reader{})
	_, found, err := h.Find(t.Context(), inventory.NIC, mac(0x99))
	require.NoError(t, err)
	assert.False(t, found)

	failing := &reader{inspect: func(_ context.Context, id inventory.Identity) (inventory.Identity, inventory.Firmware, error) {
		return id, inventory.Firmware{}, errors.New("flash semaphore is locked")
	}}
	h = newHost(t, server(), failing)
	_, found, err = h.Find(t.Context(), inventory.NIC, mac(0x99))
	require.ErrorContains(t, err, "semaphore", "the device that cannot be read may be the one")
	assert.False(t, found)
	d, found, err := h.Find(t.Context(), inventory.NIC, mac(0x10))
	require.NoError(t, err)
	assert.True(t, found)
	require.ErrorContains(t, d.Err, "semaphore")

	h = newHost(t, sysfstest.Broken{FS: server(), Errors: map[string]error{"sys/class/nvme": syscall.EIO}}, &reader{})
	_, _, err = h.Find(t.Context(), inventory.Disk, "eui.01")
	require.ErrorIs(t, err, syscall.EIO)
	_, found, err = h.Find(t.Context(), inventory.Disk, "naa.5000c500a1b2c3d4")
	require.NoError(t, err)
	assert.True(t, found, "what is there is there")
}

func TestFindFollowsMovedDevice(t *testing.T) {
	m := server()
	h := newHost(t, m, &reader{})
	before := scan(t, h).Devices[1]
	m.Remove("sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0")
	_, found, err := h.Find(t.Context(), before.Class, before.UniqueID)
	require.NoError(t, err)
	assert.False(t, found)

	m.NVMe(sysfstest.Drive{Address: "0000:02:00.0", Name: "nvme7", WWIDs: []string{"eui.01"}})
	moved, found, err := h.Find(t.Context(), before.Class, before.UniqueID)
	require.NoError(t, err)
	require.True(t, found)
	assert.Equal(t, "nvme7", moved.Node)
}

func TestLinkStates(t *testing.T) {
	for _, test := range []struct {
		operstate, carrier string
		want               inventory.LinkState
	}{
		{"up", "1", inventory.LinkUp},
		{"down", "1", inventory.LinkDown},
		{"lowerlayerdown", "0", inventory.LinkDown},
		{"dormant", "1", inventory.LinkDown},
		{"unknown", "1", inventory.LinkUp},
		{"unknown", "0", inventory.LinkDown},
		{"unknown", "", inventory.LinkUnknown},
		{"", "", inventory.LinkUnknown},
	} {
		m := sysfstest.NewMachine()
		m.Interface(m.PCI(mlx("0000:3b:00.0")), "eth0", map[string]string{"operstate": test.operstate, "carrier": test.carrier})
		assert.Equal(t, test.want, scan(t, newHost(t, m)).Devices[0].Ports[0].State, "%+v", test)
	}
}

// TestIdentityDoesNotDependOnWhatTheKernelCallsThings builds the same hardware twice, found in another order and under
// other names, as after a reboot.
func TestIdentityDoesNotDependOnWhatTheKernelCallsThings(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		cards := rapid.SliceOfN(rapid.IntRange(1, 4), 0, 5).Draw(r, "ports of cards")
		drives := rapid.IntRange(0, 5).Draw(r, "drives")
		disks := rapid.IntRange(0, 5).Draw(r, "disks")
		boot := func(name string) (sysfstest.Machine, []string) {
			order := func(n int, what string) []int {
				numbers := make([]int, n)
				for i := range numbers {
					numbers[i] = i
				}
				return rapid.Permutation(numbers).Draw(r, name+" "+what)
			}
			m, eth := sysfstest.NewMachine(), counter(rapid.SampledFrom([]string{"eth", "lan", "a"}).Draw(r, name+" prefix"))
			for _, c := range order(len(cards), "cards") {
				addCard(m, fmt.Sprintf("0000:%02x:00", 0x20+c), c*0x10, cards[c], eth)
			}
			for i, d := range order(drives, "drives") {
				m.NVMe(sysfstest.Drive{Address: fmt.Sprintf("0000:%02x:00.0", 0x40+d), Name: fmt.Sprintf("nvme%d", i), WWIDs: []string{fmt.Sprintf("eui.%02d", d)}})
			}
			hba := m.PCI(sysfstest.Function{Address: "0000:18:00.0", Vendor: "8086", Device: "1d6b", Class: "010700", Driver: "isci"})
			hostNumber := rapid.IntRange(0, 9).Draw(r, name+" host")
			for i, d := range order(disks, "disks") {
				m.SCSI(sysfstest.Disk{
					Below: hba, Address: fmt.Sprintf("%d:0:%d:0", hostNumber, i), Generic: fmt.Sprintf("sg%d", i),
					Attributes: map[string]string{"wwid": fmt.Sprintf("naa.%02d", d)},
				})
			}
			inv := scan(t, newHost(t, m, &reader{}))
			facts := []string{}
			for _, d := range inv.Devices {
				require.NoError(r, d.Err)
				ports := []string{}
				for _, p := range d.Ports {
					ports = append(ports, p.PCI.String()+" "+p.MAC)
				}
				facts = append(facts, fmt.Sprint(d.Class, d.UniqueID, d.PCI, ports))
			}
			return m, facts
		}
		_, first := boot("first")
		_, second := boot("second")
		assert.Len(r, first, len(cards)+drives+disks)
		assert.Equal(r, first, second)
	})
}

// TestEachFunctionIsInOneCard scatters functions over slots.
func TestEachFunctionIsInOneCard(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		m, slots, physical := sysfstest.NewMachine(), map[string]bool{}, map[string]bool{}
		for range rapid.IntRange(0, 12).Draw(r, "functions") {
			f := mlx(fmt.Sprintf("0000:%02x:%02x.%d", rapid.IntRange(1, 3).Draw(r, "bus"), rapid.IntRange(0, 2).Draw(r, "device"), rapid.IntRange(0, 7).Draw(r, "function")))
			if physical[f.Address] {
				continue
			}
			slots[f.Address[:10]], physical[f.Address] = true, true
			m.PCI(f)
		}
		inv := scan(t, newHost(t, m))
		assert.Len(r, inv.Devices, len(slots))
		seen := map[string]bool{}
		for _, d := range inv.Devices {
			for i, a := range d.PCI {
				assert.False(r, seen[a.String()])
				seen[a.String()] = true
				assert.Equal(r, d.PCI[0].Slot(), a.Slot())
				assert.Equal(r, a, d.Ports[i].PCI)
			}
		}
		assert.Equal(r, physical, seen)
	})
}

func TestConfigurationIsChecked(t *testing.T) {
	for _, cfg := range []host.Config{{}, {FS: fstest.MapFS{}, Parallel: -1}, {FS: fstest.MapFS{}, InspectTimeout: -1}} {
		_, err := host.New(cfg)
		assert.ErrorContains(t, err, "configure host")
	}
}

// BenchmarkScan discovers a host with 8 dual-port NICs and 24 disks on a disk's file system.
func BenchmarkScan(b *testing.B) {
	m := server()
	for i := range 7 {
		addCard(m, fmt.Sprintf("0000:%02x:00", 0x60+i), 0x100*(i+1), 2, counter(fmt.Sprintf("s%dp", i)))
	}
	for i := range 11 {
		m.NVMe(sysfstest.Drive{Address: fmt.Sprintf("0000:%02x:00.0", 0x80+i), Name: fmt.Sprintf("nvme%d", i+1), WWIDs: []string{fmt.Sprintf("eui.a%d", i)}})
		hba := "sys/devices/pci0000:00/0000:00:01.0/0000:18:00.0"
		m.SCSI(sysfstest.Disk{Below: hba, Address: fmt.Sprintf("0:0:%d:0", i+10), Attributes: map[string]string{"wwid": fmt.Sprintf("naa.b%d", i)}})
	}
	dir := b.TempDir()
	require.NoError(b, os.CopyFS(dir, m))
	h := newHost(b, os.DirFS(dir), &reader{})
	require.Len(b, scan(b, h).Devices, 8+24+1+1)
	b.ReportAllocs()
	for b.Loop() {
		scan(b, h)
	}
}
