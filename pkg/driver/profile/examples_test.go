package profile_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
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

const examples = "../../../docs/examples/profiles"

func golden(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	require.NoError(t, err)
	return string(text)
}

// example is a shipped profile and a device of its.
type example struct {
	id     inventory.Identity
	tool   string
	output string
	argv   []string
	want   inventory.Firmware
	board  string
}

func shipped(t testing.TB) map[string]example {
	none := func(name string) string { return "profile " + name + " declares no rollback" }
	return map[string]example{
		"dell-bios": {
			id:   inventory.Identity{Class: inventory.BIOS, Vendor: "Dell Inc.", UniqueID: "4c4c4544"},
			tool: "dmidecode", output: golden(t, "dmidecode-3.5-dell.txt"), argv: []string{"dmidecode", "-t", "bios", "-t", "system"},
			want: inventory.Firmware{
				Running: "2.19.1", Activation: inventory.ActivateReboot, Format: inventory.FormatDotted, RollbackMessage: none("dell-bios"),
			},
			board: "PowerEdge R740",
		},
		"hpe-bios": {
			id:   inventory.Identity{Class: inventory.BIOS, Vendor: "HPE", UniqueID: "30373237"},
			tool: "dmidecode", output: golden(t, "dmidecode-3.5-hpe.txt"), argv: []string{"dmidecode", "-t", "bios"},
			want: inventory.Firmware{
				Running: "2.76", Activation: inventory.ActivateReboot, Format: inventory.FormatDotted, RollbackMessage: none("hpe-bios"),
			},
			board: "U30",
		},
		"intel-nvmupdate": {
			id: inventory.Identity{
				Class: inventory.NIC, VendorID: "8086", DeviceID: "1592", UniqueID: "b4:96:91:aa:9e:18", Kernel: "ice",
				PCI: []inventory.PCIAddress{{Bus: 6}},
			},
			tool: "nvmupdate64e", output: golden(t, "nvmupdate-inventory.xml"),
			argv: []string{"nvmupdate64e", "-i", "-o", "/dev/stdout"},
			want: inventory.Firmware{
				Running: "800077A6", RollbackMessage: none("intel-nvmupdate"),
				ReadOnly: "nvmupdate64e needs several files to write, which a profile cannot give it",
			},
			board: "K91258-006",
		},
		"lenovo-bios": {
			id:   inventory.Identity{Class: inventory.BIOS, Vendor: "Lenovo", UniqueID: "06c0f5a4"},
			tool: "dmidecode", output: golden(t, "dmidecode-3.5-lenovo.txt"), argv: []string{"dmidecode", "-t", "bios", "-t", "system"},
			want: inventory.Firmware{
				Running: "-[IVE178H-3.20]-", RollbackMessage: none("lenovo-bios"),
				ReadOnly: "OneCLI's update writes what its own repository holds, and not one image",
			},
			board: "ThinkSystem SR650 -[7X06CTO1WW]-",
		},
		"supermicro-bios": {
			id:   inventory.Identity{Class: inventory.BIOS, Vendor: "Supermicro", UniqueID: "00000000"},
			tool: "dmidecode", output: golden(t, "dmidecode-3.5-supermicro.txt"), argv: []string{"dmidecode", "-t", "bios", "-t", "system"},
			want:  inventory.Firmware{Running: "3.8b", RollbackMessage: none("supermicro-bios"), ReadOnly: "this profile is for settings"},
			board: "SYS-2029BT-HNC0R",
		},
		"perccli": controller("perccli", "1028"),
		"storcli": controller("storcli", "1000"),
	}
}

func controller(name, subsystem string) example {
	id := rearID(subsystem)
	id.UniqueID = rear.SAS // as the tool reports it
	return example{
		id: id, tool: name + "64", output: showAll([]raid{front, rear}), argv: []string{name + "64", "/call", "show", "J"},
		want: inventory.Firmware{
			Running: "52.16.1-4405", Activation: inventory.ActivateReboot, RollbackMessage: "profile " + name + " declares no rollback",
		},
	}
}

func loadExamples(t testing.TB) map[string]profile.Profile {
	t.Helper()
	all, err := profile.Load(os.DirFS(examples), examples)
	require.NoError(t, err)
	byName := map[string]profile.Profile{}
	for _, p := range all {
		byName[p.Name] = p
	}
	return byName
}

func TestExamplesReadTheirDevices(t *testing.T) {
	profiles, all := loadExamples(t), shipped(t)
	require.Len(t, profiles, len(all), "every shipped profile has a test")
	for name, e := range all {
		t.Run(name, func(t *testing.T) {
			runner := commandtest.NewRunner(t, map[string]commandtest.Tool{
				e.tool: func(_ context.Context, c command.Command) (command.Result, error) {
					assert.Equal(t, e.argv, c.Argv)
					assert.Equal(t, command.Query, c.Kind)
					return command.Result{Stdout: []byte(e.output)}, nil
				},
			})
			d := profile.New(runner, profiles[name])
			assert.Equal(t, driver.SupportVendor, d.Support(e.id))
			id, fw, err := d.Inspect(t.Context(), e.id)
			require.NoError(t, err)
			assert.Equal(t, e.want, fw)
			assert.Equal(t, e.board, id.BoardID)
			assert.Equal(t, e.id.UniqueID, id.UniqueID)
			again, _, err := d.Inspect(t.Context(), id)
			require.NoError(t, err)
			assert.Equal(t, id, again)
			for other, p := range profiles {
				if other != name {
					assert.Equal(t, driver.SupportNone, profile.New(nil, p).Support(e.id), other)
				}
			}
		})
	}
}

func TestExamplesKnowTheirExitCodes(t *testing.T) {
	const rejected, failed = "rejected", "failed"
	for name, want := range map[string]map[int]string{
		"dell-bios": {0: "Reboot", 1: failed, 2: "Reboot", 3: failed, 4: failed, 5: rejected, 6: failed, 7: failed, 9: failed, 255: failed},
		"hpe-bios":  {0: "Reboot", 1: "Reboot", 2: failed, 3: failed, 4: failed, 7: failed, 255: failed},
	} {
		e, p := shipped(t)[name], loadExamples(t)[name]
		for code, outcome := range want {
			img := drivertest.SaveImage(t, "2.80", []byte("#!/bin/sh\n"))
			option := map[string]string{"dell-bios": "-q", "hpe-bios": "-s"}[name]
			runner := commandtest.NewRunner(t, map[string]commandtest.Tool{
				e.tool: func(context.Context, command.Command) (command.Result, error) {
					return command.Result{Stdout: []byte(e.output)}, nil
				},
				"sh": func(_ context.Context, c command.Command) (command.Result, error) {
					assert.Equal(t, []string{"sh", img.Path, option}, c.Argv)
					assert.Equal(t, command.Write, c.Kind)
					assert.Equal(t, e.id.UniqueID, c.Lock)
					return command.Result{ExitCode: code, Stderr: []byte("what the tool said")}, nil
				},
			})
			d := profile.New(runner, p)
			require.NoError(t, d.Check(t.Context(), e.id, img))
			need, err := d.Write(t.Context(), e.id, img, nil)
			switch outcome {
			case rejected:
				require.ErrorAs(t, err, new(*driver.RejectedError), "%s %d", name, code)
			case failed:
				require.ErrorAs(t, err, new(*command.Error), "%s %d", name, code)
				require.NotErrorAs(t, err, new(*driver.RejectedError), "%s %d", name, code)
				assert.ErrorContains(t, err, "what the tool said")
			default:
				require.NoError(t, err, "%s %d", name, code)
				assert.Equal(t, outcome, need.String(), "%s %d", name, code)
			}
		}
	}
}

// "Already there" is believed only of a machine that runs the version.
func TestReadsBackCurrentROM(t *testing.T) {
	e, p := shipped(t)["hpe-bios"], loadExamples(t)["hpe-bios"]
	runner := commandtest.NewRunner(t, map[string]commandtest.Tool{
		e.tool: func(context.Context, command.Command) (command.Result, error) {
			return command.Result{Stdout: []byte(e.output)}, nil
		},
		"sh": func(context.Context, command.Command) (command.Result, error) {
			return command.Result{ExitCode: 2}, nil
		},
	})
	need, err := profile.New(runner, p).Write(t.Context(), e.id, drivertest.SaveImage(t, "2.76", []byte("rom")), nil)
	require.NoError(t, err)
	assert.Equal(t, inventory.ActivateNone, need)
}

func TestReadOnlyProfileNeverWrites(t *testing.T) {
	e, p := shipped(t)["intel-nvmupdate"], loadExamples(t)["intel-nvmupdate"]
	runner := commandtest.NewRunner(t, map[string]commandtest.Tool{
		e.tool: func(_ context.Context, c command.Command) (command.Result, error) {
			assert.Equal(t, command.Query, c.Kind)
			return command.Result{Stdout: []byte(e.output)}, nil
		},
	})
	d, img := profile.New(runner, p), drivertest.SaveImage(t, "800077B0", []byte("nvm"))
	require.ErrorAs(t, d.Check(t.Context(), e.id, img), new(*driver.RejectedError))
	_, err := d.Write(t.Context(), e.id, img, nil)
	require.ErrorIs(t, err, driver.ErrNotSupported)
	_, err = d.Activate(t.Context(), e.id, inventory.ActivateDeviceReset)
	require.ErrorIs(t, err, driver.ErrNotSupported)
}

func TestMissingToolIsAnError(t *testing.T) {
	e, p := shipped(t)["dell-bios"], loadExamples(t)["dell-bios"]
	runner := commandtest.NewRunner(t, map[string]commandtest.Tool{
		e.tool: func(context.Context, command.Command) (command.Result, error) {
			return command.Result{}, &command.Error{Argv: e.argv, ExitCode: -1, Err: command.ErrNotFound}
		},
	})
	_, fw, err := profile.New(runner, p).Inspect(t.Context(), e.id)
	require.ErrorIs(t, err, command.ErrNotFound)
	assert.Zero(t, fw)
	require.NotErrorIs(t, err, errors.ErrUnsupported)
}
