package simhost

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func names(t *testing.T, m *Machine, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(m.Dir(), dir))
	require.NoError(t, err)
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func TestHostTreeHasKernelLayout(t *testing.T) {
	m := newMachine(t)
	assert.Equal(t, []string{"cni0", "ens1f0np0", "ens1f1np1", "ens2f0np0", "ens2f1np1", "lo"}, names(t, m, "sys/class/net"))
	assert.Equal(t, []string{"nvme0", "nvme1"}, names(t, m, "sys/class/nvme"))
	assert.Equal(t, []string{"0:0:0:0"}, names(t, m, "sys/class/scsi_device"))
	assert.Equal(t, []string{"sg0"}, names(t, m, "sys/class/scsi_generic"))
	assert.Equal(t, []string{"nvme0n1", "nvme1n1", "sda"}, names(t, m, "sys/class/block"))
	assert.Equal(t, []string{"nvme0n1", "nvme1n1", "sda"}, names(t, m, "sys/block"))
	assert.Contains(t, names(t, m, "sys/bus/pci/devices"), "0000:3b:00.1")

	for path, want := range map[string]string{
		"sys/class/net/ens1f1np1/address":              "b8:3f:d2:00:00:71",
		"sys/class/net/ens1f1np1/operstate":            "up",
		"sys/class/net/ens1f1np1/carrier":              "1",
		"sys/class/net/ens1f1np1/type":                 "1",
		"sys/class/net/ens1f1np1/dev_port":             "0",
		"sys/class/net/ens1f1np1/phys_port_name":       "p1",
		"sys/class/net/ens1f1np1/device/vendor":        "0x15b3",
		"sys/class/net/ens1f1np1/device/device":        "0x101d",
		"sys/class/nvme/nvme0/model":                   "SAMSUNG MZQL23T8HCLS-00A07" + strings.Repeat(" ", 14),
		"sys/class/nvme/nvme0/address":                 "0000:65:00.0",
		"sys/class/nvme/nvme0/transport":               "pcie",
		"sys/class/nvme/nvme0/nvme0n1/wwid":            "eui.3634483054500007",
		"sys/class/nvme/nvme0/device/class":            "0x010802",
		"sys/class/scsi_device/0:0:0:0/device/vendor":  "SEAGATE ",
		"sys/class/scsi_device/0:0:0:0/device/model":   "ST16000NM006J   ",
		"sys/class/scsi_device/0:0:0:0/device/rev":     "E004",
		"sys/class/scsi_device/0:0:0:0/device/wwid":    "naa.5000c500d0000070",
		"sys/class/scsi_generic/sg0/device/type":       "0",
		"sys/class/block/sda/device/model":             "ST16000NM006J   ",
		"sys/class/dmi/id/sys_vendor":                  "Lenovo",
		"sys/class/dmi/id/product_serial":              "J3000007",
		"sys/class/dmi/id/bios_version":                DefaultBIOSVersion,
		"sys/firmware/efi/esrt/entries/entry0/fw_type": "1",
		"sys/class/infiniband/mlx5_0/board_id":         "MT_0000000359",
		"sys/class/infiniband/mlx5_0/fw_ver":           DefaultCX6Version,
		"sys/bus/pci/devices/0000:3b:00.0/modalias":    "pci:v000015B3d0000101Dsv000015B3sd00000016bc02sc00i00",
	} {
		assert.Equal(t, want, read(t, m, path), path)
	}
	functions := names(t, m, "sys/bus/pci/devices")
	assert.Len(t, functions, 12, "four ports, two drives and the SAS controller, and a root port for each of the five slots")
	for _, f := range functions {
		want := "0x060400"
		switch {
		case strings.HasPrefix(f, "0000:3b:"), strings.HasPrefix(f, "0000:5e:"):
			want = "0x020000"
		case f == "0000:65:00.0", f == "0000:67:00.0":
			want = "0x010802"
		case f == "0000:18:00.0":
			want = "0x010700"
		}
		assert.Equal(t, want, read(t, m, "sys/bus/pci/devices/"+f+"/class"), f)
	}
	driver, err := os.Readlink(filepath.Join(m.Dir(), "sys/bus/pci/devices/0000:3b:00.0/driver"))
	require.NoError(t, err)
	assert.Equal(t, "mlx5_core", filepath.Base(driver))
	boot, err := m.BootID()
	require.NoError(t, err)
	assert.Equal(t, boot, read(t, m, "proc/sys/kernel/random/boot_id"))
	assert.Regexp(t, `^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`, boot)
}

// TestLinksStayInTheTree: a machine must be readable through a root that does not follow links out of it.
func TestLinksStayInTheTree(t *testing.T) {
	m := newMachine(t)
	links := 0
	root := filepath.Join(m.Dir(), "sys")
	require.NoError(t, filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.Type()&fs.ModeSymlink == 0 {
			return err
		}
		links++
		target, err := os.Readlink(p)
		assert.NoError(t, err)
		assert.False(t, filepath.IsAbs(target), p)
		assert.True(t, strings.HasPrefix(filepath.Join(filepath.Dir(p), target), root+"/"), p)
		if base := filepath.Base(p); base != "subsystem" && base != "driver" {
			_, err = os.Stat(p)
			assert.NoError(t, err)
		}
		return nil
	}))
	assert.Greater(t, links, 40)
}

func TestMachinesShareNoIdentity(t *testing.T) {
	identity := func(index int) (ids []string) {
		s := DefaultSpec("n", index)
		ids = append(ids, s.System.Serial, s.System.UUID)
		for _, n := range s.NICs {
			for port := range n.Ports {
				ids = append(ids, colons(n.BaseMAC+uint64(port), 6), words(n.BaseGUID+uint64(port)))
			}
			ids = append(ids, n.Serial)
		}
		for _, n := range s.NVMe {
			ids = append(ids, n.Serial, n.EUI)
			assert.Len(t, n.EUI, 16)
		}
		for _, d := range s.SCSI {
			ids = append(ids, d.Serial, d.WWN)
			assert.Len(t, d.WWN, 16)
		}
		return ids
	}
	seen := map[string]int{}
	for _, index := range []int{0, 1, 2, 15, 16, 17, 255, 256, 4095, 65535} {
		for _, id := range identity(index) {
			assert.Zero(t, seen[id], id)
			seen[id]++
		}
	}
}

func TestUnpluggedPartsCanReturn(t *testing.T) {
	m := newMachine(t)
	before := snapshot(t, m)
	for _, key := range []string{"nic0", "nvme1", "sda"} {
		require.NoError(t, m.Unplug(key))
		assert.False(t, device(t, m, key).Present)
	}
	assert.Equal(t, []string{"cni0", "ens2f0np0", "ens2f1np1", "lo"}, names(t, m, "sys/class/net"))
	assert.Equal(t, []string{"nvme0"}, names(t, m, "sys/class/nvme"))
	assert.Equal(t, 1, run(m, "nvme", "id-ctrl", "/dev/nvme1").code)
	assert.Equal(t, 52, run(m, "sg_inq", "/dev/sg0").code)
	for _, key := range []string{"nic0", "nvme1", "sda"} {
		require.NoError(t, m.Plug(key))
	}
	assert.Equal(t, before, snapshot(t, m))
}

func TestAHalfWrittenTreeIsRepaired(t *testing.T) {
	m := newMachine(t)
	before := snapshot(t, m)
	require.NoError(t, os.WriteFile(m.path(unfinished), nil, 0o600))
	require.NoError(t, os.Remove(filepath.Join(m.Dir(), "sys/class/nvme/nvme0")))
	require.NoError(t, os.MkdirAll(filepath.Join(m.Dir(), "sys/class/net/ghost"), 0o755))
	require.NoError(t, m.Plug("nic0"))
	assert.Equal(t, before, snapshot(t, m))
	assert.NoFileExists(t, m.path(unfinished))
}

// snapshot is the content of the host tree.
func snapshot(t *testing.T, m *Machine) map[string]string {
	t.Helper()
	out := map[string]string{}
	require.NoError(t, filepath.WalkDir(filepath.Join(m.Dir(), "sys"), func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(p)
		if d.Type()&fs.ModeSymlink != 0 {
			target, err := os.Readlink(p)
			out[p] = target
			return err
		}
		out[p] = string(data)
		return err
	}))
	assert.NotEmpty(t, slices.Collect(maps.Keys(out)))
	return out
}

func TestGatewayNeedsUplinkLink(t *testing.T) {
	m := newMachine(t)
	file := func(name string) []string {
		data, err := os.ReadFile(filepath.Join(m.Dir(), "proc/1/net", name))
		require.NoError(t, err)
		return strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	}
	connected := func() bool {
		up, err := m.Connected()
		require.NoError(t, err)
		return up
	}
	// Lines of a real machine with its names and addresses replaced.
	routes := []string{
		"Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT",
		"ens1f0np0\t00000000\t0100140A\t0003\t0\t0\t100\t00000000\t0\t0\t0",
		"ens1f0np0\t0000140A\t00000000\t0001\t0\t0\t100\t00FFFFFF\t0\t0\t0",
	}
	for i, line := range file("route") {
		assert.Equal(t, routes[i], strings.TrimRight(line, " "))
		assert.Len(t, line, 127, "the kernel pads its lines")
	}
	assert.Equal(t, []string{
		"IP address       HW type     Flags       HW address            Mask     Device",
		"10.20.0.1        0x1         0x2         52:54:00:14:00:01     *        ens1f0np0",
	}, file("arp"))
	assert.True(t, connected())

	require.NoError(t, m.SetFault(Fault{Kind: LinkDown, Device: "nic1", Operation: "boot", Count: 1}))
	require.NoError(t, m.Boot())
	assert.True(t, connected(), "the other adapter does not matter")
	require.NoError(t, m.SetFault(Fault{Kind: LinkDown, Device: "nic0", Operation: "boot", Count: 1}))
	require.NoError(t, m.Boot())
	assert.False(t, connected())
	assert.Len(t, file("route"), 3, "routes outlive the link")
	assert.Equal(t, "10.20.0.1        0x1         0x0         00:00:00:00:00:00     *        ens1f0np0", file("arp")[1])

	require.NoError(t, m.Boot())
	assert.True(t, connected())
	require.NoError(t, m.Unplug("nic0"))
	assert.False(t, connected())
	assert.Len(t, file("route"), 1, "without the interface there is no route")
	assert.Len(t, file("arp"), 1)
	require.NoError(t, m.Plug("nic0"))
	assert.True(t, connected())
	require.NoError(t, m.CutPower())
	assert.False(t, connected())
}

func TestUplinkIsAnAdapterWithAPort(t *testing.T) {
	spec := DefaultSpec("n", 1)
	spec.Uplink = "nvme0"
	_, err := Create(t.TempDir(), spec)
	assert.ErrorContains(t, err, "uplink")
}
