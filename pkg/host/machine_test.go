package host_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/simhost"
	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/fwupd"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/mstflint"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/nvme"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/scsi"
	"github.com/nodefirmware/node-firmware-operator/pkg/host"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/sysfs"
)

// The test binary is the vendor tools of the simulated machine when it is called by the name of one.
func TestMain(m *testing.M) {
	if simhost.IsTool(os.Args[0]) {
		os.Exit(simhost.RunTool(os.Args, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// simulated is a simulated machine as the daemon sees it: a host root on a disk and tools that are processes.
func simulated(t *testing.T) (*simhost.Machine, *host.Host) {
	t.Helper()
	return machineOf(t, simhost.DefaultSpec("node-0", 7))
}

func machineOf(t *testing.T, spec simhost.Spec) (*simhost.Machine, *host.Host) {
	t.Helper()
	m, err := simhost.Create(filepath.Join(t.TempDir(), "machine"), spec)
	require.NoError(t, err)
	self, err := os.Executable()
	require.NoError(t, err)
	require.NoError(t, m.InstallTools(self))
	run, err := command.NewExecRunner(command.Config{Path: []string{m.ToolPath()}, StateDir: t.TempDir()})
	require.NoError(t, err)
	root := os.DirFS(m.Dir())
	h, err := host.New(host.Config{FS: root, Drivers: driver.Set{mstflint.New(run, root), nvme.New(run), scsi.New(run), fwupd.New(run, root), fwupd.NewATA(run)}})
	require.NoError(t, err)
	return m, h
}

func TestReadsMachineThroughTools(t *testing.T) {
	m, h := simulated(t)
	boot, err := m.BootID()
	require.NoError(t, err)
	inv := scan(t, h)
	assert.Equal(t, boot, inv.BootID)
	assert.Equal(t, "ThinkSystem SR650 V2", inv.Machine.Model)
	assert.Empty(t, inv.Incomplete)
	versions := map[string]string{}
	for _, d := range inv.Devices {
		require.NoError(t, d.Err)
		if d.Firmware != nil {
			versions[d.UniqueID] = string(d.Firmware.Running)
		}
	}
	assert.Equal(t, map[string]string{
		"4c4c4544-0051-3510-8057-b4c04f000007": simhost.DefaultBIOSVersion,
		"b8:3f:d2:00:00:70":                    simhost.DefaultCX6Version,
		"94:6d:ae:00:00:70":                    simhost.DefaultCX7Version,
		"eui.3634483054500007":                 simhost.DefaultSamsungVersion,
		"eui.00a075013ce00007":                 simhost.DefaultMicronVersion,
		"naa.5000c500d0000070":                 simhost.DefaultSASVersion,
	}, versions)
	hours := map[string]int64{}
	for _, d := range inv.Devices {
		if d.PowerOnHours != nil {
			hours[d.Model] = *d.PowerOnHours
		}
	}
	assert.Equal(t, map[string]int64{"SAMSUNG MZQL23T8HCLS-00A07": 9174, "Micron_7450_MTFDKCC3T8TFR": 9174, "ST16000NM006J": 31253}, hours)
	assert.Len(t, inv.Devices, 6)
	card := inv.Devices[4]
	assert.Equal(t, "MT_0000000834", card.BoardID)
	assert.Len(t, card.Ports, 2)
}

// A controller is listed beside the drives behind it, by what its driver says, and does not change their names.
func TestListsStorageController(t *testing.T) {
	_, without := simulated(t)
	for name, c := range map[string]simhost.Controller{
		"500605b00dd9c7b0":           {PCI: "0000:19:00.0", DeviceID: "00ac", SASAddress: "500605b00dd9c7b0", Serial: "SP81928512"},
		"pci.1000-0014.0000:19:00.0": {PCI: "0000:19:00.0", DeviceID: "0014", SASAddress: "500605b00dd9c7b0", RAID: true},
	} {
		spec := simhost.DefaultSpec("node-0", 7)
		spec.Controller = &c
		_, h := machineOf(t, spec)
		inv := scan(t, h)
		assert.Equal(t, append(ids(scan(t, without).Devices), "StorageController "+name), ids(inv.Devices))
		d := inv.Devices[len(inv.Devices)-1]
		require.NoError(t, d.Err)
		assert.Nil(t, d.Firmware)
		assert.Empty(t, d.Driver)
		assert.Equal(t, c.Serial, d.SerialNumber)
	}
}

// A SATA drive is a disk of the SCSI layer, whose whole model and version only the drive itself tells.
func TestReadsSATADriveByTools(t *testing.T) {
	spec := simhost.DefaultSpec("node-0", 7)
	spec.SATA = []simhost.SATA{simhost.DefaultSATA(7)}
	m, h := machineOf(t, spec)
	want := simhost.DefaultSATA(7)
	d, found, err := h.Find(t.Context(), inventory.Disk, "naa."+want.WWN)
	require.NoError(t, err)
	require.True(t, found)
	require.NoError(t, d.Err)
	assert.Equal(t, "fwupd-ata", d.Driver)
	assert.Equal(t, want.Model, d.Model)
	assert.Equal(t, want.Serial, d.SerialNumber)
	require.NotNil(t, d.Firmware)
	assert.Equal(t, inventory.Version(simhost.DefaultSATAVersion), d.Firmware.Running)
	require.NoError(t, m.Unplug("sdb"))
	_, found, err = h.Find(t.Context(), inventory.Disk, "naa."+want.WWN)
	require.NoError(t, err)
	assert.False(t, found)
}

// F17 with real tools: what one of them says or does concerns its device alone, whose identity stays the same.
func TestFailedToolSparesOthers(t *testing.T) {
	m, h := simulated(t)
	healthy := ids(scan(t, h).Devices)
	require.NoError(t, m.SetFault(simhost.Fault{Kind: simhost.Fail, Device: "nic0", Stderr: "-E- Cannot open Device"}))
	require.NoError(t, m.SetFault(simhost.Fault{Kind: simhost.Garbage, Device: "nvme1", Stdout: "{}"}))
	inv := scan(t, h)
	assert.Equal(t, healthy, ids(inv.Devices))
	failed := map[string]string{}
	for _, d := range inv.Devices {
		if d.Err != nil {
			failed[d.UniqueID] = d.Err.Error()
			assert.Nil(t, d.Firmware)
		}
	}
	require.Len(t, failed, 2)
	assert.Contains(t, failed["b8:3f:d2:00:00:70"], "Cannot open Device")
	assert.Contains(t, failed, "eui.00a075013ce00007")
}

// R001-2: what is unplugged is gone at the next look, which a change of the fingerprint calls for.
func TestUnpluggedDriveComesBack(t *testing.T) {
	m, h := simulated(t)
	look := func() (string, []string) {
		t.Helper()
		print, err := sysfs.Fingerprint(os.DirFS(m.Dir()))
		require.NoError(t, err)
		return print, ids(scan(t, h).Devices)
	}
	print, all := look()
	require.NoError(t, m.Unplug("nvme0"))
	changed, rest := look()
	assert.NotEqual(t, print, changed)
	assert.Len(t, rest, len(all)-1)
	_, found, err := h.Find(t.Context(), inventory.Disk, "eui.3634483054500007")
	require.NoError(t, err)
	assert.False(t, found)
	require.NoError(t, m.Plug("nvme0"))
	again, back := look()
	assert.Equal(t, print, again)
	assert.Equal(t, all, back)
}

func TestCardTellsProductNumbers(t *testing.T) { // R001-4, R001-8
	_, h := simulated(t)
	spec := simhost.DefaultSpec("node-0", 7)
	cards := map[string]simhost.NIC{}
	for _, n := range spec.NICs {
		cards[n.PSID] = n
	}
	found := 0
	for _, d := range scan(t, h).Devices {
		if d.Class != inventory.NIC {
			continue
		}
		found++
		want := cards[d.BoardID]
		assert.NotEmpty(t, d.Model)
		assert.True(t, strings.HasPrefix(want.Model, d.Model+";"), "%s: the name without the features", d.Model)
		assert.Equal(t, want.PartNumber, d.PartNumber)
		assert.Equal(t, want.Serial, d.SerialNumber)
	}
	assert.Equal(t, len(cards), found)
}
