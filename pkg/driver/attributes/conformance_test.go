package attributes

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// The test binary is the tool, with a fake kernel, when the first argument says so.
const asTool = "-as-firmware-attributes"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == asTool {
		open := func(root string) Host { return kernelIn(root) }
		os.Exit(Program{Open: open}.Run(os.Args[2:], os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

func runnerOf(t *testing.T) *command.ExecRunner {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	runner, err := command.NewExecRunner(command.Config{
		Path: []string{t.TempDir()}, StateDir: t.TempDir(), Own: map[string][]string{Tool: {self, asTool}},
	})
	require.NoError(t, err)
	return runner
}

func systemID() inventory.Identity {
	return inventory.Identity{Class: inventory.BIOS, Vendor: "Dell Inc.", UniqueID: "4c4c4544-0044-3510-8052-b4c04f4a4e32"}
}

// device is system firmware that can be inspected, with its settings.
type device struct {
	driver.SettingsOnly
	driver.Configurer
}

func (device) Name() string    { return "test" }
func (device) Version() string { return "1" }

func (device) Inspect(_ context.Context, id inventory.Identity) (inventory.Identity, inventory.Firmware, error) {
	return id, inventory.Firmware{Running: "1"}, nil
}

const dell, lenovo, hp = "dell-wmi-sysman", "thinklmi", "hp-bioscfg"

func dellSettings() map[string]attribute {
	return map[string]attribute{
		"SriovGlobalEnable": enumeration("Disabled", "Disabled", "Disabled;Enabled;"),
		"SecureBoot":        enumeration("Enabled", "Enabled", "Disabled;Enabled;"),
		"LegacyOrom": {
			"type": "enumeration", "current_value": "Disabled", "default_value": "", "possible_values": "Disabled;Enabled;",
			"dell_value_modifier": "Disabled[ForceIf:SecureBoot=Enabled];",
		},
		"AutoOn":    enumeration("Disabled", "Disabled", "Disabled;EveryDay;SelectDays;"),
		"AutoOnFri": {"type": "enumeration", "current_value": "Disabled", "possible_values": "Disabled;Enabled;", "dell_modifier": "[SuppressIfNot:AutoOn=SelectDays]"},
		"FanSpeed": {
			"type": "integer", "current_value": "20", "default_value": "10", "min_value": "0", "max_value": "100", "scalar_increment": "10",
		},
		"AssetTag": {"type": "string", "current_value": "", "default_value": "", "min_length": "0", "max_length": "8"},
	}
}

func lenovoSettings() map[string]attribute {
	return map[string]attribute{
		"VirtualizationTechnology": {"type": "enumeration", "current_value": "Disable", "possible_values": "Disable;Enable"},
		"Alarm\\Time":              {"type": "string", "current_value": "00:00:00"},
	}
}

func hpSettings() map[string]attribute {
	return map[string]attribute{
		"UEFI Boot Order": {"type": "ordered-list", "current_value": "NVMe;Network;USB", "elements": "NVMe;Network;USB"},
		"Fast Boot":       {"type": "enumeration", "current_value": "Disable", "possible_values": "Disable;Enable"},
	}
}

// TestSettingsOfSystemFirmwareConform proves R003-40 for the attributes of three vendors, with a password and without.
func TestSettingsOfSystemFirmwareConform(t *testing.T) {
	for name, test := range map[string]struct {
		of       string
		settings map[string]attribute
		password string
		suite    drivertest.Settings
	}{
		"Dell": {of: dell, settings: dellSettings(), suite: drivertest.Settings{
			Set: []inventory.Setting{
				{Name: "AssetTag", Value: "rack 7"}, {Name: "FanSpeed", Value: "50"}, {Name: "SriovGlobalEnable", Value: "Enabled"},
			},
			Misfits: []inventory.Setting{
				{Name: "AssetTag", Value: "a longer tag"}, {Name: "FanSpeed", Value: "15"}, {Name: "FanSpeed", Value: "110"},
				{Name: "SriovGlobalEnable", Value: "On"},
			},
			ReadOnly: "LegacyOrom",
		}},
		"Lenovo with a password": {of: lenovo, settings: lenovoSettings(), password: "secret", suite: drivertest.Settings{
			Set:     []inventory.Setting{{Name: "Alarm\\Time", Value: "06:00:00"}, {Name: "VirtualizationTechnology", Value: "Enable"}},
			Misfits: []inventory.Setting{{Name: "VirtualizationTechnology", Value: "Enabled"}},
		}},
		"HP": {of: hp, settings: hpSettings(), suite: drivertest.Settings{
			Set:     []inventory.Setting{{Name: "UEFI Boot Order", Value: "Network;NVMe;USB"}},
			Misfits: []inventory.Setting{{Name: "UEFI Boot Order", Value: "Network;NVMe"}, {Name: "Fast Boot", Value: "Maybe"}},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			drivertest.RunSettings(t, func(t *testing.T) drivertest.Harness {
				t.Parallel()
				k := newFakeKernel(t)
				k.show(t, test.of, test.settings)
				d := New(runnerOf(t), k.Tree)
				if test.password != "" {
					k.protect(t, test.of, "Admin", bySetupPassword, "password", test.password)
					require.NoError(t, k.put(devices+test.of+"/attributes/save_settings", "single\n"))
					d.UnlockWith(passwordFile(t, test.password))
				}
				return harness(k, d, test.of, test.suite)
			})
		})
	}
}

func passwordFile(t *testing.T, password string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "password")
	require.NoError(t, os.WriteFile(file, []byte(password+"\n"), 0o600))
	return file
}

func harness(k fakeKernel, d *Driver, of string, settings drivertest.Settings) drivertest.Harness {
	settings.Stored = func(_ *testing.T, name string) string {
		if of == hp {
			return strings.ReplaceAll(k.value(of, name), ",", ";")
		}
		return k.value(of, name)
	}
	every := func(t *testing.T, file string, spoil func(path string)) {
		t.Helper()
		files, err := filepath.Glob(k.path(devices + of + "/attributes/*/" + file))
		require.NoError(t, err)
		for _, f := range files {
			spoil(f)
		}
	}
	return drivertest.Harness{
		Driver: device{Configurer: d.Supplement(systemID(), nil)}, ID: systemID(), Settings: &settings, Reboot: k.boot,
		Garbage: func(t *testing.T) {
			every(t, "type", func(path string) { require.NoError(t, os.WriteFile(path, []byte("Segmentation fault\n"), 0o600)) })
		},
		Unreadable: func(t *testing.T) {
			every(t, "current_value", func(path string) {
				require.NoError(t, os.Remove(path))
				require.NoError(t, os.Mkdir(path, 0o700))
			})
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
			running, err := d.runner.(*command.ExecRunner).WriteRunning(lock)
			require.NoError(t, err)
			return running
		},
	}
}
