package profile_test

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/command/commandtest"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/profile"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// knobs are the settings of the card.
const knobs = `
settings:
  activation: DeviceReset
  read:
  - argv: [simflash, -d, "{{device.pciAddress}}", knobs]
    exits: {ok: [0]}
    line: '(?P<name>\w+) is (?P<current>.+), then (?P<next>.+), of (?P<values>.+) \((?P<default>.+)\)'
    separator: /
  set:
    argv: [simflash, -d, "{{device.pciAddress}}", turn, "{{setting.name}}", "{{setting.value}}"]
    timeout: 1m
    exits: {ok: [0], rejected: [4]}
`

func TestProfilesConform(t *testing.T) {
	text, err := os.ReadFile("testdata/simflash.yaml")
	require.NoError(t, err)
	reboots := func(s string) string {
		before, rest, _ := strings.Cut(s, "activate:\n")
		_, _, found := strings.Cut(rest, "rollback: Image")
		require.True(t, found)
		return before + "activation: Reboot\nversionFormat: Dotted\n"
	}
	for name, change := range map[string]func(string) string{
		"card that resets":                           func(s string) string { return s },
		"card with settings":                         func(s string) string { return s + knobs },
		"card that needs a reboot, without rollback": reboots,
		"card that does not report what it stores": func(s string) string {
			blind := regexp.MustCompile(`(?m)^    stored: .*\n`).ReplaceAllString(s, "")
			require.NotEqual(t, s, blind)
			// The tool's "already" is no more than a word of such a card: what runs after the reboot counts.
			const all, some = "exits: {ok: [0], already: [3], rejected: [4]}", "exits: {ok: [0], pending: {3: Reboot}, rejected: [4]}"
			require.Contains(t, blind, all)
			return reboots(strings.Replace(blind, all, some, 1))
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := profile.Parse("simflash.yaml", []byte(change(string(text))))
			require.NoError(t, err)
			drivertest.Run(t, func(t *testing.T) drivertest.Harness {
				t.Parallel()
				return harness(t, p)
			})
		})
	}
}

func cardID() inventory.Identity {
	return inventory.Identity{
		Class: inventory.NIC, VendorID: "1af4", DeviceID: "0001", UniqueID: "pci.1af4-0001.0000:3b:00.0", Kernel: "sim",
		PCI: []inventory.PCIAddress{{Bus: 0x3b}, {Bus: 0x3b, Function: 1}},
	}
}

func harness(t *testing.T, p profile.Profile) drivertest.Harness {
	t.Helper()
	dir := newTool(t)
	runner, err := command.NewExecRunner(command.Config{Path: []string{dir}, StateDir: t.TempDir()})
	require.NoError(t, err)
	fault := func(name, text string) func(*testing.T) {
		return func(t *testing.T) { require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600)) }
	}
	damaged := drivertest.ImageBytes("SIM 0001", "1.1.0")
	settings := &drivertest.Settings{
		Set:     []inventory.Setting{{Name: "queues", Value: "16"}, {Name: "wake", Value: "never"}},
		Misfits: []inventory.Setting{{Name: "queues", Value: "12"}},
		Stored: func(t *testing.T, name string) string {
			c, err := loadCard(dir)
			require.NoError(t, err)
			return bios{Settings: c.Knobs}.find(name).Next
		},
	}
	if p.Settings == nil {
		settings = nil
	}
	return drivertest.Harness{
		Settings:       settings,
		Driver:         profile.New(runner, p),
		ID:             cardID(),
		Image:          drivertest.NewImage(t, "SIM 0001", "1.1.0"),
		Other:          drivertest.NewImage(t, "SIM 0001", "0.9.0"),
		Previous:       drivertest.NewImage(t, "SIM 0001", "1.0.0"),
		WrongBoard:     drivertest.NewImage(t, "SIM 0002", "1.1.0"),
		Damaged:        drivertest.SaveImage(t, "1.1.0", damaged[:len(damaged)-100]),
		SelfDescribing: true,
		Reboot: func(t *testing.T) {
			c, err := loadCard(dir)
			require.NoError(t, err)
			require.NoError(t, c.reset(dir))
		},
		Garbage:    fault("garbage", ""),
		Unreadable: fault("gone", ""),
		FailWrite:  func(t *testing.T, stderr string) { fault("fail", stderr)(t) },
		LieWrite:   fault("lie", ""),
		HangWrite: func(t *testing.T) (func() bool, func()) {
			fault("hang", "")(t)
			started := func() bool {
				_, hangs := faulty(dir, "hangs")
				return hangs
			}
			return started, func() { assert.NoError(t, os.Remove(filepath.Join(dir, "hang"))) }
		},
		WriteRunning: func(t *testing.T, lock string) bool {
			running, err := runner.WriteRunning(lock)
			require.NoError(t, err)
			return running
		},
		FailRead: func(*testing.T) {},
		Stored: func(t *testing.T) inventory.Version {
			c, err := loadCard(dir)
			require.NoError(t, err)
			return inventory.Version(c.holds())
		},
	}
}

// A card that says it cannot be reset after all gets a reboot.
func TestRefusedResetBecomesReboot(t *testing.T) {
	text, err := os.ReadFile("testdata/simflash.yaml")
	require.NoError(t, err)
	p, err := profile.Parse("simflash.yaml", text)
	require.NoError(t, err)
	dir := newTool(t)
	runner, err := command.NewExecRunner(command.Config{Path: []string{dir}, StateDir: t.TempDir()})
	require.NoError(t, err)
	d := profile.New(runner, p)
	need, err := d.Write(t.Context(), cardID(), drivertest.NewImage(t, "SIM 0001", "1.1.0"), nil)
	require.NoError(t, err)
	require.Equal(t, inventory.ActivateDeviceReset, need)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "no-reset"), nil, 0o600))
	need, err = d.Activate(t.Context(), cardID(), need)
	require.NoError(t, err)
	assert.Equal(t, inventory.ActivateReboot, need)
}

// The device reports what it stores and the exit code what that needs. A code for a later retry does not reject the image.
func TestExitCodesOfADeviceThatTellsWhatItStores(t *testing.T) {
	text := golden(t, "simflash.yaml")
	const all = "exits: {ok: [0], already: [3], rejected: [4]}"
	require.Contains(t, text, all)
	p, err := profile.Parse("p.yaml", []byte(strings.Replace(text, all, "exits: {ok: [0], pending: {8: PowerCycle}, retry: [7]}", 1)))
	require.NoError(t, err)
	const before = `{"Controllers":[{"Status":"Success","Address":"0000:3b:00.0","Running":"1.0.0","Board Id":"B","MAC":"02:00:00:00:00:01"}]}`
	for code, want := range map[int]inventory.Activation{0: inventory.ActivateDeviceReset, 8: inventory.ActivatePowerCycle, 7: 0, 4: 0} {
		state := before
		runner := commandtest.NewRunner(t, map[string]commandtest.Tool{
			simflash: func(_ context.Context, c command.Command) (command.Result, error) {
				switch {
				case c.Kind == command.Write:
					state = strings.Replace(before, `"Board Id"`, `"Stored":"1.1.0","Board Id"`, 1)
					return command.Result{ExitCode: code}, nil
				case c.Argv[1] == "-i":
					return command.Result{Stdout: []byte("board B\nversion 1.1.0\n")}, nil
				}
				return command.Result{Stdout: []byte(state)}, nil
			},
		})
		need, err := profile.New(runner, p).Write(t.Context(), cardID(), drivertest.SaveImage(t, "1.1.0", []byte("image")), nil)
		assert.Equal(t, want, need)
		switch code {
		case 7:
			require.ErrorIs(t, err, profile.ErrRetry)
			require.NotErrorAs(t, err, new(*driver.RejectedError))
		case 4:
			require.ErrorAs(t, err, new(*command.Error))
			require.NotErrorAs(t, err, new(*driver.RejectedError), "a code in no class is a failure, no verdict on the image")
		default:
			require.NoError(t, err)
		}
	}
}
