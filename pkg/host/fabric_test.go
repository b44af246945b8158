package host_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/host"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/sysfs/sysfstest"
)

const driveNQN = "nqn.2016-06.io.example:drive1"

// remote is a drive behind a network with a namespace that its exporter made.
func remote(name, address string, wwids ...string) sysfstest.Drive {
	return sysfstest.Drive{
		Name: name, Address: address, WWIDs: wwids,
		Attributes: map[string]string{"model": "DPU", "serial": "D1", "subsysnqn": driveNQN},
	}
}

func withTransports(t *testing.T, m sysfstest.Machine, transports ...string) *host.Host {
	t.Helper()
	h, err := host.New(host.Config{FS: m, Drivers: driver.Set{&reader{}}, NVMeTransports: transports})
	require.NoError(t, err)
	return h
}

func TestDrivesBehindANetworkBelongToTheMachineOnlyWhenItIsToldSo(t *testing.T) {
	m := sysfstest.NewMachine()
	m.NVMe(sysfstest.Drive{Address: "0000:01:00.0", Name: "nvme0", WWIDs: []string{"eui.01"}})
	m.Fabric(remote("nvme1", "traddr=127.0.0.1,trsvcid=4420", "eui.02"))
	m.Fabric(sysfstest.Drive{Name: "nvme2", Attributes: map[string]string{"cntrltype": "discovery", "subsysnqn": "nqn.x"}})
	for name, c := range map[string]struct {
		transports, want []string
	}{
		"by default":    {nil, []string{"Disk eui.01"}},
		"with tcp":      {[]string{"pcie", "tcp"}, []string{"Disk eui.01", "Disk nvme." + driveNQN}},
		"with tcp only": {[]string{"tcp"}, []string{"Disk nvme." + driveNQN}},
		"with another":  {[]string{"pcie", "rdma"}, []string{"Disk eui.01"}},
	} {
		assert.Equal(t, c.want, ids(scan(t, withTransports(t, m, c.transports...)).Devices), name)
	}
	d := scan(t, withTransports(t, m, "tcp")).Devices[0]
	require.NoError(t, d.Err)
	assert.Equal(t, inventory.Identity{
		Class: inventory.Disk, UniqueID: "nvme." + driveNQN, Model: "DPU", SerialNumber: "D1", Node: "nvme1", Kernel: "nvme_tcp", Transport: "nvme",
	}, d.Identity)
	assert.NotNil(t, d.Firmware)
}

// Namespaces are listed some time after the connection is made.
func TestTheIDOfADriveBehindANetworkDoesNotDependOnItsNamespaces(t *testing.T) {
	for _, wwids := range [][]string{nil, {"uuid.1"}, {"eui.02", "eui.03"}} {
		m := sysfstest.NewMachine()
		m.Fabric(remote("nvme5", "traddr=10.0.0.1,trsvcid=4420", wwids...))
		assert.Equal(t, []string{"Disk nvme." + driveNQN}, ids(scan(t, withTransports(t, m, "tcp")).Devices))
	}
}

// port is one port of a drive, as a controller of the kernel's subsystem.
func port(m sysfstest.Machine, name, address, serial, subsystem, state string) {
	m.NVMe(sysfstest.Drive{Address: address, Name: name, WWIDs: []string{"eui.01"}, Attributes: map[string]string{
		"model": "PM1733", "serial": serial, "subsysnqn": "nqn.1994-11.com.samsung:nvme:PM1733", "state": state,
	}})
	m.Link("sys/class/nvme-subsystem/"+subsystem, "sys/devices/virtual/nvme-subsystem/"+subsystem)
	m.Link("sys/devices/virtual/nvme-subsystem/"+subsystem+"/"+name, "sys/class/nvme/"+name)
}

// A drive with two ports has two controllers and one firmware: it is one device, and is not lost for that.
func TestTwoPortDriveIsOneDevice(t *testing.T) {
	m := sysfstest.NewMachine()
	port(m, "nvme0", "0000:01:00.0", "S1", "nvme-subsys0", "live")
	port(m, "nvme1", "0000:81:00.0", "S1", "nvme-subsys0", "live")
	devices := scan(t, withTransports(t, m)).Devices
	require.Len(t, devices, 1)
	require.NoError(t, devices[0].Err)
	assert.Equal(t, "eui.01", devices[0].UniqueID)
	assert.Equal(t, "nvme0", devices[0].Node)
	assert.Equal(t, []inventory.PCIAddress{{Bus: 1}, {Bus: 0x81}}, devices[0].PCI)
	assert.NotNil(t, devices[0].Firmware)
}

func TestADriveIsReachedThroughThePortThatWorks(t *testing.T) {
	m := sysfstest.NewMachine()
	port(m, "nvme0", "0000:01:00.0", "S1", "nvme-subsys0", "dead")
	port(m, "nvme1", "0000:81:00.0", "S1", "nvme-subsys0", "live")
	devices := scan(t, withTransports(t, m)).Devices
	require.Len(t, devices, 1)
	assert.Equal(t, "nvme1", devices[0].Node)
}

// Two drives that claim one name are two drives, and nobody's to guess between.
func TestTwoSubsystemsTwoDrives(t *testing.T) {
	for name, c := range map[string]struct{ serial, subsystem string }{
		"another subsystem":     {"S1", "nvme-subsys1"},
		"another serial number": {"S2", "nvme-subsys0"},
	} {
		m := sysfstest.NewMachine()
		port(m, "nvme0", "0000:01:00.0", "S1", "nvme-subsys0", "live")
		port(m, "nvme1", "0000:81:00.0", c.serial, c.subsystem, "live")
		devices := scan(t, withTransports(t, m)).Devices
		require.Len(t, devices, 2, name)
		require.ErrorContains(t, devices[0].Err, "none is updated", name)
		require.ErrorContains(t, devices[1].Err, "none is updated", name)
	}
}

// Which of two connections to a drive a write would take is nobody's to guess.
func TestTwoConnectionsNoUpdate(t *testing.T) {
	m := sysfstest.NewMachine()
	m.Fabric(remote("nvme0", "traddr=10.0.0.1,trsvcid=4420,src_addr=10.0.0.9"))
	m.Fabric(remote("nvme1", "traddr=10.0.0.2,trsvcid=4420"))
	devices := scan(t, withTransports(t, m, "tcp")).Devices
	require.Len(t, devices, 2)
	for i, address := range []string{"10.0.0.1", "10.0.0.2"} {
		assert.Equal(t, "nvme."+driveNQN+"@tcp,"+driveNQN+",traddr="+address+",trsvcid=4420", devices[i].UniqueID)
		require.ErrorContains(t, devices[i].Err, "none is updated")
		assert.Nil(t, devices[i].Firmware)
	}
}
