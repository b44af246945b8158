package pci

import (
	"context"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// The test binary is the tool, with a fake kernel, when the first argument says so, and the tool of an adapter's firmware with another. The second
// is the kernel's directory.
const (
	asTool     = "-as-firmware-pci"
	asFirmware = "-as-firmware"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == asTool {
		open := func(root string) Host { return kernelIn(root) }
		os.Exit(Program{Open: open}.Run(os.Args[3:], os.Stdout, os.Stderr))
	}
	if len(os.Args) > 2 && os.Args[1] == asFirmware {
		os.Exit(kernelIn(os.Args[2]).firmware(os.Args[3:], os.Stderr))
	}
	os.Exit(m.Run())
}

func runnerOf(t *testing.T, k fakeKernel) *command.ExecRunner {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	runner, err := command.NewExecRunner(command.Config{
		Path: []string{t.TempDir()}, StateDir: t.TempDir(),
		Own: map[string][]string{Tool: {self, asTool, k.Dir()}, "firmware": {self, asFirmware, k.Dir()}},
	})
	require.NoError(t, err)
	return runner
}

func adapterID() inventory.Identity {
	return inventory.Identity{
		Class: inventory.NIC, VendorID: "8086", UniqueID: "02:00:00:00:00:01", Kernel: "igb",
		PCI: []inventory.PCIAddress{{Bus: 0x3b}, {Bus: 0x3b, Function: 1}},
	}
}

// device is an adapter whose driver can tell which it is, with all its settings.
type device struct {
	driver.SettingsOnly
	driver.Configurer
}

func (device) Name() string    { return "test" }
func (device) Version() string { return "1" }

func (device) Inspect(_ context.Context, id inventory.Identity) (inventory.Identity, inventory.Firmware, error) {
	return id, inventory.Firmware{Running: "1"}, nil
}

// nv is the part of an adapter's driver that knows its firmware, which keeps how many virtual functions it can have, and loads that with a
// reboot. It says what it loaded unless it is silent.
type nv struct {
	k      fakeKernel
	runner command.Runner
	silent bool
}

func (n nv) Parameters(_ context.Context, _ inventory.Identity, names ...string) ([]inventory.Parameter, error) {
	if _, garbage := n.k.faulty("garbage"); garbage {
		return nil, errors.New("nonsense")
	}
	own := inventory.Parameter{
		Name: "NUM_OF_VFS", Next: inventory.Read(n.k.get("nv.next")), Default: inventory.Read("16"), Spelling: inventory.SpelledAsNumber,
		Needs: inventory.ActivateReboot, Domain: inventory.Domain{Number: &inventory.Interval{Max: 127}},
	}
	if !n.silent {
		own.Current = inventory.Read(n.k.get("nv.current"))
	}
	typed := own
	typed.Name, typed.Sets = inventory.SettingNumVFs, []string{own.Name}
	return slices.DeleteFunc([]inventory.Parameter{own, typed}, func(p inventory.Parameter) bool {
		return len(names) > 0 && !slices.Contains(names, p.Name) && (p.Name != own.Name || !slices.Contains(names, typed.Name))
	}), nil
}

func (n nv) CheckConfiguration(ctx context.Context, id inventory.Identity, c driver.Configuration) error {
	all, err := n.Parameters(ctx, id)
	if err == nil {
		err = c.Check(all)
	}
	return err
}

func (n nv) Configure(ctx context.Context, id inventory.Identity, c driver.Configuration) (inventory.Activation, error) {
	all, err := n.Parameters(ctx, id)
	if err != nil {
		return 0, err
	}
	if err := c.Check(all); err != nil {
		return 0, err
	}
	needs := inventory.NeededFor(c.Set, all)
	for _, s := range inventory.Differing(c.Set, all) {
		set := command.Command{Argv: []string{"firmware", s.Value}, Kind: command.Write, Lock: id.UniqueID}
		r, err := n.runner.Run(ctx, set)
		if err == nil && r.ExitCode != 0 {
			err = command.Failed(set, r, errors.New("not stored"))
		}
		if err != nil {
			return 0, err
		}
	}
	return needs, nil
}

// reboot loads what the firmware stores: how many virtual functions the adapter can have, and whether any at all.
func (n nv) reboot(t *testing.T) {
	t.Helper()
	limit := n.k.get("nv.next")
	require.NoError(t, n.k.put("nv.current", limit))
	for _, address := range adapterID().PCI {
		require.NoError(t, n.k.offer(address.String(), limit))
		if limit == "0" {
			for _, name := range []string{numVFs, autoprobe, "sriov_totalvfs"} {
				require.NoError(t, os.Remove(n.k.path(devices+"/"+address.String()+"/"+name)))
			}
		}
	}
}

// withFirmware is an adapter whose firmware has a limit in force.
func withFirmware(t *testing.T, limit string) (fakeKernel, nv, driver.Configurer) {
	t.Helper()
	k := newFakeKernel(t, pf{"0000:3b:00.0", "", "mlx5_core"}, pf{"0000:3b:00.1", "", "mlx5_core"})
	runner := runnerOf(t, k)
	n := nv{k: k, runner: runner}
	require.NoError(t, k.put("nv.next", limit))
	n.reboot(t)
	return k, n, New(runner, k.Tree).Supplement(adapterID(), n)
}

func harness(t *testing.T, k fakeKernel, c driver.Configurer, reboot func(*testing.T), settings *drivertest.Settings) drivertest.Harness {
	t.Helper()
	settings.Stored = func(t *testing.T, name string) string {
		values := []string{}
		if name == inventory.SettingMaxReadRequestBytes {
			_, size := k.readRequest(t, "0000:3b:00.0")
			return strconv.Itoa(size)
		}
		for _, address := range adapterID().PCI {
			if name == inventory.SettingNumVFs {
				name = numVFs
			}
			values = append(values, k.get(devices+"/"+address.String()+"/"+name))
		}
		if limit := k.get("nv.next"); limit != "" && name == numVFs && limit != k.get("nv.current") {
			return limit // the virtual functions come with it
		}
		if values = slices.Compact(values); len(values) == 1 && values[0] == "" {
			return "0"
		}
		return strings.Join(values, ",")
	}
	return drivertest.Harness{
		Driver: device{Configurer: c}, ID: adapterID(), Settings: settings, Reboot: reboot,
		Garbage: func(t *testing.T) {
			k.fault("garbage", "")(t)
			for _, name := range []string{numVFs, "sriov_totalvfs"} {
				require.NoError(t, k.put(devices+"/0000:3b:00.0/"+name, "Segmentation fault\n"))
			}
		},
		Unreadable: func(t *testing.T) {
			require.NoError(t, os.RemoveAll(k.path(devices+"/0000:3b:00.0/sriov_totalvfs")))
			require.NoError(t, os.Mkdir(k.path(devices+"/0000:3b:00.0/sriov_totalvfs"), 0o700))
		},
		FailWrite: func(t *testing.T, text string) { k.fault("fail", text)(t) },
		LieWrite:  k.fault("lie", ""),
		HangWrite: func(t *testing.T) (func() bool, func()) {
			k.fault("hang", "")(t)
			started := func() bool {
				_, hangs := k.faulty("hangs")
				return hangs
			}
			return started, func() { assert.NoError(t, os.Remove(k.path("faults/hang"))) }
		},
		WriteRunning: func(t *testing.T, lock string) bool {
			running, err := c.(adapter).driver.runner.(*command.ExecRunner).WriteRunning(lock)
			require.NoError(t, err)
			return running
		},
	}
}

// TestSettingsOfPortsConform proves R003-40 for adapters without a driver of their firmware, and with one.
func TestSettingsOfPortsConform(t *testing.T) {
	vfs := inventory.Setting{Name: inventory.SettingNumVFs, Value: "8"}
	t.Run("no firmware", func(t *testing.T) {
		drivertest.RunSettings(t, func(t *testing.T) drivertest.Harness {
			t.Parallel()
			k := newFakeKernel(t, pf{"0000:3b:00.0", "16", "igb"}, pf{"0000:3b:00.1", "8", "igb"})
			c := New(runnerOf(t, k), k.Tree).Supplement(adapterID(), nil)
			k.express(t, "0000:3b:00.0")
			reboot := func(t *testing.T) {
				require.NoError(t, k.boot())
				k.express(t, "0000:3b:00.0")
			}
			return harness(t, k, c, reboot, &drivertest.Settings{
				Set:     []inventory.Setting{vfs, {Name: autoprobe, Value: "0"}, {Name: inventory.SettingMaxReadRequestBytes, Value: "4096"}},
				Misfits: []inventory.Setting{{Name: inventory.SettingMaxReadRequestBytes, Value: "8192"}, {Name: inventory.SettingNumVFs, Value: "9"}, {Name: element(numVFs, 0), Value: "-1"}, {Name: autoprobe, Value: "2"}},
			})
		})
	})
	for name, limit := range map[string]string{"firmware that forbids it": "0", "firmware with another limit": "4"} {
		t.Run(name, func(t *testing.T) {
			drivertest.RunSettings(t, func(t *testing.T) drivertest.Harness {
				t.Parallel()
				k, n, c := withFirmware(t, limit)
				return harness(t, k, c, n.reboot, &drivertest.Settings{
					Set: []inventory.Setting{vfs}, Misfits: []inventory.Setting{{Name: inventory.SettingNumVFs, Value: "128"}},
				})
			})
		})
	}
}
