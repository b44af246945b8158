package devlink

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/sysfs/sysfstest"
)

// The test binary is the tool, with a fake kernel, when the first argument says so. The second is the kernel's directory.
const asTool = "-as-firmware-devlink"

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == asTool {
		k := &fakeKernel{dir: os.Args[2]}
		os.Exit(Program{Dial: k.dial, SearchPath: k.searchPath()}.Run(os.Args[3:], os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

func broadcom() (adapter, inventory.Identity) {
	return adapter{
			Handle: "pci/0000:3b:00.0", Serial: "00-0a-f7-ff-fe-11-22-33", BoardSerial: "P425G01234", Board: [2]string{"board.id", "BCM957508-P2100G"},
			VersionName: "fw", Running: "1.0.0", ForImages: "P2100G",
		}, inventory.Identity{
			Class: inventory.NIC, VendorID: "14e4", DeviceID: "1750", UniqueID: "02:00:00:00:00:01", Kernel: "bnxt_en", Node: "eth0",
			PCI: []inventory.PCIAddress{{Bus: 0x3b}, {Bus: 0x3b, Function: 1}},
		}
}

func pensando() (adapter, inventory.Identity) {
	a, id := broadcom()
	a.Board, a.Blind = [2]string{"asic.id", "0x0"}, true
	id.Kernel, id.VendorID, id.DeviceID = "ionic", "1dd8", "1002"
	return a, id
}

func simulated() (adapter, inventory.Identity) {
	return adapter{Handle: "netdevsim/netdevsim1", VersionName: "fw.mgmt", Running: "1.0.0", ForImages: "any"},
		inventory.Identity{Class: inventory.NIC, UniqueID: "netdevsim.netdevsim1", Kernel: "netdevsim", Node: "eth1"}
}

// TestDevlinkConforms proves R003-40.
func TestDevlinkConforms(t *testing.T) {
	for name, test := range map[string]struct {
		adapter func() (adapter, inventory.Identity)
		no      string
		params  []fakeParam
		set     []inventory.Setting
	}{
		"adapter that is reset":                       {adapter: broadcom},
		"adapter whose kernel driver cannot reset":    {adapter: broadcom, no: "no-reset"},
		"adapter that does not report what it stores": {adapter: pensando},
		"adapter off PCI":                             {adapter: simulated},
		"adapter whose firmware keeps how many virtual functions it can have": {
			adapter: broadcom, params: []fakeParam{{"enable_sriov", 6, 2, "false", "false"}, {"total_vfs", 3, 2, "8", "8"}},
			set: []inventory.Setting{{Name: inventory.SettingNumVFs, Value: "16"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			drivertest.Run(t, func(t *testing.T) drivertest.Harness {
				t.Parallel()
				a, id := test.adapter()
				if a.Params = parameters(); test.params != nil {
					a.Params = slices.Clone(test.params)
				}
				k := newFakeKernel(t, a)
				if test.no != "" {
					k.fault(test.no, "")(t)
				}
				h := harness(t, k, a, id)
				if test.set != nil {
					h.Settings = vfSettings(h.Settings, test.set)
				}
				return h
			})
		})
	}
}

// runnerOf runs the tool in a process of its own, with the kernel.
func runnerOf(t *testing.T, k *fakeKernel) *command.ExecRunner {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	runner, err := command.NewExecRunner(command.Config{
		Path: []string{t.TempDir()}, StateDir: t.TempDir(), Own: map[string][]string{Tool: {self, asTool, k.dir}},
	})
	require.NoError(t, err)
	return runner
}

// simulatedTree is a machine with a netdevsim device as Linux 6.1 shows it.
func simulatedTree() sysfstest.Machine {
	m := sysfstest.NewMachine()
	const dir = "sys/devices/netdevsim1"
	m.Link(dir+"/subsystem", "sys/bus/netdevsim")
	m.Link(dir+"/driver", "sys/bus/netdevsim/drivers/netdevsim")
	m.Interface(dir, "eth1", map[string]string{"address": "4e:c4:35:01:02:03", "addr_assign_type": "1", "phys_port_name": "p1"})
	return m
}

// parameters are of each kind and mode; of some the kernel reports a default.
func parameters() []fakeParam {
	return []fakeParam{
		{"enable_sriov", 6, 2, "false", "false"},
		{"label", 5, 2, "rack 7", ""},
		{"max_macs", 3, 1, "32", "32"},
		{"msix_vec_per_pf_max", 1, 2, "64", ""},
		{"port_limit", 2, 0, "7", "7"},
		{"region_size", 4, 1, "4096", "4096"},
		{"reset_dev_on_drv_probe", 1, 0, "2", "2"},
		{"reset_dev_on_drv_probe", 1, 2, "3", ""},
		{"test1", 6, 1, "true", "true"},
	}
}

func settings(k *fakeKernel) *drivertest.Settings {
	return &drivertest.Settings{
		Set: []inventory.Setting{
			{Name: "enable_sriov/permanent", Value: "true"}, {Name: "label/permanent", Value: ""}, {Name: "max_macs/driverinit", Value: "4294967295"},
			{Name: "msix_vec_per_pf_max/permanent", Value: "255"}, {Name: "port_limit/runtime", Value: "65535"},
			{Name: "region_size/driverinit", Value: "8192"}, {Name: "reset_dev_on_drv_probe/runtime", Value: "0"}, {Name: "test1/driverinit", Value: "false"},
		},
		Misfits: []inventory.Setting{
			{Name: "enable_sriov/permanent", Value: "1"}, {Name: "label/permanent", Value: "a text that is longer than 31 b."},
			{Name: "max_macs/driverinit", Value: "4294967296"}, {Name: "msix_vec_per_pf_max/permanent", Value: "-1"},
			{Name: "port_limit/runtime", Value: "all"},
		},
		Stored: func(t *testing.T, name string) string {
			a, err := k.load()
			require.NoError(t, err)
			for _, p := range a.Params {
				if p.Name+"/"+[]string{"runtime", "driverinit", "permanent"}[p.Mode] == name {
					return p.Value
				}
			}
			return "no such parameter"
		},
	}
}

// vfSettings are those of an adapter that has parameters for virtual functions alone.
func vfSettings(all *drivertest.Settings, set []inventory.Setting) *drivertest.Settings {
	stored := func(t *testing.T, name string) string {
		t.Helper()
		if name == inventory.SettingNumVFs && all.Stored(t, sriovEnabled) == "false" {
			return "0"
		}
		return all.Stored(t, sriovVFs)
	}
	return &drivertest.Settings{Set: set, Misfits: []inventory.Setting{{Name: inventory.SettingNumVFs, Value: "many"}}, Stored: stored}
}

func harness(t *testing.T, k *fakeKernel, a adapter, id inventory.Identity) drivertest.Harness {
	t.Helper()
	runner := runnerOf(t, k)
	damaged := drivertest.ImageBytes(a.ForImages, "1.1.0")
	return drivertest.Harness{
		Driver:     New(runner, simulatedTree(), k.dial),
		ID:         id,
		Image:      drivertest.NewImage(t, a.ForImages, "1.1.0"),
		Other:      drivertest.NewImage(t, a.ForImages, "0.9.0"),
		Previous:   drivertest.NewImage(t, a.ForImages, "1.0.0"),
		WrongBoard: drivertest.NewImage(t, "another", "1.1.0"),
		Damaged:    drivertest.SaveImage(t, "1.1.0", damaged[:len(damaged)-100]),
		Reboot: func(t *testing.T) {
			a, err := k.load()
			require.NoError(t, err)
			require.NoError(t, k.save(a.boot()))
		},
		Garbage:    k.fault("garbage", "Segmentation fault"),
		Unreadable: k.fault("gone", ""),
		FailWrite:  func(t *testing.T, text string) { k.fault("fail", text)(t) },
		LieWrite:   k.fault("lie", ""),
		HangWrite: func(t *testing.T) (func() bool, func()) {
			k.fault("hang", "")(t)
			started := func() bool {
				_, hangs := k.faulty("hangs")
				return hangs
			}
			return started, func() { assert.NoError(t, os.Remove(filepath.Join(k.dir, "hang"))) }
		},
		WriteRunning: func(t *testing.T, lock string) bool {
			running, err := runner.WriteRunning(lock)
			require.NoError(t, err)
			return running
		},
		FailRead: func(*testing.T) {},
		Settings: settings(k),
		Stored: func(t *testing.T) inventory.Version {
			a, err := k.load()
			require.NoError(t, err)
			return inventory.Version(a.holds())
		},
	}
}
